"""The page of findings on deep space: its cheap tables are what the scenarios give, of the others a cell; all have a command."""

import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import script_loader
from nightly import keep

bentpipe = pytest.importorskip("bentpipe")
pytest.importorskip("bentpipe._engine")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/findings/deep-space.md").read_text()
SCENARIOS = ROOT / "scenarios/deep-space"
WHOLE = ("handshake", "jump", "mars")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_loader.load_script("findings-deep-space")


def on_page(name: str) -> list[str]:
    found = re.search(rf"<!-- {name}: table -->\n(.+?)<!-- end -->", PAGE, re.DOTALL)
    assert found, name
    return found[1].splitlines()


@pytest.mark.parametrize("name", keep(WHOLE[:1], WHOLE))
def test_a_table_is_what_its_scenario_gives(name: str, script: ModuleType, tmp_path: Path) -> None:
    make, ((scenario,),) = script.FINDINGS[name]
    results = bentpipe.open_results(script.store(tmp_path, scenario))
    assert make(results).splitlines() == on_page(name)


def one_cell(scenario: str, folder: Path, **saved: str) -> Any:
    """The results of a scenario with one value of each sweep, by the sweep's last word."""
    table: dict[str, Any] = tomllib.loads((SCENARIOS / f"{scenario}.toml").read_text())
    table["sweep"] = {
        key: [
            one for one in values
            if (one["label"] if isinstance(one, dict) else one) == saved[key.rsplit(".", 1)[-1]]
        ]
        for key, values in table["sweep"].items()
    }  # fmt: skip
    assert all(table["sweep"].values())
    return bentpipe.run(table, out=folder, jobs=1)


@pytest.mark.nightly
def test_cells_of_the_others_are_what_their_scenarios_give(script: ModuleType, tmp_path: Path) -> None:
    trial = one_cell("ietf-124", tmp_path / "a", delay="4 min", in_flight="in-order", stack="no-op, profile")
    cell = script.trials(trial).splitlines()[-1].split(" | ")[1].removesuffix(" |")
    (row,) = [line for line in on_page("ietf-124") if line.startswith("| no-op, profile |")]
    assert row.split(" | ")[3] == cell
    enough = script.buffers(one_cell("buffers", tmp_path / "b", store_and_forward="120 MB")).splitlines()
    column = on_page("buffers")[0].split(" | ").index("120 MB")
    assert [line.split(" | ")[1].removesuffix(" |") for line in enough[2:]] == [
        line.split(" | ")[column].removesuffix(" |") for line in on_page("buffers")[2:]
    ]


def test_every_table_has_its_place_and_its_command(script: ModuleType) -> None:
    assert "scripts/findings-deep-space" in PAGE
    for name, (_, stores) in script.FINDINGS.items():
        assert len(on_page(name)) >= 4, name
        for scenario, *_ in stores:
            assert f"bentpipe run scenarios/deep-space/{scenario}.toml" in PAGE, scenario
