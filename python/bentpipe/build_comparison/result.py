"""What came of two builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.metrics.change_table import notes

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.metrics.compare import Comparison

__all__ = ["BuildComparison", "Side"]


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
class BuildComparison:
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
        for side, count in zip(sides, alone, strict=True):
            if count:
                found.append(f"{count} flows of runs of {side.store} have no partner.")
        return [*found, *notes(self.comparison)]
