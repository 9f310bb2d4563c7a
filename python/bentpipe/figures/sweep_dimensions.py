"""Dimensions of a sweep for figures: varying keys, their labels and the order of their values.

A key of a sweep is a path into the scenario (``flow.rival.congestion``). Its values are those of the scenario
(``"250 ms"``). Keys that always change together (the rates of both directions) are one :class:`Dimension`. A list of
tables with a ``label`` each is one dimension, too, and its other keys depend on the label. Keys are column names here
(:func:`bentpipe.scenario.sweep_columns.column_name`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from bentpipe.metrics.format import short_labels
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.quantities import Angle, Distance, Duration, Probability, Rate, Size
from bentpipe.scenario.radio_quantities import Frequency, Speed, SymbolRate
from bentpipe.scenario.sweep_columns import LABELS, sweep_key

_NUMBER = re.compile(r"^\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*(.*?)\s*$", re.IGNORECASE)
_COUNTED = re.compile(r"\d+(?:\.\d+)? (.+?)s?")
"""Number with a noun, such as ``10 users``."""
_REMARK = re.compile(r"\s*\([^()]*\)\s*$")
_SCALE = {
    unit: float(scale)
    for kind in (Duration, Rate, Size, Distance, Angle, Probability, Frequency, SymbolRate, Speed)
    for unit, scale in kind.units.items()
} | {"": 1.0, "µs": float(Duration.units["us"]), "dB": 1.0, "BDP": 1.0, "packets": 1.0}
"""Factor of each unit to the smallest unit of its kind, or to the unit without prefix."""

_PLAIN = ("duration", "sample")
"""Keys of a scenario without dots that a sweep may have."""

_KINDS = {"congestion": "congestion", "loss": "loss", "delay": "delay", "rtt": "delay", "rate": "rate"}
_NAMES = {"congestion": "", "delay": "one-way delay", "rtt": "RTT"}


MAX_LISTED = 24
"""Largest number of values that a sentence lists."""


def magnitude(value: str) -> float | None:
    """Return the number of a value for sorting; ``None`` if it is not a number with a unit."""
    match = _NUMBER.match(value)
    if match is None or match[2] not in _SCALE:
        return None
    return float(match[1]) * _SCALE[match[2]]


def natural_order(values: Iterable[str]) -> tuple[str, ...]:
    """Return distinct values by magnitude if all have one, else in the order of the plan."""
    distinct = tuple(dict.fromkeys(values))
    sizes = {value: magnitude(value) for value in distinct}
    if any(size is None for size in sizes.values()):
        return distinct
    return tuple(sorted(distinct, key=lambda value: sizes[value] or 0.0))


@dataclass(frozen=True)
class Dimension:
    """Dimension of a sweep: ``keys`` that change together, with the values of the first of them."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    kind: str
    labelled: bool = False
    """Whether the values are labels of the scenario, which need no name before them."""
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Labels of values that are tables in the scenario."""

    @property
    def key(self) -> str:
        """Column of the values."""
        return self.keys[0]

    def label(self, value: str) -> str:
        """Return the label of ``value`` with the dimension's name: ``loss 1 %``, or only ``cubic`` without a name."""
        text = self.value_label(value)
        return f"{self.name} {text}" if self.name and not self.labelled else text

    def value_label(self, value: str | None) -> str:
        """Return the label of ``value`` without the dimension's name."""
        return "" if value is None else self.labels.get(value, value)

    @property
    def values_text(self) -> str:
        """Labels of all values; of more than 24, the first and the last."""
        if len(self.values) > MAX_LISTED:
            first, last = (self.value_label(value) for value in (self.values[0], self.values[-1]))
            return f"{first} to {last} ({len(self.values):,} values)"
        return ", ".join(map(self.value_label, self.values))

    @property
    def label_column(self) -> pl.Expr:
        """Expression of the column with labels as values."""
        return pl.col(self.key).replace(dict(self.labels))

    @property
    def is_quantity(self) -> bool:
        """Whether the values are amounts, such as users or bit/s, and not alternatives."""
        if self.key.endswith(".http"):
            return False  # versions, not amounts
        values = [_REMARK.sub("", value) for value in self.values]
        if all(magnitude(value) is not None for value in values):
            return True
        matches = [_COUNTED.fullmatch(value) for value in values]
        return None not in matches and len({match[1] for match in matches if match is not None}) == 1

    @property
    def title(self) -> str:
        """Title on an axis."""
        return self.name or "controller"


