"""The page of findings on users: every scenario is sound, runs and is drawn in a short form; the page has what the script writes."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import script_loader
from nightly import keep

bentpipe = pytest.importorskip("bentpipe")
pytest.importorskip("bentpipe._engine")

from test_findings import short  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "scenarios/users").glob("users-*.toml"))
PAGE = ROOT / "docs/findings/users.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_loader.load_script("findings-users")


@pytest.mark.parametrize("file", keep(FILES[:1], FILES), ids=lambda file: file.stem)
def test_a_scenario_is_sound_and_is_drawn(file: Path, script: ModuleType, tmp_path: Path) -> None:
    assert bentpipe.check(file).runs >= 100
    axes = {"flow.download.congestion": 2, "flow.reader.load.http": 2, "stack": 4, "carried": 2}
    # downloads alone have shares and waits in twelve round trips; calls and pages take longer
    seconds = 2 if file.stem in ("users-sizes", "users-stacks") else 4
    table = short(file, seconds, discipline=20, **axes)
    table["seeds"] = 2
    for flow in table["flow"]:
        flow["count"] = 3
        if "page" in flow["load"]:
            flow["load"] |= {"loads": 1}
    if "flow.terminal.count" in table["sweep"]:
        table["sweep"]["flow.terminal.count"] = [3, 4]
    results = bentpipe.run(table, out=tmp_path / file.stem, jobs=2)
    name = file.stem.removeprefix("users-")
    chart, title, tables = script.FINDINGS[name](results.path)
    drawn = script.Figure(file.stem, title, "", chart, 0).write(tmp_path / f"{name}.svg").read_text()
    labels = [axis["label"] for axis in table["sweep"]["discipline"]]
    for label in labels:
        shown = script.placed(label) if name == "sizes" else [label]
        assert all(part in drawn for part in shown)
        assert all(f"| {label} |" in rows for what, rows in tables.items() if what not in ("says", "factors"))
    page = PAGE.read_text()
    assert f"bentpipe run scenarios/users/{file.name} && scripts/findings-users {name}\n" in page
    assert f"]({file.stem}.svg)" in page
    for what in tables:
        assert re.search(rf"<!-- {name}: {what} -->\n\S", page), what
