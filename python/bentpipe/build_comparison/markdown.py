"""What came of two builds, in a sentence and in Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.change_table import format_effect, format_rows
from bentpipe.metrics.compare import Scale
from bentpipe.metrics.registry import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.build_comparison.result import BuildComparison
    from bentpipe.metrics.compare import Comparison, MetricChange

__all__ = ["headline_text", "markdown"]

MOST = 3
"""Changes that the sentence names; the others it counts."""


def headline_text(comparison: Comparison) -> str:
    """The answer: what got worse and by how much, then what got better."""
    parts = []
    for verdict, word in (("regression", "Worse"), ("improvement", "Better")):
        found = [change for change in comparison.changes if change.verdict == verdict]
        if found:
            named = "; ".join(_said(change) for change in found[:MOST])
            more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
            parts.append(f"{word}: {named}{more}.")
    of = len(comparison.changes)
    rest = sum(change.verdict == "none" for change in comparison.changes)
    open_ = of - rest - sum(change.verdict in ("regression", "improvement") for change in comparison.changes)
    if not parts and not open_:
        return f"No change in {of} comparisons." if of != 1 else "No change in the one comparison."
    if rest:
        parts.append(f"No change in {rest} of {of} comparisons.")
    if open_:
        parts.append(f"No verdict in {open_} of {of} comparisons.")
    return " ".join(parts)


def _said(change: MetricChange) -> str:
    metric = METRICS[change.metric]
    flow = f" of {change.flow}" if change.flow else ""
    way = f" ({change.direction})" if change.direction else ""
    values = ", ".join(str(value) for value in change.cell.values() if value is not None)
    what = f"{metric.title}{flow}{way}{f' at {values}' if values else ''}"
    if change.reason:
        return f"{what}: {change.reason}"
    if change.scale is Scale.RATIO:
        return f"{what} is {format_effect(change)} what it was"
    return f"{what} differs by {format_effect(change)} {metric.unit}".rstrip()


def markdown(title: str, found: BuildComparison, intervals: str) -> str:
    """A section of Markdown: the sentence, what has a verdict as a table, the rest folded.

    Args:
        title: of the section.
        found: what came of the two.
        intervals: what the intervals are.
    """
    rows = format_rows(found.comparison)
    judged = [row for row in rows if row["verdict"]]
    others = [row for row in rows if not row["verdict"]]
    parts = [f"### {_plain(title)}", _plain(headline_text(found.comparison))]
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
