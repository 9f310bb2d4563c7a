"""The page of findings: every scenario is sound and runs, in a short form; the script draws, and writes the page's tables."""

import re
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import script_loader
from nightly import keep

bentpipe = pytest.importorskip("bentpipe")
pytest.importorskip("bentpipe._engine")

from bentpipe.plan.analysis.lint import LintWarning  # noqa: E402
from bentpipe.store.reader import Store  # noqa: E402
from bentpipe.trace_check import verify  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "scenarios/moving").glob("*.toml"))
PAGE = ROOT / "docs/findings/moving.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_loader.load_script("findings")


def short(file: Path, seconds: int, **axes: int) -> dict[str, Any]:
    """Return the scenario for some seconds and one seed, with the first value of each axis, or the given number of them."""
    table = tomllib.loads(file.read_text())
    table |= {"duration": f"{seconds} s", "seeds": 1}
    for flow in table["flow"]:
        flow.pop("start_jitter", None)
        if "time" in flow.get("load", {}):
            flow["load"] = {"time": f"{seconds} s"}
    table["sweep"] = {key: values[: axes.get(key, 1)] for key, values in table["sweep"].items()}
    return table


@pytest.mark.parametrize("file", keep(FILES[:1], FILES), ids=lambda file: file.stem)
def test_a_scenario_is_sound_and_its_first_cell_runs(file: Path) -> None:
    messages = pytest.warns(LintWarning) if file.stem == "elevation" else nullcontext()
    with messages:
        assert bentpipe.check(file).runs > 50
        results = bentpipe.run(short(file, 12), jobs=1)
    sent = results.flow_summary["sent_packets"].max()
    assert sent > (10 if file.stem == "short" else 50)


def test_the_page_has_each_finding_with_its_commands(script: ModuleType) -> None:
    text = PAGE.read_text()
    assert {file.stem for file in FILES} == set(script.FINDINGS)
    for name in script.FINDINGS:
        assert f"bentpipe run scenarios/moving/{name}.toml && scripts/findings {name}\n" in text
        assert f"]({name}.svg)" in text
        assert re.search(rf"<!-- {name}: \w+ -->\n\|", text), name


@pytest.mark.nightly
def test_verify_agrees_and_the_script_draws(script: ModuleType, tmp_path: Path) -> None:
    """Every mechanism of loss detection over the same channel: no step of a packet is against the rules."""
    table = short(ROOT / "scenarios/moving/detection.toml", 5, detection=9)
    table["trace"] = {"packet_steps": True}
    table["sweep"]["path.mobile.down.reordering_buffer"] = [0, 125]
    results = bentpipe.run(table, out=tmp_path / "detection", jobs=1)
    assert [found.findings for found in verify(Store(tmp_path / "detection"))] == [()] * 18

    chart, title, tables = script.FINDINGS["detection"](script.runs(results))
    drawn = script.Figure("detection", title, "", chart, 0).write(tmp_path / "detection.svg")
    assert "QUIC: packet threshold 1000" in drawn.read_text()
    rows = script.runs(results).filter(detection="TCP: RACK-TLP")
    assert f"| TCP: RACK-TLP | {rows['mbit_s'][0]:.3g}" in tables["goodput"]
    page = "<!-- detection: goodput -->\nold\n<!-- end -->\n<!-- short: buffer -->\nother\n<!-- end -->\n"
    new = script.written(page, "detection", tables)
    assert "\nold\n" not in new
    assert "other" in new
    assert tables["goodput"] in new
