"""The short form of ``scripts/hard-use``: about two minutes of kills, floods, mutated input, damage and large
inputs."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import hard_use
import realtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


COMPUTE = ("scenarios", "flips", "connections")
"""Parts that judge no time and need nothing of the system."""
PARTS = [
    pytest.param(part, id=part.name, marks=() if part.name in COMPUTE else pytest.mark.lab)
    for part in hard_use.PARTS
]


@pytest.mark.nightly
@pytest.mark.parametrize("part", PARTS)
def test_the_short_form(part: hard_use.Part, tmp_path: Path) -> None:
    if part.root:
        realtime.need_root("a machine of its own")
        realtime.need_namespaces("nft", "nsenter", "setpriv")
    assert hard_use.main([part.name, "--short", "--seed", "7", "--out", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in (tmp_path / f"{part.name}.short.jsonl").read_text().splitlines()]
    assert len(lines) == part.short


def test_it_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Passed cases do not run again, failed ones do, and a truncated line of the record does not count."""
    carried: list[int] = []
    broken = {3_000_001}

    @contextmanager
    def opened(_: bool) -> Iterator[hard_use.Case]:
        def case(seed: int) -> str:
            carried.append(seed)
            if seed == 3_000_002 and len(carried) < 4:
                raise OSError("a case may raise")
            return "broken" if seed in broken else ""

        yield case

    part = hard_use.Part("toy", "", 4, 4, 1, opened)
    first = hard_use.carry(part, seed=3, short=False, out=tmp_path)
    assert (first.passed, first.saved, first.failed) == (2, 0, 2)
    with (tmp_path / "toy.jsonl").open("a") as file:
        file.write('{"case": 3000001, "wr')
    carried.clear()
    broken.clear()
    again = hard_use.carry(part, seed=3, short=False, out=tmp_path)
    assert carried == [3_000_001, 3_000_002]
    assert (again.passed, again.saved, again.failed) == (3, 2, 1), "the third raises once more, as drawn"
    assert "toy 3000002: OSError: a case may raise" in capsys.readouterr().err
    assert hard_use.carry(part, seed=4, short=False, out=tmp_path).saved == 0, "another seed is another draw"
