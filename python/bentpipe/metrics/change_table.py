"""Changes of a comparison as rows: for programs, and for the terminal and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.compare import Scale
from bentpipe.metrics.format import format_interval, short_labels
from bentpipe.metrics.intervals import format_significant, round_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.scenario.sweep_columns import column_headings, column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.metrics.compare import Comparison, MetricChange

__all__ = ["format_rows", "frame", "notes", "rows"]

_NUMBERS = ("before", "after", "effect", "effect_low", "effect_high", "p", "p_adjusted", "limit_s")

_SCHEMA: dict[str, Any] = {
    "metric": pl.String, "flow": pl.String, "direction": pl.String, "seeds": pl.Int64, "family": pl.String,
    "scale": pl.String, **dict.fromkeys(_NUMBERS, pl.Float64), "verdict": pl.String, "reason": pl.String,
}  # fmt: skip


def rows(changes: Sequence[MetricChange]) -> list[dict[str, Any]]:
    """Return one row a change for JSON, numbers to six significant digits, with the cell as a table."""
    return [
        {
            "metric": one.metric, "cell": dict(one.cell), "flow": one.flow, "direction": one.direction,
            "seeds": one.seeds, "family": "primary" if one.primary else "secondary",
            "before": round_significant(one.before), "after": round_significant(one.after), "scale": one.scale.value,
            "effect": round_significant(one.effect.estimate if one.effect else None),
            "effect_low": round_significant(one.effect.low if one.effect else None),
            "effect_high": round_significant(one.effect.high if one.effect else None),
            "p": round_significant(one.p), "p_adjusted": round_significant(one.p_adjusted),
            "limit_s": round_significant(one.limit_s), "verdict": one.verdict, "reason": one.reason,
        }
        for one in changes
    ]  # fmt: skip


def frame(changes: Sequence[MetricChange]) -> pl.DataFrame:
    """Return the same rows as a frame, with a column for each key of the sweep."""
    keys = list(dict.fromkeys(key for one in changes for key in one.cell))
    called = column_headings({column_name(key): key for key in keys}, _SCHEMA)
    found = []
    for row in rows(changes):
        cell = row.pop("cell")
        found.append({called[column_name(key)]: cell.get(key) for key in keys} | row)
    return pl.DataFrame(found, schema={**{called[column_name(key)]: pl.String for key in keys}, **_SCHEMA})


def format_rows(comparison: Comparison, most: int | None = None) -> list[dict[str, Any]]:
    """Return rows for people, in the units of a summary.

    Args:
        comparison: the comparison.
        most: of more rows, those of the second family without a verdict are left out; if these are still more, all
            without a verdict.
    """
    changes: Sequence[MetricChange] = comparison.changes
    if most is not None and len(changes) > most:
        changes = [one for one in changes if one.primary or one.verdict != "none"]
    if most is not None and len(changes) > most:
        changes = [one for one in changes if one.verdict != "none"]
    keys = [
        key
        for key in dict.fromkeys(key for one in comparison.changes for key in one.cell)
        if len({one.cell.get(key) for one in comparison.changes}) > 1
    ]
    words = short_labels(value for one in changes for value in one.cell.values() if value is not None)
    found = []
    for one in changes:
        metric = METRICS[one.metric]
        line = {
            "metric": metric.heading, "flow": one.flow, "direction": one.direction, "seeds": str(one.seeds),
            "before": _value(one, one.before, 0), "after": _value(one, one.after, 1), "change": effect(one),
            "p": "" if one.p_adjusted is None else _p(one.p_adjusted), "verdict": _verdict(one),
        }  # fmt: skip
        called = column_headings({column_name(key): key.rsplit(".", 1)[-1] for key in keys}, line)
        cell = {
            called[column_name(key)]: words.get(value, value) if (value := one.cell.get(key)) else ""
            for key in keys
        }
        found.append(cell | line)
    dull = {name for name in ("flow", "direction") if len({line[name] for line in found} - {""}) <= 1}
    return [{key: value for key, value in line.items() if key not in dull} for line in found]


def effect(change: MetricChange) -> str:
    """Return the effect with its interval: ``0.95 [0.93, 0.97] times``, or a signed difference in the metric's unit."""
    if change.effect is None:
        return ""
    if change.scale is Scale.RATIO:
        return f"{format_interval(change.effect, digits=3)} times"
    sign = "+" if change.effect.estimate > 0 else ""
    return f"{sign}{format_interval(change.effect, METRICS[change.metric].scale, digits=3)}"


def notes(comparison: Comparison) -> list[str]:
    """Return what else a reader must know, a sentence each."""
    found = list(comparison.notes)
    count = sum(one.verdict == "too few seeds" for one in comparison.changes)
    if count:
        found.append(f"Too few seeds for a verdict in {_of(comparison, count)}: it takes 5 (--seeds 5).")
    count = sum(one.verdict == "equal differences" for one in comparison.changes)
    if count:
        found.append(
            f"All seeds differ by the same in {_of(comparison, count)} although the plan draws: no verdict."
        )
    limits = sorted({one.limit_s for one in comparison.changes if one.limit_s is not None})
    if limits:
        span = " to ".join(
            f"{format_significant(end, 3)} s" for end in dict.fromkeys((limits[0], limits[-1]))
        )
        found.append(
            f"Not every transfer finished within {span}: one that did not counts that time (restricted mean)."
        )
    return found


def _of(comparison: Comparison, count: int) -> str:
    return f"{count} of {len(comparison.changes)} comparisons"


def _value(change: MetricChange, value: float | None, side: int) -> str:
    if value is None:
        return "–"
    return (
        f"{'> ' if change.censored[side] else ''}{format_significant(value * METRICS[change.metric].scale)}"
    )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else format_significant(value, 2)


def _verdict(change: MetricChange) -> str:
    if change.verdict in ("none", "too few seeds"):
        return "" if change.verdict == "none" else f"too few seeds ({change.reason})"
    return f"{change.verdict}: {change.reason}" if change.reason else change.verdict
