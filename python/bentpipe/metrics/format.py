"""Numbers as text, and what there is to say as plain data: a page, a terminal and a document read the same."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.scenario.input_file import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bentpipe.metrics.registry import Metric

__all__ = [
    "UNLIMITED_BYTES",
    "CommandOutput",
    "TextTable",
    "format_cell",
    "format_interval",
    "format_mean",
    "format_metric_mean",
    "mean_of",
    "over_seeds",
    "short_labels",
]  # fmt: skip


@dataclass(frozen=True)
class TextTable:
    """Rows that share their keys, and what stands above them."""

    title: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class CommandOutput:
    """What came out of something that was asked, for whoever prints it."""

    data: Mapping[str, Any]
    """For programs."""
    shown: tuple[str | TextTable, ...]
    """For people: lines and tables, in order."""
    problems: tuple[str, ...] = ()
    """What went wrong meanwhile, a line each."""
    good: bool = True
    """Whether every run was made, and no bound is exceeded."""


def format_cell(value: object) -> str:
    """A cell of a table: numbers to four significant digits, nothing as a dash."""
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


def format_mean(found: ConfidenceInterval, factor: float = 1.0, digits: int = 4) -> str:
    """``5.72 ± 0.11``: a mean and half of its interval; without one, the mean alone to ``digits`` significant digits.

    The half has two significant digits and the mean ends at the same decimal place (JCGM 100:2008, the GUM, 7.2.6);
    whole numbers are written whole. A half of less than a millionth of the mean is none.
    """
    mean = found.estimate * factor
    if found.low is None or found.high is None:
        return format_significant(mean, digits)
    half = (found.high - found.low) / 2 * abs(factor)
    if not math.isfinite(mean) or not math.isfinite(half) or half <= LEAST_HALF * abs(mean):
        return format_significant(mean, digits)
    exponent = int(f"{half:.1e}".partition("e")[2])  # of the half as it is written: of 0.0996 that of 0.10
    decimals = max(0, 1 - exponent)
    return f"{round(mean, decimals) + 0.0:.{decimals}f} ± {half:.{decimals}f}"


LEAST_HALF = 1e-6
"""Part of a mean below which half of its interval is not worth its digits."""


def over_seeds(row: Mapping[str, Any]) -> ConfidenceInterval:
    """The mean of a row of :func:`bentpipe.metrics.compute.aggregate_seeds` with its interval."""
    return ConfidenceInterval(row["mean"], row["mean_low"], row["mean_high"], row["n"])


def mean_of(row: Mapping[str, Any], name: str) -> ConfidenceInterval | None:
    """The mean ``name`` of a row that has :func:`bentpipe.metrics.intervals.mean_columns`; None where there is none."""
    if row[name] is None:
        return None
    return ConfidenceInterval(row[name], row[f"{name}_low"], row[f"{name}_high"], row[f"{name}_n"])


UNLIMITED_BYTES = 1 << 40
"""A congestion window that limits nothing, as the controllers ``fixed`` and ``open-loop`` report it
(crates/cc/src/fixed.rs)."""


def format_metric_mean(metric: Metric, found: ConfidenceInterval, runs: int) -> str:
    """A mean over runs in the unit of its metric: ``5.72 ± 0.11``, ``5.72 ± 0.11 (3 of 5)``, ``unlimited``.

    Args:
        metric: which one.
        found: the mean with its interval, in the unit of the column; of ``found.n`` runs, those that have a value.
        runs: how many runs there are; the count is appended where some have no value.
    """
    unlimited = metric.is_window and found.estimate >= UNLIMITED_BYTES
    text = "unlimited" if unlimited else format_mean(found, metric.scale)
    return text if found.n == runs else f"{text} ({found.n:,} of {runs:,})"


def format_interval(found: ConfidenceInterval, factor: float = 1.0, digits: int = 4) -> str:
    """``5.72 [5.6, 5.8]``: an estimate and its interval, where there is one."""
    text = format_significant(found.estimate * factor, digits)
    if found.low is None or found.high is None:
        return text
    low, high = (format_significant(value * factor, digits) for value in (found.low, found.high))
    return f"{text} [{low}, {high}]"


def short_labels(values: Iterable[str]) -> dict[str, str]:
    """What to call those of a sweep's ``values`` that are tables, so that all are told apart.

    ``{"name": "cubic", "beta": 0.8, "avoidance": "linux"}`` is ``cubic (beta 0.8, linux)``: an option that is a word
    says itself, and all say their names where two tables would be called alike.
    """
    listed = list(dict.fromkeys(values))
    tables = {value: table for value in listed if (table := _parsed(value)) is not None}
    called = {value: _called(table) for value, table in tables.items()}
    taken = [*called.values(), *listed]
    for value, name in called.items():
        if taken.count(name) > 1:
            called[value] = _called(tables[value], named=True)
    taken = [*called.values(), *listed]
    return {value: name if taken.count(name) == 1 else value for value, name in called.items()}


def _parsed(value: str) -> Mapping[str, Any] | None:
    """Return the table that a value of a sweep is the JSON of; None: it is a text."""
    if not value.startswith("{"):
        return None
    try:
        table: Mapping[str, Any] = parse_json(value)
    except ValueError:
        return None
    return table


def _called(table: Mapping[str, Any], *, named: bool = False) -> str:
    options = dict(table)
    name = options.pop("name", None)
    said = ", ".join(_option(key.replace("_", " "), value, named=named) for key, value in options.items())
    return said if not isinstance(name, str) else f"{name} ({said})" if said else name


def _option(what: str, value: object, *, named: bool) -> str:
    if isinstance(value, dict):
        return f"{what} {_called(value, named=named)}"
    if isinstance(value, bool):
        return what if value else f"no {what}"
    if isinstance(value, str) and not named and re.match(r"[^\W\d]", value):
        return value
    return f"{what} {value:g}" if isinstance(value, float) else f"{what} {value}"
