"""The page of findings on one plan: every scenario is sound, runs and is drawn in a short form; the page has what the script writes."""

import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import other

bentpipe = pytest.importorskip("bentpipe")
pytest.importorskip("bentpipe._engine")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/findings/one-plan.md"
KEPT: dict[str, dict[str, list[str]]] = {
    "layers": {"layer": ["LTP"], "light": ["22 min"]},
    "layers-ip": {"flow.messages.congestion": ["no-op"], "light": ["22 min"]},
    "layers-loss": {"layer": ["LTP"], "graph.trunk.up.loss": ["0.1 %"]},
    "layers-plan": {"layer": ["LTP"], "plan": ["right", "5 s late"]},
    "leo-passes": {"layer": ["LTP"]},
}
"""What of each sweep is run here."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return other.script("findings-one-plan")


def brief(file: Path, folder: Path) -> Path:
    """The scenario with a part of its sweep, and a fiftieth of the satellite's bundles; plans lie beside it."""
    text = file.read_text().replace("-D 1500M", "-D 30M").replace("seeds = 3\n", "")
    table: dict[str, Any] = tomllib.loads(text)
    wanted = KEPT[file.stem]
    table["sweep"] = {
        key: [one for one in values if (one["label"] if isinstance(one, dict) else one) in wanted[key]]
        for key, values in table["sweep"].items()
    }
    if isinstance(plan := table["graph"]["contacts"], str) and plan.endswith(".toml"):
        table["graph"]["contacts"] = str(file.parent / plan)
    return Path(bentpipe.run(table, out=folder / file.stem, jobs=1).path)


@pytest.mark.parametrize("name", ["layers", "loss", "plan", "leo"])
def test_a_scenario_is_sound_and_is_drawn(name: str, script: ModuleType, tmp_path: Path) -> None:
    make, files = script.FINDINGS[name]
    for file in files:
        assert bentpipe.check(file).runs >= 8
        brief(file, tmp_path)
    chart, title, tables = make(tmp_path)
    drawn = script.Figure(name, title, "", chart, 0).write(tmp_path / f"{name}.svg").read_text()
    assert "LTP" in drawn
    assert all("| LTP |" in rows for what, rows in tables.items() if what != "says")
    if "delivered" in tables:
        assert "| LTP | 1000 |" in tables["delivered"]
    if name == "layers":
        assert "| IP that waits, no-op | 1000 |" in tables["delivered"]
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
    assert named == {"ltp", "tcpcl", "mtcp", "quiccl", "quiccl-each", "qubicle"}
