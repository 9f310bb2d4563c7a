"""Headline of a comparison: number of metrics that agree, and names of those that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.metrics.compare import Equivalence
from bentpipe.report.headline import NO_INTERVAL, Headline, join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.engine_validation.compare import Row

__all__ = ["WORDS", "opening"]

WORDS = {
    Equivalence.WITHIN.value: "the 95 % interval of the difference is entirely within the bound",
    Equivalence.EXCEEDED.value: "the interval is entirely outside the bound",
    Equivalence.UNDECIDED.value: f"the interval contains the bound, or {NO_INTERVAL}; more seeds narrow it",
    "difference": "emulation minus simulation, paired by seed, with its 95 % interval",
    "bound": "largest accepted difference; docs/validation.md explains each bound",
}
"""Explanations of terms on the page."""

MAX_NAMES = 3
"""Maximum number of metrics that the headline names for each verdict."""


def opening(rows: Sequence[Row]) -> Headline:
    """Return the headline of a comparison."""
    bounded = [row for row in rows if row.verdict is not Equivalence.UNBOUNDED]
    if not rows:
        return Headline("No run has finished in both simulation and emulation.")
    if not bounded:
        return Headline("The comparison has no verdict, because no metric has a bound.")
    within = sum(row.verdict is Equivalence.WITHIN for row in bounded)
    details = [
        _list_rows(bounded, Equivalence.EXCEEDED, "outside"),
        _list_rows(bounded, Equivalence.UNDECIDED, "undecided"),
    ]
    if any(not row.difference.known for row in bounded):
        details.append(NO_INTERVAL)
    if more := len(rows) - len(bounded):
        details.append(f"{more} {'metric has' if more == 1 else 'metrics have'} no bound")
    text = "; ".join(filter(None, details))
    return Headline(_headline_text(within, len(bounded)), f"{text[:1].upper()}{text[1:]}." if text else "")


def _headline_text(within: int, total: int) -> str:
    if within == total:
        return (
            "The only metric with a bound agrees."
            if total == 1
            else f"All {total} metrics of simulation and emulation agree."
        )
    if not within:
        return (
            f"No metric of {total} is shown to agree."
            if total > 1
            else "The only metric with a bound is not shown to agree."
        )
    return f"{within} of {total} metrics of simulation and emulation agree within their bounds."


def _list_rows(rows: Sequence[Row], verdict: Equivalence, word: str) -> str:
    matches = [row for row in rows if row.verdict is verdict]
    names = [
        f"{row.metric.title} of {row.flow}{f' ({row.congestion})' if row.congestion else ''} by {row.apart}"
        + ("" if row.relative else f" {row.metric.unit}".rstrip())
        for row in matches[:MAX_NAMES]
    ]
    more = [f"{len(matches) - MAX_NAMES} more"] if len(matches) > MAX_NAMES else []
    return f"{len(matches)} {word}: {join_names([*names, *more])}" if matches else ""
