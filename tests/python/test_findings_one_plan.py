"""The page of findings on one plan. Every scenario is sound, and runs and is drawn in a short form. The page has the
text that the script writes."""

import re
import shlex
import shutil
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import commands
import script_loader
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.dtn.generated import LAYERS
from nightly import keep

bentpipe = pytest.importorskip("bentpipe")
pytest.importorskip("bentpipe._engine")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/findings/one-plan.md"
SAVED_FILES: dict[str, dict[str, list[str]]] = {
    "layers": {"layer": ["LTP"], "light": ["22 min"]},
    "layers-ip": {"flow.messages.congestion": ["no-op"], "quic.handshake": ["0-rtt"], "light": ["22 min"]},
    "layers-priorities": {"layer": ["LTP", "QUICCL, priorities"]},
    "layers-loss": {"layer": ["LTP", "LTP, green"], "graph.trunk.up.loss": ["0.1 %"]},
    "layers-ip-loss": {"flow.messages.congestion": ["open-loop"], "graph.trunk.up.loss": ["0.1 %"]},
    "layers-plan": {"layer": ["LTP"], "plan": ["right", "5 s late"]},
    "leo-passes": {"layer": ["LTP"]},
    "leo-ip": {"flow.messages.congestion": ["open-loop"]},
}
"""Cells of each sweep that the test runs."""
RUNS = {
    "layers": 56, "layers-ip": 24, "layers-priorities": 7, "layers-loss": 63, "layers-ip-loss": 18, "layers-plan": 35,
    "leo-passes": 12, "leo-ip": 4,
}  # fmt: skip
"""Cells of each complete sweep."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_loader.load_script("findings-one-plan")


def brief(file: Path, folder: Path) -> Path:
    """The scenario with a part of its sweep, and a fiftieth of the satellite's bytes; plans lie beside it."""
    text = (
        file.read_text().replace("-D 1500M", "-D 30M").replace("1500 MB", "30 MB").replace("seeds = 3\n", "")
    )
    table: dict[str, Any] = tomllib.loads(text)
    wanted = SAVED_FILES[file.stem]
    table["sweep"] = {
        key: [one for one in values if (one["label"] if isinstance(one, dict) else one) in wanted[key]]
        for key, values in table["sweep"].items()
    }
    if isinstance(plan := table["graph"]["contacts"], str) and plan.endswith(".toml"):
        table["graph"]["contacts"] = str(file.parent / plan)
    return Path(bentpipe.run(table, out=folder / file.stem, jobs=1).path)


@pytest.mark.parametrize("name", keep(["leo"], ["layers", "priorities", "loss", "plan", "leo"]))
def test_a_scenario_is_sound_and_is_drawn(name: str, script: ModuleType, tmp_path: Path) -> None:
    make, files = script.FINDINGS[name]
    for file in files:
        assert bentpipe.check(file).runs == RUNS[file.stem]
        brief(file, tmp_path)
    chart, title, tables = make(tmp_path)
    drawn = script.Figure(name, title, "", chart, 0).write(tmp_path / f"{name}.svg").read_text()
    assert "LTP" in drawn
    assert all("| LTP |" in rows for what, rows in tables.items() if what != "says")
    if "delivered" in tables:
        assert "| LTP | 1000 |" in tables["delivered"]
    if name == "layers":
        assert "| IP that waits, no-op, 0-RTT | 1000 |" in tables["delivered"]
    page = PAGE.read_text()
    assert f"scripts/findings-one-plan {name}" in page
    assert f"](one-plan-{name}.svg)" in page
    for what in tables:
        assert re.search(rf"<!-- {name}: {what} -->\n[^<\s]", page), what


def test_every_layer_is_in_the_comparison() -> None:
    sweep = tomllib.loads((ROOT / "scenarios/deep-space/layers.toml").read_text())["sweep"]["layer"]
    named = {
        load["layer"] if isinstance(load := cell["flow.trunk.load"]["bundles"], dict) else load
        for cell in sweep
    }
    assert named == set(LAYERS)


def test_early_data_begins_at_once(tmp_path: Path) -> None:
    """By hand: the connection is there after a wait for the pass (3,600 s) and light both ways (22 minutes)."""
    brief(ROOT / "scenarios/deep-space/layers-ip.toml", tmp_path)
    results = bentpipe.open_results(tmp_path / "layers-ip")
    client = results.flow_summary.filter(pl.col("side") == "client").row(0, named=True)
    assert client["data_start_s"] == 0
    assert client["connected_s"] == pytest.approx(3600 + 1320, abs=1)
    flows = results.sql("select time_s, written_bytes from flows where side = 'client' order by time_s")
    begun = flows.filter(pl.col("written_bytes") > 0)["time_s"][0]
    assert begun <= 5, "a sample"


def test_a_late_plan_is_the_same_to_ip(tmp_path: Path) -> None:
    """It knows the rate and the longest round trip, and both are those of the correct plan."""
    text = (ROOT / "scenarios/deep-space/mars-day.toml").read_text()
    late = re.sub(r'(start|stop) = "(\d+) min"', lambda one: f'{one[1]} = "{int(one[2]) * 60 + 30} s"', text)
    assert late.count(' s"') == 2 * (16 + 6)
    found = []
    for folder, plan in (("right", text), ("late", late)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mars-day.toml").write_text(plan)
        shutil.copy(ROOT / "scenarios/deep-space/layers-ip.toml", tmp_path / folder)
        runs = build_plan(load_scenario(tmp_path / folder / "layers-ip.toml"), "test").runs
        found.append(
            [(run.spec["flows"][0]["transport"], run.spec["flows"][0]["client_congestion"]) for run in runs]
        )
    assert found[0] == found[1]
    # the pass every 6 hours is of 15 minutes; light of 1.3 s, 10, 5 and 1 ms
    assert found[0][0][0]["initial_rtt_ns"] == 345 * 60 * 10**9 + 2 * 1_316 * 10**6


def test_the_passes_are_those_of_the_command(tmp_path: Path) -> None:
    """The plan of the satellite is what the command in the head of its scenario writes."""
    file = ROOT / "scenarios/dtn/leo-passes.toml"
    (line,) = [one for one in file.read_text().splitlines() if one.startswith("#   bentpipe dtn passes ")]
    words = shlex.split(line.removeprefix("#   bentpipe "))
    words[words.index("--out") + 1] = str(tmp_path / "plan.toml")
    done = commands.bentpipe(ROOT, *words)
    assert done.returncode == 0, done.stderr
    found = tomllib.loads((tmp_path / "plan.toml").read_text())
    places = {
        "78.23,15.39": "svalbard",
        "67.86,20.96": "kiruna",
        "68.32,-133.55": "inuvik",
        "OBSERVER": "satellite",
    }
    written = tomllib.loads(file.read_text())["dtn"]
    beside = tomllib.loads(file.with_name("leo-plan.toml").read_text())
    assert found["epoch"] == written["epoch"]
    for kind in ("contact", "range"):
        named = [{**one, "from": places[one["from"]], "to": places[one["to"]]} for one in found[kind]]
        assert len(named) > 20
        passes = [one for one in written[kind] if "centre" not in (one["from"], one["to"])]
        assert passes == named
        assert beside[kind] == written[kind], "IP's plan is the same"
