"""Every scenario that `check` passes, the engine takes (mutations.py makes them; by the thousand from the command line)."""

from __future__ import annotations

from collections import Counter

import pytest

import mutations
from nightly import keep

FIRST, COUNT = 31_000, 40


@pytest.mark.parametrize("count", keep([12], [12, COUNT]))
def test_the_engine_accepts_every_checked_scenario(count: int) -> None:
    kinds: Counter[str] = Counter()
    for number in range(FIRST, FIRST + count):
        found = mutations.mutant(number)
        verdict = mutations.judge(found)
        kinds[verdict.kind] += 1
        assert verdict.kind != "fault", (
            f"mutant {number} of {found.source}, {found.how}:\n{found.text}\n{verdict.message}"
        )
    assert kinds["ran"] > count / 10
    assert kinds["refused"] > count / 10


def test_a_mutant_is_its_number() -> None:
    assert mutations.mutant(FIRST) == mutations.mutant(FIRST)
    assert mutations.mutant(FIRST) != mutations.mutant(FIRST + 1)


@pytest.mark.parametrize("broken", ["raises", "refuses"])
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    whole = next(
        one
        for one in map(mutations.mutant, range(FIRST, FIRST + COUNT))
        if mutations.judge(one).kind == "ran"
    )

    def wrong(*_: object) -> None:
        raise KeyError("x") if broken == "raises" else ValueError("there is no node")

    monkeypatch.setattr(
        *((mutations, "bounds", wrong) if broken == "raises" else (mutations.engine, "run", wrong))
    )
    verdict = mutations.judge(whole)
    assert verdict.kind == "fault"
    assert ("KeyError: 'x'" if broken == "raises" else "the engine: there is no node") in verdict.message
