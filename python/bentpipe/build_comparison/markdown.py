"""Result of a comparison of two builds as a sentence and as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.change_table import format_effect, format_rows
from bentpipe.metrics.compare import Scale
from bentpipe.metrics.registry import METRICS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from bentpipe.build_comparison.result import BuildComparison
    from bentpipe.metrics.compare import Comparison, MetricChange

__all__ = ["headline_text", "markdown"]

MAX_CHANGES = 3
"""Maximum number of changes in the headline; further changes are counted."""


def headline_text(comparison: Comparison) -> str:
    """Return the regressions with their sizes, then the improvements."""
    parts = []
    cells = [change.cell for change in comparison.changes]
    varying = {key for cell in cells for key in cell if any(other.get(key) != cell[key] for other in cells)}
    for verdict, word in (("regression", "Worse"), ("improvement", "Better")):
        changes = [change for change in comparison.changes if change.verdict == verdict]
        if changes:
            listed = "; ".join(_describe(change, varying) for change in changes[:MAX_CHANGES])
            more = f"; and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
            parts.append(f"{word}: {listed}{more}.")
    total = len(comparison.changes)
    unchanged = sum(change.verdict == "none" for change in comparison.changes)
    changed = sum(change.verdict in ("regression", "improvement") for change in comparison.changes)
    undecided = total - unchanged - changed
    if not total:
        return "Undecided: the runs have no metric to compare."
    if not parts and not undecided:
        return (
            f"None of {total} comparisons shows a change."
            if total != 1
            else "The only comparison shows no change."
        )
    if unchanged:
        parts.append(f"{unchanged} of {total} comparisons show no change.")
    if undecided:
        text = f"{undecided} of {total} comparisons have no verdict."
        parts = [f"Undecided: {text}", *parts] if comparison.undecided else [*parts, text]
    return " ".join(parts)


def _describe(change: MetricChange, varying: Collection[str]) -> str:
    metric = METRICS[change.metric]
    flow = f" of {change.flow}" if change.flow else ""
    direction = f" ({change.direction})" if change.direction else ""
    values = ", ".join(
        str(value) for key, value in change.cell.items() if value is not None and key in varying
    )
    subject = f"{metric.title}{flow}{direction}{f' at {values}' if values else ''}"
    if change.reason:
        return f"{subject}: {change.reason}"
    if change.scale is Scale.RATIO:
        return f"{subject} is {format_effect(change)} the previous value"
    unit = "percentage points" if metric.unit == "%" else metric.unit
    return f"{subject} differs by {format_effect(change)} {unit}".rstrip()


def markdown(title: str, found: BuildComparison, intervals: str) -> str:
    """Return a section of Markdown: headline, table of changes with a verdict, and the others folded.

    Args:
        title: title of the section.
        found: result of the comparison.
        intervals: sentence about the confidence intervals.
    """
    rows = format_rows(found.comparison)
    judged = [row for row in rows if row["verdict"]]
    others = [row for row in rows if not row["verdict"]]
    parts = [f"### {_escape(title)}", _escape(headline_text(found.comparison))]
    if judged:
        parts.append(_table(judged))
    if others:
        about = f"{len(others)} without a change" if judged else "All comparisons"
        parts.append(f"<details><summary>{about}</summary>\n\n{_table(others)}\n\n</details>")
    before, after = (
        f"{_code(side.word)}{f' (engine {_escape(side.engine)})' if side.engine else ''}"
        for side in (found.before, found.after)
    )
    parts.append(" ".join([f"Before: {before}; after: {after}.", *map(_escape, found.notes()), intervals]))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_escape(str(row[name])) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(text: str) -> str:
    """Escape text for Markdown and HTML and put it on one line."""
    return re.sub(r"([\\`*_<>|~]|\](?=[(\[]))", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Format text as inline code, with a fence longer than any run of backquotes in it."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {' '.join(text.split())} {fence}" if len(fence) > 1 else f"`{' '.join(text.split())}`"
