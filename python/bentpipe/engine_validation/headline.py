"""How the page of a comparison begins: how many numbers agree on both clocks, and which do not."""

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
"""What words of the page mean."""

NAMED = 3
"""Numbers that are named of those that do not agree."""


def opening(rows: Sequence[Row]) -> Headline:
    """Of the numbers of both stores."""
    judged = [row for row in rows if row.verdict is not Verdict.SHOWN]
    if not rows:
        return Headline("Nothing has run on both clocks.")
    if not judged:
        return Headline("Both clocks side by side: no number has a bound to be judged by.")
    held = sum(row.verdict is Verdict.WITHIN for row in judged)
    tally = [_named(judged, Verdict.EXCEEDED, "beyond"), _named(judged, Verdict.UNDECIDED, "undecided")]
    if any(not row.difference.known for row in judged):
        tally.append(NO_INTERVAL)
    if more := len(rows) - len(judged):
        tally.append(f"{more} more {'has no bound and is' if more == 1 else 'have no bound and are'} shown")
    text = "; ".join(filter(None, tally))
    return Headline(_sentence(held, len(judged)), f"{text[:1].upper()}{text[1:]}." if text else "")


def _sentence(held: int, of: int) -> str:
    if held == of:
        return (
            "The one number that is judged agrees." if of == 1 else f"All {of} numbers agree on both clocks."
        )
    if not held:
        return (
            f"None of {of} numbers is shown to agree on both clocks."
            if of > 1
            else "The one number that is judged is not shown to agree."
        )
    return f"{held} of {of} numbers agree on both clocks, within their bounds."


def _named(rows: Sequence[Row], which: Verdict, word: str) -> str:
    found = [row for row in rows if row.verdict is which]
    names = [
        f"{row.metric.title} of {row.flow}{f' ({row.congestion})' if row.congestion else ''} by {row.apart}"
        + ("" if row.relative else f" {row.metric.unit}".rstrip())
        for row in found[:NAMED]
    ]
    more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
    return f"{len(found)} {word}: {join_names([*names, *more])}" if found else ""
