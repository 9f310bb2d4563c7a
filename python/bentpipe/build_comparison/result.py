"""Result of a comparison of two builds."""

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
    """One of the two builds."""

    word: str
    """Name on the command line."""
    engine: str = ""
    """Version of the engine that made its runs."""
    store: Path | None = None
    """Store of its runs."""
    whole: bool = True
    """True if no run failed."""


@dataclass(frozen=True)
class BuildComparison:
    """Both builds, and the changes from the first to the second."""

    before: Side
    after: Side
    comparison: Comparison

    @property
    def worse(self) -> bool:
        """True if the second build has a regression, or if a run of either build failed."""
        return self.comparison.regressed or not (self.before.whole and self.after.whole)

    @property
    def undecided(self) -> bool:
        """True without a regression if a comparison of the primary metric has no verdict, or if there is none."""
        return not self.worse and (not self.comparison.changes or self.comparison.undecided)

    def notes(self) -> list[str]:
        """Return further notes, one sentence each."""
        sides = (self.before, self.after)
        sentences = [f"Some runs of {side.word} failed." for side in sides if not side.whole]
        unpaired = (self.comparison.only_before, self.comparison.only_after)
        for side, count in zip(sides, unpaired, strict=True):
            if count:
                sentences.append(f"{count} flows of runs of {side.store} have no counterpart.")
        return [*sentences, *notes(self.comparison)]