def _short(key: str, keys: Sequence[str]) -> str:
    """Return the last part of a key, with the parts before it that distinguish it from other keys."""
    parts = key.split(".")
    last = parts[-1]
    duplicates = [other for other in keys if other != key and other.split(".")[-1] == last]
    name = _NAMES.get(last, last.replace("_", " "))
    if not duplicates:
        return name
    owner = parts[1] if parts[0] in ("flow", "path") and len(parts) > 2 else ".".join(parts[:-1])
    if any(other.split(".")[1:2] == parts[1:2] for other in duplicates):
        owner = ".".join(parts[1:-1])
    return f"{owner} {name}".strip()


def _is_labelled(key: str) -> bool:
    """Return whether ``key`` is the name of a list of labelled tables, not a path into the scenario."""
    return key.startswith(LABELS) and sweep_key(key) not in _PLAIN


def dimensions(runs: pl.DataFrame, keys: Sequence[str]) -> tuple[Dimension, ...]:
    """Return the dimensions of a sweep, in the plan's order; a key with a single value is not a dimension."""
    columns = {key: runs[key].to_list() for key in keys}
    counts = {key: len(set(column)) for key, column in columns.items()}
    groups: list[list[str]] = []
    for key in keys:
        if counts[key] < 2:
            continue
        for group in groups:
            pairs = len(set(zip(columns[group[0]], columns[key], strict=True)))
            if pairs == counts[group[0]] and (_is_labelled(group[0]) or pairs == counts[key]):
                group.append(key)
                break
        else:
            groups.append([key])
    firsts = [group[0] for group in groups]
    values = [natural_order(value for value in columns[key] if value is not None) for key in firsts]
    return tuple(
        Dimension(
            name=_short(group[0], firsts),
            keys=tuple(group),
            values=found,
            labels=short_labels(found),
            kind=_KINDS.get(group[0].split(".")[-1], "other"),
            labelled=_is_labelled(group[0]),
        )
        for group, found in zip(groups, values, strict=True)
    )


def of_kind(dims: Iterable[Dimension], *kinds: str) -> Dimension | None:
    """Return the first dimension of one of ``kinds``, in the order of ``kinds``."""
    known = list(dims)
    return next((dim for kind in kinds for dim in known if dim.kind == kind), None)


