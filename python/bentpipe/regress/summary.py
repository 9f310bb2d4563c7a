"""What came of two builds, in a sentence and in Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bentpipe.stats.titles import METRICS
from bentpipe.stats.wording import bracketed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.regress.outcome import Regressed
    from bentpipe.stats.diff import Change, Comparison

__all__ = ["markdown", "sentence"]

MOST = 3
"""Changes that the sentence names; the others it counts."""


def sentence(comparison: Comparison) -> str:
    """The answer: what got worse and by how much, then what got better."""
    parts = []
    for verdict, word in (("regression", "Worse"), ("improvement", "Better")):
        found = [change for change in comparison.changes if change.verdict == verdict]
        if found:
            named = "; ".join(_said(change) for change in found[:MOST])
            more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
            parts.append(f"{word}: {named}{more}.")
    rest = sum(change.verdict == "none" for change in comparison.changes)
    of = len(comparison.changes)
    if not parts:
        return f"No change in {of} comparisons." if of != 1 else "No change in the one comparison."
    return " ".join(parts) + (f" No change in {rest} of {of} comparisons." if rest else "")


def _said(change: Change) -> str:
    metric = METRICS[change.metric]
    whose = f" of {change.flow}" if change.flow else ""
    way = f" ({change.direction})" if change.direction else ""
    what = f"{metric.title}{whose}{way}"
    if not change.before:
        return f"{what} was 0"
    return f"{what} is {bracketed(change.ratio, digits=3)} times what it was"


def markdown(title: str, found: Regressed, intervals: str) -> str:
    """A section of Markdown: the sentence, what has a verdict as a table, the rest folded.

    Args:
        title: of the section.
        found: what came of the two.
        intervals: what the intervals are.
    """
    rows = found.comparison.lines()
    judged = [row for row in rows if row["verdict"]]
    others = [row for row in rows if not row["verdict"]]
    parts = [f"### {_plain(title)}", _plain(sentence(found.comparison))]
    if judged:
        parts.append(_table(judged))
    if others:
        about = f"{len(others)} without a change" if judged else "All comparisons"
        parts.append(f"<details><summary>{about}</summary>\n\n{_table(others)}\n\n</details>")
    before, after = (
        f"{_code(side.word)}{f' (engine {_plain(side.engine)})' if side.engine else ''}"
        for side in (found.before, found.after)
    )
    parts.append(" ".join([f"Before: {before}; after: {after}.", *map(_plain, found.notes()), intervals]))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_plain(str(row[name])) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown and HTML take for nothing else, on one line."""
    return re.sub(r"([\\`*_<>|~]|\](?=[(\[]))", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Words as they were typed."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {' '.join(text.split())} {fence}" if len(fence) > 1 else f"`{' '.join(text.split())}`"
