"""First sentences of a suite: failures and differences of each controller, and the counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.report.headline import join_names
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from bentpipe.suite.results import CellResult, SuiteResult

__all__ = ["headline_text", "supporting_text"]


def headline_text(result: SuiteResult) -> str:
    """Return one sentence for each controller: its failures, or that no exact value or bound is missed."""
    sentences = []
    for controller in result.controllers:
        cells = [cell for cell in result.cells if cell.controller.label == controller]
        failed = [cell for cell in cells if cell.outcome in (Outcome.FAILS, Outcome.ERROR)]
        differing = [cell for cell in cells if cell.outcome is Outcome.DIFFERS]
        if failed:
            text = f"{controller} fails {_names(failed)}"
        else:
            text = f"{controller} meets every exact value and bound of {_count(len(cells), 'scenario')}"
        if differing:
            text += f", and differs from published trends in {_names(differing)}"
        sentences.append(f"{text}.")
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
