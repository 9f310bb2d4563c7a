"""First sentences of a suite: failures and differences of each controller, and the counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.report.headline import join_names
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from bentpipe.suite.results import CellResult, SuiteResult

__all__ = ["headline_text", "supporting_text"]

NAMED = 2
"""Largest number of controllers whose differences are named; of more they are counted."""


def headline_text(result: SuiteResult) -> str:
    """Return the failures of each controller, the controllers without one, and the differences from trends."""
    failing, good, differing = [], [], []
    for controller in result.controllers:
        cells = [cell for cell in result.cells if cell.controller.label == controller]
        failed = [cell for cell in cells if cell.outcome in (Outcome.FAILS, Outcome.ERROR)]
        different = [cell for cell in cells if cell.outcome is Outcome.DIFFERS]
        if failed:
            failing.append(f"{controller} fails {_names(failed)}.")
        else:
            good.append(controller)
        if different:
            differing.append((controller, different))
    sentences = failing
    if good:
        verb = "meets" if len(good) == 1 else "meet"
        count = _count(len(result.entries), "scenario")
        sentences.append(f"{join_names(good)} {verb} every exact value and bound of {count}.")
    if len(result.controllers) <= NAMED:
        sentences += [f"{one} differs from published trends in {_names(cells)}." for one, cells in differing]
    elif differing:
        counts = [f"{one} ({len(cells)})" for one, cells in differing]
        sentences.append(f"Scenarios that differ from published trends: {', '.join(counts)}.")
    return " ".join(sentences)


def _names(cells: list[CellResult]) -> str:
    return join_names([cell.entry.name for cell in cells])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def supporting_text(result: SuiteResult) -> str:
    """Return the number of cells by outcome, and the meaning of the classes."""
    counts = Counter(cell.outcome for cell in result.cells)
    parts = [f"{counts[outcome]} {_OUTCOMES[outcome]}" for outcome in Outcome if counts[outcome]]
    return (
        f"{_count(len(result.cells), 'cell')} of scenario and controller: {join_names(parts)}. Exact values and bounds "
        "decide; a trend is the figure of another implementation, so a difference is no failure."
    )


_OUTCOMES = {
    Outcome.ERROR: "with an error",
    Outcome.FAILS: "failed",
    Outcome.DIFFERS: "with a different trend",
    Outcome.UNDECIDED: "undecided",
    Outcome.PASSES: "passed",
    Outcome.UNPUBLISHED: "without a published value",
}
