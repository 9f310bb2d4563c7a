"""Headline of a comparison: number of metrics that agree, and names of those that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.engine_validation.bounds import Verdict
from bentpipe.report.headline import NO_INTERVAL, Headline, join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.engine_validation.compare import Row

__all__ = ["WORDS", "opening"]

WORDS = {
    Verdict.WITHIN.value: "the whole 95 % interval of the difference is within the bound",
    Verdict.EXCEEDED.value: "the whole interval is beyond the bound",
    Verdict.UNDECIDED.value: f"the interval holds the bound: more seeds narrow it; {NO_INTERVAL}",
    "difference": "real minus simulated, in pairs of seeds, with its 95 % interval",
    "bound": "what the difference may be: docs/validation.md says where each comes from",
}
"""Explanations of terms on the page."""

MAX_NAMES = 3
"""Maximum number of metrics that the headline names for each verdict."""


def opening(rows: Sequence[Row]) -> Headline:
    """Return the headline of a comparison."""
    bounded = [row for row in rows if row.verdict is not Verdict.SHOWN]
    if not rows:
        return Headline("Nothing has run on both clocks.")
    if not bounded:
        return Headline("Both clocks side by side: no number has a bound to be judged by.")
    within = sum(row.verdict is Verdict.WITHIN for row in bounded)
    details = [
        _list_rows(bounded, Verdict.EXCEEDED, "beyond"),
        _list_rows(bounded, Verdict.UNDECIDED, "undecided"),
    ]
    if any(not row.difference.known for row in bounded):
        details.append(NO_INTERVAL)
    if more := len(rows) - len(bounded):
        details.append(f"{more} more {'has no bound and is' if more == 1 else 'have no bound and are'} shown")
    text = "; ".join(filter(None, details))
    return Headline(_headline_text(within, len(bounded)), f"{text[:1].upper()}{text[1:]}." if text else "")


def _headline_text(within: int, total: int) -> str:
    if within == total:
        return (
            "The one number that is judged agrees."
            if total == 1
            else f"All {total} numbers agree on both clocks."
        )
    if not within:
        return (
            f"None of {total} numbers is shown to agree on both clocks."
            if total > 1
            else "The one number that is judged is not shown to agree."
        )
    return f"{within} of {total} numbers agree on both clocks, within their bounds."


def _list_rows(rows: Sequence[Row], verdict: Verdict, word: str) -> str:
    matches = [row for row in rows if row.verdict is verdict]
    names = [
        f"{row.metric.title} of {row.flow}{f' ({row.congestion})' if row.congestion else ''} by {row.apart}"
        + ("" if row.relative else f" {row.metric.unit}".rstrip())
        for row in matches[:MAX_NAMES]
    ]
    more = [f"{len(matches) - MAX_NAMES} more"] if len(matches) > MAX_NAMES else []
    return f"{len(matches)} {word}: {join_names([*names, *more])}" if matches else ""
