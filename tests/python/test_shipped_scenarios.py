"""``bentpipe examples``: what comes along is listed, copied with the files that it names, and never over another file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bentpipe.scenario.examples import examples
from commands import bentpipe

ROOT = Path(__file__).resolve().parents[2]


def test_every_scenario_is_listed_with_what_it_names(tmp_path: Path) -> None:
    rows = json.loads(bentpipe(tmp_path, "examples", "--json").stdout)
    listed = {row["scenario"] for row in rows}
    files = {
        str(file.relative_to(ROOT / "scenarios").with_suffix("")) for file in ROOT.glob("scenarios/**/*.toml")
    }
    # Files used by scenarios are not scenarios: contact plans.
    assert files - listed == {"deep-space/mars-day", "deep-space/mars-plan", "dtn/leo-plan"}
    beside = {one.name: [file.name for file in one.input_files] for one in examples() if one.input_files}
    assert beside["deep-space/mars"] == ["mars-plan.toml"]
    assert beside["deep-space/layers-plan"] == beside["deep-space/layers-ip"] == ["mars-day.toml"]
    assert beside["dtn/leo-ip"] == ["leo-plan.toml"]


def test_a_copy_is_whole_and_works(tmp_path: Path) -> None:
    assert (
        bentpipe(tmp_path, "examples", "deep-space/mars", "--out", "a/b").stdout
        == "a/b/mars.toml\na/b/mars-plan.toml\n"
    )
    assert bentpipe(tmp_path / "a/b", "check", "mars.toml").returncode == 0
    again = bentpipe(tmp_path, "examples", "deep-space/mars", "--out", "a/b", "--json")
    assert json.loads(again.stdout) == ["a/b/mars.toml", "a/b/mars-plan.toml"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("geoo", 'error: NAME: no scenario "geoo", expected one of: calls, '),
        (
            "deep-space/mars",
            "error: mars-plan.toml: exists with other content; choose another directory with --out DIR\n",
        ),
    ],
)
def test_a_failed_copy_changes_nothing(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "mars-plan.toml").write_text("mine")
    done = bentpipe(tmp_path, "examples", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]
