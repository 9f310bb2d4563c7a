"""Text of numbers, labels and tables, equal for pages, terminal and documents."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.scenario.input_file import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bentpipe.metrics.registry import Metric

__all__ = [
    "TOO_FEW_SEEDS",
    "UNLIMITED_BYTES",
    "CommandOutput",
    "TextTable",
    "format_cell",
    "format_interval",
    "format_mean",
    "format_metric_mean",
    "has_too_few_seeds",
    "mean_of",
    "seed_mean",
    "short_labels",
    "unbroken",
]  # fmt: skip


@dataclass(frozen=True)
class TextTable:
    """Table with a title."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    """Rows with equal keys, which are the column headings."""


@dataclass(frozen=True)
class CommandOutput:
    """Result of a command, for programs and for people."""

    data: Mapping[str, Any]
    """Data for programs."""
    shown: tuple[str | TextTable, ...]
    """Lines and tables for people, in order."""
    problems: tuple[str, ...] = ()
    """Error messages, one line each."""
    good: bool = True
    """Whether every run finished and no bound is exceeded."""
    page: Path | None = None
    """Written HTML page."""


def format_cell(value: object) -> str:
    """Format a cell of a table: numbers to four significant digits, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value and (abs(value) >= 1e7 or abs(value) < 1e-3):
            return f"{value:.3e}"
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def format_mean(
    interval: ConfidenceInterval, factor: float = 1.0, digits: int = 4, *, max_digits: int | None = None
) -> str:
    """Format a mean with the half width of its interval: ``5.72 ± 0.11``.

    The half width has two significant digits and the mean ends at the same decimal place (JCGM 100:2008, the GUM,
    7.2.6). Integers keep all digits. :func:`format_metric_mean` adds the unit of a metric and the number of runs.

    Args:
        interval: mean with its interval.
        factor: multiplier of all values.
        digits: significant digits of a mean without interval, or with a half width below a millionth of the mean.
        max_digits: significant digits of a mean with a narrower interval, which is then omitted; None: no limit.
    """
    mean = interval.estimate * factor
    if interval.low is None or interval.high is None:
        return format_significant(mean, digits)
    half = (interval.high - interval.low) / 2 * abs(factor)
    if not math.isfinite(mean) or not math.isfinite(half) or half <= MIN_HALF_WIDTH * abs(mean):
        return format_significant(mean, digits)
    exponent = int(f"{half:.1e}".partition("e")[2])  # exponent after rounding: 0.0996 is printed as 0.10
    decimals = max(0, 1 - exponent)
    if max_digits is not None and mean:
        last = max_digits - 1 - math.floor(math.log10(abs(mean)))
        if 2 * half < 10.0**-last:
            return format_significant(mean, max_digits)
        decimals = max(0, min(decimals, last))
    return f"{round(mean, decimals) + 0.0:.{decimals}f} ± {half:.{decimals}f}"


MIN_HALF_WIDTH = 1e-6
"""Smallest printed half width of an interval, as a fraction of the mean."""


def unbroken(text: str) -> str:
    """Replace blanks between a number and its unit or ± by no-break spaces."""
    return _UNBREAKABLE.sub("\u00a0", text)


_UNIT = r"(?:[±%]|(?:[nµmkMG]?(?:s|B|m|b/s|bit/s)|dB|min|h|hours|BDP|packets|cells?|runs?|seeds?)\b)"
_UNBREAKABLE = re.compile(rf"(?<=±) (?=\d)|(?<=\d) (?={_UNIT}|…)|(?<=\d …) (?=[-−\d])")
"""Blanks that become no-break spaces."""


def seed_mean(row: Mapping[str, Any]) -> ConfidenceInterval:
    """Return the mean of a row of :func:`bentpipe.metrics.compute.aggregate_seeds` with its interval."""
    return ConfidenceInterval(row["mean"], row["mean_low"], row["mean_high"], row["n"])


def mean_of(row: Mapping[str, Any], name: str) -> ConfidenceInterval | None:
    """Return the mean ``name`` of a row with :func:`bentpipe.metrics.intervals.mean_columns`; None without a value."""
    if row[name] is None:
        return None
    return ConfidenceInterval(row[name], row[f"{name}_low"], row[f"{name}_high"], row[f"{name}_n"])


