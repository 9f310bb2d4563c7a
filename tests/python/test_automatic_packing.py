"""A store of many runs packs itself at the end of an execution."""

from __future__ import annotations

from pathlib import Path

import pytest

import bentpipe
import store_damage
from bentpipe.store import packing
from commands import bentpipe as command

SCENARIO = """
duration = "1 s"
seeds = 3
[[path.segment]]
name = "sky"
delay = "5 ms"
both = { rate = "1 Mbit/s", loss = "1 %" }
[[flow]]
name = "bulk"
congestion = "cubic"
load = { bytes = "10 kB" }
"""


def test_a_large_store_packs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "many.toml").write_text(SCENARIO)
    assert command(tmp_path, "run", "many.toml", "--out", "loose").returncode == 0
    assert len(list((tmp_path / "loose/runs").iterdir())) == 3
    monkeypatch.setattr(packing, "MAX_UNPACKED", 2)
    done = command(tmp_path, "run", "many.toml", "--out", "packed")
    assert (done.returncode, done.stderr.count("error")) == (0, 0)
    assert not list((tmp_path / "packed/runs").iterdir())
    assert len(list((tmp_path / "packed/packs").iterdir())) == 1
    assert store_damage.values(tmp_path / "packed") == store_damage.values(tmp_path / "loose")


def test_more_seeds_of_a_packed_store_are_packed_with_the_next_execution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_UNPACKED", 2)
    (tmp_path / "many.toml").write_text(SCENARIO)
    bentpipe.run(tmp_path / "many.toml", out=tmp_path / "store", jobs=1)
    results = bentpipe.run(tmp_path / "many.toml", out=tmp_path / "store", jobs=1, seeds=5)
    assert len(list((tmp_path / "store/runs").iterdir())) == 2
    assert results.runs.height == 5


def test_the_limit_is_five_thousand() -> None:
    assert packing.MAX_UNPACKED == 5_000
