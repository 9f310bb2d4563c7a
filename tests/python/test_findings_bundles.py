"""The page of findings on bundles: every scenario is sound, runs and is drawn in a short form; the page has what the script writes."""

import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import script_loader
from nightly import keep

bentpipe = pytest.importorskip("bentpipe")
pytest.importorskip("bentpipe._engine")

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "scenarios/bundles").glob("bundles-*.toml"))
PAGE = ROOT / "docs/findings/bundles.md"
ROWS = {"layers": "layer", "sizes": "layer", "controllers": "controller", "paces": "pace", "plan": "plan"}
"""Return the row names of a finding's tables."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_loader.load_script("findings-bundles")


def brief(file: Path, row: str) -> dict[str, Any]:
    """The scenario with every row of its tables and the first value of all else, over a fiftieth of its bundles."""
    table = tomllib.loads(re.sub(r"-D 20M", "-D 400k", re.sub(r"-T [26]0", "-T 1", file.read_text())))
    table |= {"duration": "40 s", "seeds": 2}
    table["sweep"] = {key: values if key == row else values[:1] for key, values in table["sweep"].items()}
    return table


@pytest.mark.parametrize("file", keep(FILES[:1], FILES), ids=lambda file: file.stem)
def test_a_scenario_is_sound_and_is_drawn(file: Path, script: ModuleType, tmp_path: Path) -> None:
    name = file.stem.removeprefix("bundles-")
    assert bentpipe.check(file).runs >= 80
    table = brief(file, ROWS[name])
    results = bentpipe.run(table, out=tmp_path / file.stem, jobs=1)
    found = script.runs(results.path)
    assert found["delivered"].to_list() == found["generated"].to_list()
    rate = 24 if name == "paces" else 20
    assert found["mbit_s"].is_between(0.1, rate).all()
    chart, title, tables = script.FINDINGS[name](results.path)
    drawn = script.Figure(file.stem, title, "", chart, 0).write(tmp_path / f"{name}.svg").read_text()
    for label in (axis["label"] for axis in table["sweep"][ROWS[name]]):
        assert label in drawn
        assert all(f"| {label} |" in rows for what, rows in tables.items() if what != "says")
    page = PAGE.read_text()
    assert f"bentpipe run scenarios/bundles/{file.name} && scripts/findings-bundles {name}\n" in page
    assert f"]({file.stem}.svg)" in page
    for what in tables:
        assert re.search(rf"<!-- {name}: {what} -->\n\S", page), what


def test_every_layer_and_controller_is_on_the_page() -> None:
    sweeps = {file.stem: tomllib.loads(file.read_text())["sweep"] for file in FILES}
    named = {
        layer
        for axis in sweeps["bundles-layers"]["layer"]
        for layer in [axis["flow.down.load.bundles.layer"]]
    }
    assert named == {"tcpcl", "mtcp", "quiccl", "quiccl-each", "qubicle"}
    controllers = {axis["label"] for axis in sweeps["bundles-controllers"]["controller"]}
    assert controllers == {"newreno", "cubic", "westwood", "hybla", "fast", "bbr1", "bbr3"}


def test_measurements_are_those_of_the_bundles(script: ModuleType, tmp_path: Path) -> None:
    """Two bundles over a hop without loss: the way of each, and goodput to the last, against the table itself."""
    table = brief(ROOT / "scenarios/bundles/bundles-sizes.toml", "layer")
    table["sweep"] = {"layer": table["sweep"]["layer"][2:3]}
    table["graph"]["link"][0]["up"]["loss"] = "0 %"
    table["flow"][0]["load"]["bundles"]["dtnperf"] = "-W 2 -P 200k -D 400k"
    results = bentpipe.run(table, out=tmp_path / "two", jobs=1)
    events = script.open_store(results.path).rows("bundles").filter(kind="data", event="delivered")
    times = events.filter(pl.col("run") == events["run"][0])["time_s"].sort().to_list()
    found = script.runs(results.path).row(0, named=True)
    assert found["took"] == pytest.approx(sum(times) / 2)
    assert found["mbit_s"] == pytest.approx(3.2 / times[1])
    # two round trips, a light time, 0.08 s at the link's rate, and at most four round trips of start-up from 10 packets
    least = 2 * 0.5 + 0.25 + 0.08
    assert least < times[0] < least + 4 * 0.5
