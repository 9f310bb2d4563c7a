"""What came of two builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.stats.diff import Comparison

__all__ = ["FEW", "Regressed", "Side"]

FEW = 5
"""Pairs below which an interval says too little: of two equal builds, one is ahead in all of n pairs with a chance of
2 / 2^n, which is 1 in 8 of four and 1 in 16 of five."""


@dataclass(frozen=True)
class Side:
    """One of the two."""

    word: str
    """What it was called."""
    engine: str = ""
    """Version of the engine that made its runs."""
    store: Path | None = None
    """Where they are."""
    whole: bool = True
    """Whether every run could be made."""


@dataclass(frozen=True)
class Regressed:
    """The two, and what changed from one to the other."""

    before: Side
    after: Side
    comparison: Comparison

    @property
    def worse(self) -> bool:
        """Whether the second is worse, or one did not do what it was asked to."""
        return self.comparison.regressed or not (self.before.whole and self.after.whole)

    def notes(self) -> list[str]:
        """What else there is to know, a sentence each."""
        sides = (self.before, self.after)
        found = [f"Not every run could be made by {side.word}." for side in sides if not side.whole]
        alone = (self.comparison.only_before, self.comparison.only_after)
        for side, rows in zip(sides, alone, strict=True):
            if rows:
                found.append(f"{rows} rows of {side.store} have no partner.")
        pairs = min((change.pairs for change in self.comparison.changes), default=0)
        if 1 < pairs < FEW:
            found.append(f"Intervals of {pairs} pairs are too narrow: more seeds say more.")
        return found