UNLIMITED_BYTES = 1 << 40
"""Congestion window of a sender without a limit, bytes.

The controllers ``fixed`` and ``open-loop`` report it (crates/cc/src/fixed.rs).
"""


TOO_FEW_SEEDS = "?"
"""Mark of a mean whose interval is wider than its value."""


def has_too_few_seeds(interval: ConfidenceInterval, runs: int | None = None) -> bool:
    """Return whether the half width of an interval exceeds the mean, or only one of several ``runs`` has a value."""
    if runs is not None and interval.n == 1 < runs:
        return True
    if interval.low is None or interval.high is None:
        return False
    return (interval.high - interval.low) / 2 > abs(interval.estimate)


MAX_DIGITS = 4
"""Largest number of significant digits of a metric's mean; a narrower interval is left out."""


def format_metric_mean(metric: Metric, interval: ConfidenceInterval, runs: int) -> str:
    """Format a mean over runs in the unit of its metric: ``5.72 ± 0.11``, ``5.72 ± 0.11 (3 of 5)``, ``unlimited``.

    ``0.66 [0, 1.6]?`` is an interval that ends at the range of the metric; the mark stands for too few seeds
    (:func:`has_too_few_seeds`). ``38.9? (2 of 5)`` is a time of the finished transfers only.

    Args:
        metric: metric of the mean.
        interval: mean with its interval over the ``interval.n`` runs with a value, in the unit of the column.
        runs: number of all runs; the text ends with both numbers if they differ.
    """
    is_partial = metric.is_censored and interval.n < runs
    if is_partial:  # the interval would be that of the quick runs
        interval = replace(interval, low=None, high=None)
    unlimited = metric.is_window and interval.estimate >= UNLIMITED_BYTES
    clipped = metric.clip(interval)
    shown = (
        format_mean(interval, metric.scale, max_digits=MAX_DIGITS)
        if clipped == interval
        else format_interval(clipped, metric.scale, 3)
    )
    text = "unlimited" if unlimited else shown
    is_marked = is_partial or has_too_few_seeds(interval, runs)
    text += TOO_FEW_SEEDS if is_marked and not unlimited else ""
    return text if interval.n == runs else f"{text} ({interval.n:,} of {runs:,})"


def format_interval(interval: ConfidenceInterval, factor: float = 1.0, digits: int = 4) -> str:
    """Format an estimate and its interval, if known: ``5.72 [5.6, 5.8]``."""
    text = format_significant(interval.estimate * factor, digits)
    if interval.low is None or interval.high is None:
        return text
    low, high = (format_significant(value * factor, digits) for value in (interval.low, interval.high))
    return f"{text} [{low}, {high}]"


def short_labels(values: Iterable[str]) -> dict[str, str]:
    """Return a short, unique label for each of a sweep's ``values`` that is a JSON table.

    ``{"name": "cubic", "beta": 0.8, "avoidance": "linux"}`` becomes ``cubic (beta 0.8, linux)``. A text option appears
    without its name, unless two labels would be equal.
    """
    unique = list(dict.fromkeys(values))
    tables = {value: table for value in unique if (table := _parse_table(value)) is not None}
    labels = {value: _table_label(table) for value, table in tables.items()}
    used = [*labels.values(), *unique]
    for value, label in labels.items():
        if used.count(label) > 1:
            labels[value] = _table_label(tables[value], option_names=True)
    used = [*labels.values(), *unique]
    return {value: label if used.count(label) == 1 else value for value, label in labels.items()}


def _parse_table(value: str) -> Mapping[str, Any] | None:
    """Parse a value of a sweep that is a JSON table; return None for a text."""
    if not value.startswith("{"):
        return None
    try:
        table: Mapping[str, Any] = parse_json(value)
    except ValueError:
        return None
    return table


def _table_label(table: Mapping[str, Any], *, option_names: bool = False) -> str:
    options = dict(table)
    name = options.pop("name", None)
    text = ", ".join(
        _option_label(key.replace("_", " "), value, option_names=option_names)
        for key, value in options.items()
    )
    return text if not isinstance(name, str) else f"{name} ({text})" if text else name


def _option_label(key: str, value: object, *, option_names: bool) -> str:
    if isinstance(value, dict):
        return f"{key} {_table_label(value, option_names=option_names)}"
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if isinstance(value, str) and not option_names and re.match(r"[^\W\d]", value):
        return value
    return f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