@dataclass(frozen=True)
class Grid:
    """Grid of panels: dimensions and values of columns and rows, and the values of all other dimensions.

    ``columns`` and ``rows`` are the values with a panel; ``fixed`` are (dimension, value) pairs.
    """

    column: Dimension | None
    row: Dimension | None
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    fixed: tuple[tuple[Dimension, str], ...]
    inside: tuple[tuple[Dimension, tuple[str, ...]], ...] = ()
    """Dimensions inside the panels, with the values that remain distinguishable there."""

    def select(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of ``frame`` (with the cell's columns) in the grid, with ``column`` and ``row`` labels."""
        for dim, value in self.fixed:
            frame = frame.filter(pl.col(dim.key) == value)
        for dim, values in self.inside:
            if len(values) < len(dim.values):
                frame = frame.filter(pl.col(dim.key).is_in(list(values)))
        for name, axis, values in (("column", self.column, self.columns), ("row", self.row, self.rows)):
            if axis is None:
                frame = frame.with_columns(pl.lit("").alias(name))
                continue
            frame = frame.filter(pl.col(axis.key).is_in(list(values)))
            labels = [axis.label(value) for value in values]
            frame = frame.with_columns(
                pl.col(axis.key).replace_strict(list(values), labels, return_dtype=pl.String).alias(name)
            )
        return frame

    @property
    def is_of_presets(self) -> bool:
        """Whether columns are presets: other paths, whose values differ by an order of magnitude."""
        return self.column is not None and any(sweep_key(key) == "path.preset" for key in self.column.keys)

    @property
    def scale_note(self) -> str:
        """Sentence about scales of the panels; empty with a common one."""
        return "Each panel has its own scale." if self.is_of_presets and len(self.columns) > 1 else ""

    @property
    def note(self) -> str:
        """Sentence about the cells in the grid; empty if all are."""
        parts = [f"{dim.label(value)} (of {dim.values_text})" for dim, value in self.fixed]
        for dim, values in ((self.column, self.columns), (self.row, self.rows), *self.inside):
            if dim is None or len(values) == len(dim.values):
                continue
            parts.append(
                f"{dim.label(values[0])} (of {dim.values_text})"
                if len(values) == 1
                else f"{len(values)} of {len(dim.values)} values of {dim.title}"
            )
        return "Shown: " + "; ".join(parts) + "." if parts else ""


def _spread(values: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Return at most ``most`` of ``values``, evenly spaced, including the first and the last."""
    if len(values) <= most:
        return values
    if most == 1:
        return values[:1]
    return tuple(values[round(i * (len(values) - 1) / (most - 1))] for i in range(most))


def chosen(dims: Sequence[Dimension], words: Sequence[str]) -> dict[str, str]:
    """Parse settings ``KEY=VALUE``; return the value of each fixed dimension by its column.

    The first of several keys that always change together names the dimension.

    Args:
        dims: dimensions of the sweep.
        words: settings ``KEY=VALUE``.

    Raises:
        ScenarioError: a key is not in ``dims``, a value is unknown, or a key occurs twice.
    """
    by_key = {sweep_key(dim.key): dim for dim in dims}
    found: dict[str, str] = {}
    for text in words:
        key, equals, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not equals:
            raise _error(f'found "{text}", expected KEY=VALUE with a swept key: {", ".join(by_key)}')
        if key not in by_key:
            raise _error(unknown_name(key, by_key, "key that the sweep varies"))
        dim = by_key[key]
        by_label = {dim.value_label(known): known for known in dim.values}
        if value not in dim.values and value not in by_label:
            raise _error(unknown_name(value, map(dim.value_label, dim.values), f"value of {key}"))
        if dim.key in found:
            raise _error(f"{key} is given twice")
        found[dim.key] = by_label.get(value, value)
    return found


def _error(text: str) -> ScenarioError:
    return ScenarioError([("cell", text)], SOURCE_ARGUMENT)


def grid(
    dims: Sequence[Dimension],
    column: Dimension | None,
    row: Dimension | None,
    fixed: dict[str, str] | None = None,
    most: int = 12,
    inside: tuple[Dimension | None, int] = (None, 0),
) -> Grid:
    """Return a grid of at most ``most`` panels over ``column`` and ``row``; every other dimension has one value.

    Args:
        dims: dimensions outside the panels.
        column: dimension of the columns.
        row: dimension of the rows.
        fixed: value of a dimension by its column; without an entry, the first value. A fixed column or row has only the
            panel of that value.
        most: largest number of panels.
        inside: dimension inside the panels and the largest number of its values.
    """
    fixed = fixed or {}

    def panels(dim: Dimension | None, most: int) -> tuple[str, ...]:
        if dim is None:
            return ()
        return (fixed[dim.key],) if dim.key in fixed else _spread(dim.values, most)

    rows = panels(row, min(4, most))
    columns = panels(column, max(1, min(6, most // max(1, len(rows)))))
    rest = tuple((dim, fixed.get(dim.key, dim.values[0])) for dim in dims if dim not in (column, row))
    drawn, values = inside
    return Grid(column, row, columns, rows, rest, ((drawn, _spread(drawn.values, values)),) if drawn else ())
