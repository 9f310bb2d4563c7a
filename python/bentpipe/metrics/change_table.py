"""Rows of a comparison for programs, the terminal and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.compare import MIN_SEEDS, Scale
from bentpipe.metrics.format import format_interval, short_labels
from bentpipe.metrics.intervals import format_significant, round_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.scenario.sweep_columns import column_headings, column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.metrics.compare import Comparison, MetricChange
    from bentpipe.metrics.intervals import ConfidenceInterval

__all__ = ["format_effect", "format_p", "format_ratio", "format_rows", "frame", "notes", "rows"]

_NUMBERS = ("before", "after", "effect", "effect_low", "effect_high", "p", "p_adjusted", "limit_s")

_OPTION = {"seeds": "--seeds", "rounds": "--runs"}

_SCHEMA: dict[str, Any] = {
    "metric": pl.String, "flow": pl.String, "direction": pl.String, "seeds": pl.Int64, "family": pl.String,
    "scale": pl.String, **dict.fromkeys(_NUMBERS, pl.Float64), "verdict": pl.String, "reason": pl.String,
}  # fmt: skip


def rows(changes: Sequence[MetricChange]) -> list[dict[str, Any]]:
    """Return one row for each change for JSON, numbers to six significant digits, with the cell as a table."""
    return [
        {
            "metric": change.metric, "cell": dict(change.cell), "flow": change.flow, "direction": change.direction,
            "seeds": change.seeds, "family": "primary" if change.primary else "secondary",
            "before": round_significant(change.before), "after": round_significant(change.after),
            "scale": change.scale.value,
            "effect": round_significant(change.effect.estimate if change.effect else None),
            "effect_low": round_significant(change.effect.low if change.effect else None),
            "effect_high": round_significant(change.effect.high if change.effect else None),
            "p": round_significant(change.p), "p_adjusted": round_significant(change.p_adjusted),
            "limit_s": round_significant(change.limit_s), "verdict": change.verdict, "reason": change.reason,
        }
        for change in changes
    ]  # fmt: skip


def frame(changes: Sequence[MetricChange]) -> pl.DataFrame:
    """Return :func:`rows` as a frame, with a column for each key of the sweep."""
    keys = list(dict.fromkeys(key for change in changes for key in change.cell))
    headings = column_headings({column_name(key): key for key in keys}, _SCHEMA)
    table = []
    for row in rows(changes):
        cell = row.pop("cell")
        table.append({headings[column_name(key)]: cell.get(key) for key in keys} | row)
    return pl.DataFrame(table, schema={**{headings[column_name(key)]: pl.String for key in keys}, **_SCHEMA})


def format_rows(comparison: Comparison, limit: int | None = None) -> list[dict[str, Any]]:
    """Return rows for people, in the units of a summary.

    Args:
        comparison: comparison of two stores.
        limit: with more changes, rows of the secondary family without a verdict are omitted; if more than ``limit``
            remain, all rows without a verdict.
    """
    changes: Sequence[MetricChange] = comparison.changes
    if limit is not None and len(changes) > limit:
        changes = [change for change in changes if change.primary or change.verdict != "none"]
    if limit is not None and len(changes) > limit:
        changes = [change for change in changes if change.verdict != "none"]
    keys = [
        key
        for key in dict.fromkeys(key for change in comparison.changes for key in change.cell)
        if len({change.cell.get(key) for change in comparison.changes}) > 1
    ]
    labels = short_labels(value for change in changes for value in change.cell.values() if value is not None)
    lines = []
    for change in changes:
        metric = METRICS[change.metric]
        line = {
            "metric": metric.heading, "flow": change.flow, "direction": change.direction,
            comparison.repetition: str(change.seeds),
            "before": _value(change, change.before, 0), "after": _value(change, change.after, 1),
            "change": format_effect(change),
            "p": format_p(change.p_adjusted),
            "verdict": _verdict(change, comparison.repetition),
        }  # fmt: skip
        headings = column_headings({column_name(key): key.rsplit(".", 1)[-1] for key in keys}, line)
        cell = {
            headings[column_name(key)]: labels.get(value, value) if (value := change.cell.get(key)) else ""
            for key in keys
        }
        lines.append(cell | line)
    constant = {name for name in ("flow", "direction") if len({line[name] for line in lines} - {""}) <= 1}
    return [{key: value for key, value in line.items() if key not in constant} for line in lines]


def format_effect(change: MetricChange) -> str:
    """Format the effect with its interval: ``0.95 [0.93, 0.97] times`` or a signed difference in the metric's unit."""
    if change.effect is None:
        return ""
    if change.scale is Scale.RATIO:
        return f"{format_ratio(change.effect)} times"
    sign = "+" if change.effect.estimate > 0 else ""
    return f"{sign}{format_interval(change.effect, METRICS[change.metric].scale, digits=3)}"


def format_ratio(ratio: ConfidenceInterval) -> str:
    """Format a ratio with as many digits as its interval needs."""
    return format_interval(ratio, digits=_ratio_digits(ratio))


def _ratio_digits(ratio: ConfidenceInterval) -> int:
    """Return the digits, at most six, at which the ends of an interval differ from each other and from 1."""
    ends = [end for end in (ratio.low, ratio.high) if end is not None]
    for digits in range(3, MAX_RATIO_DIGITS):
        texts = [format_significant(end, digits) for end in ends]
        is_same = len(set(ends)) > len(set(texts))
        if not is_same and not any(text == "1" and end != 1 for text, end in zip(texts, ends, strict=True)):
            return digits
    return MAX_RATIO_DIGITS if len(set(ends)) > 1 else 3


MAX_RATIO_DIGITS = 6
"""Largest number of significant digits of a ratio."""


def notes(comparison: Comparison) -> list[str]:
    """Return the notes of a comparison and its limitations, one sentence each."""
    sentences = list(comparison.notes)
    count = sum(change.verdict == "too few seeds" for change in comparison.changes)
    if count:
        sentences.append(
            f"Too few {comparison.repetition} for a verdict in {_count_text(comparison, count)}: it takes {MIN_SEEDS} "
            f"({_OPTION[comparison.repetition]} {MIN_SEEDS})."
        )
    count = sum(change.verdict == "equal differences" for change in comparison.changes)
    if count:
        sentences.append(
            f"All {comparison.repetition} differ by the same in {_count_text(comparison, count)} although the plan "
            "draws: no verdict."
        )
    limits = sorted({change.limit_s for change in comparison.changes if change.limit_s is not None})
    if limits:
        span = " to ".join(
            f"{format_significant(end, 3)} s" for end in dict.fromkeys((limits[0], limits[-1]))
        )
        sentences.append(
            f"Not every transfer finished within {span}: an unfinished transfer counts as that time (restricted mean)."
        )
    return sentences


def _count_text(comparison: Comparison, count: int) -> str:
    return f"{count} of {len(comparison.changes)} comparisons"


def _value(change: MetricChange, value: float | None, side: int) -> str:
    if value is None:
        return "–"
    return (
        f"{'> ' if change.censored[side] else ''}{format_significant(value * METRICS[change.metric].scale)}"
    )


def format_p(value: float | None) -> str:
    """Format a p-value; empty for None."""
    return "" if value is None else "< 0.001" if value < 0.001 else format_significant(value, 2)


def _verdict(change: MetricChange, repetition: str) -> str:
    if change.verdict in ("none", "too few seeds"):
        return "" if change.verdict == "none" else f"too few {repetition} ({change.reason})"
    return f"{change.verdict}: {change.reason}" if change.reason else change.verdict
