"""A store of many runs that are not packed: one line on standard error."""

from __future__ import annotations

from pathlib import Path

import pytest

from bentpipe.cli import common
from commands import bentpipe as command
from test_shown import flow, scenario, stored


@pytest.mark.parametrize(
    "words", [["show", "."], ["show", ".", "--json"], ["query", ".", "SELECT 1"], ["report", "."]]
)
def test_many_unpacked_runs_suggest_packing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stored(scenario(flow(), loss="1 %", seeds=3), tmp_path / "store").path
    assert command(place, *words).stderr == ""
    monkeypatch.setattr(common, "MAX_UNPACKED", 2)
    said = command(place, *words)
    assert said.stderr == "note: . has 3 unpacked runs; bentpipe pack . compresses it and speeds up reading\n"
    assert said.returncode == 0
    assert command(place, "pack", ".").stderr == ""
    assert command(place, *words).stderr == ""


def test_the_bound_is_five_thousand() -> None:
    assert common.MAX_UNPACKED == 5_000


def test_a_run_that_makes_many_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "MAX_UNPACKED", 2)
    (tmp_path / "many.toml").write_text(
        'duration = "1 s"\nseeds = 3\n'
        '[[path.segment]]\nname = "sky"\ndelay = "5 ms"\nboth = { rate = "1 Mbit/s", loss = "1 %" }\n'
        '[[flow]]\nname = "bulk"\ncongestion = "cubic"\nload = { bytes = "10 kB" }\n'
    )
    assert (
        command(tmp_path, "run", "many.toml")
        .stderr.splitlines()[-1]
        .startswith("note: out/many has 3 unpacked runs")
    )
