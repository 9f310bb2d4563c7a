"""The cells of a sweep as something to draw: which keys vary, how they are called, in what order their values come.

A key of a sweep is a path into the scenario (``flow.rival.congestion``), its values are what the scenario would
hold (``"250 ms"``). Keys that always change together (the rates of both directions) are one :class:`Dimension`, and
so is a list of tables with a ``label`` each, on which its other keys depend. Keys are columns here, as
:func:`bentpipe.scenario.sweep_columns.column_name` calls them.
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
"""Such as ``10 users``, of whatever."""
_REMARK = re.compile(r"\s*\([^()]*\)\s*$")
_SCALE = {
    unit: float(scale)
    for kind in (Duration, Rate, Size, Distance, Angle, Probability, Frequency, SymbolRate, Speed)
    for unit, scale in kind.units.items()
} | {"": 1.0, "µs": float(Duration.units["us"]), "dB": 1.0, "BDP": 1.0, "packets": 1.0}
"""A unit in the smallest of its kind, or in the one without a prefix."""

_PLAIN = ("duration", "sample")
"""Keys of a scenario without dots, which a sweep may hold too."""

_KINDS = {"congestion": "congestion", "loss": "loss", "delay": "delay", "rtt": "delay", "rate": "rate"}
_NAMES = {"congestion": "", "delay": "one-way delay", "rtt": "RTT"}


MOST_LISTED = 24
"""Values that a sentence names, each."""


def magnitude(value: str) -> float | None:
    """The number a value stands for, to sort by; ``None`` when it is not a number with a unit."""
    match = _NUMBER.match(value)
    if match is None or match[2] not in _SCALE:
        return None
    return float(match[1]) * _SCALE[match[2]]


def natural_order(values: Iterable[str]) -> tuple[str, ...]:
    """Distinct values: by magnitude when all have one, else in the order in which the plan names them."""
    distinct = tuple(dict.fromkeys(values))
    sizes = {value: magnitude(value) for value in distinct}
    if any(size is None for size in sizes.values()):
        return distinct
    return tuple(sorted(distinct, key=lambda value: sizes[value] or 0.0))


@dataclass(frozen=True)
class Dimension:
    """One thing that a sweep varies: ``keys`` that change together, and the values of the first of them."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    kind: str
    labelled: bool = False
    """Its values are labels of the scenario's own, which need no name before them."""
    words: Mapping[str, str] = field(default_factory=dict, compare=False)
    """What values are called that are tables in the scenario."""

    @property
    def key(self) -> str:
        """The column that holds its values."""
        return self.keys[0]

    def label(self, value: str) -> str:
        """``value`` with its name: ``loss 1 %``, or just ``cubic`` where the value says it all."""
        said = self.word(value)
        return f"{self.name} {said}" if self.name and not self.labelled else said

    def word(self, value: str | None) -> str:
        """``value`` as people read it: a table by what is in it."""
        return "" if value is None else self.words.get(value, value)

    @property
    def listed(self) -> str:
        """Its values in words; of many, the first and the last."""
        if len(self.values) > MOST_LISTED:
            return (
                f"{self.word(self.values[0])} to {self.word(self.values[-1])} ({len(self.values):,} values)"
            )
        return ", ".join(map(self.word, self.values))

    @property
    def worded(self) -> pl.Expr:
        """Its column in these words."""
        return pl.col(self.key).replace(dict(self.words))

    @property
    def is_quantity(self) -> bool:
        """Whether its values are amounts of something, such as users or bit/s, and no alternatives to each other."""
        if self.key.endswith(".http"):
            return False  # versions
        values = [_REMARK.sub("", value) for value in self.values]
        if all(magnitude(value) is not None for value in values):
            return True
        counted = [_COUNTED.fullmatch(value) for value in values]
        return None not in counted and len({found[1] for found in counted if found is not None}) == 1

    @property
    def title(self) -> str:
        """What to call it on an axis."""
        return self.name or "controller"


def _short(key: str, keys: Sequence[str]) -> str:
    """The last word of a key, with as many words before it as tell it from the other keys."""
    parts = key.split(".")
    last = parts[-1]
    rivals = [other for other in keys if other != key and other.split(".")[-1] == last]
    name = _NAMES.get(last, last.replace("_", " "))
    if not rivals:
        return name
    owner = parts[1] if parts[0] in ("flow", "path") and len(parts) > 2 else ".".join(parts[:-1])
    if any(other.split(".")[1:2] == parts[1:2] for other in rivals):
        owner = ".".join(parts[1:-1])
    return f"{owner} {name}".strip()


def _labels(key: str) -> bool:
    """Whether ``key`` is the name of a list of labelled tables, not a path into the scenario."""
    return key.startswith(LABELS) and sweep_key(key) not in _PLAIN


def dimensions(runs: pl.DataFrame, keys: Sequence[str]) -> tuple[Dimension, ...]:
    """The dimensions of a sweep, in the plan's order; keys with a single value are none."""
    columns = {key: runs[key].to_list() for key in keys}
    counts = {key: len(set(column)) for key, column in columns.items()}
    groups: list[list[str]] = []
    for key in keys:
        if counts[key] < 2:
            continue
        for group in groups:
            pairs = len(set(zip(columns[group[0]], columns[key], strict=True)))
            if pairs == counts[group[0]] and (_labels(group[0]) or pairs == counts[key]):
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
            words=short_labels(found),
            kind=_KINDS.get(group[0].split(".")[-1], "other"),
            labelled=_labels(group[0]),
        )
        for group, found in zip(groups, values, strict=True)
    )


def of_kind(dims: Iterable[Dimension], *kinds: str) -> Dimension | None:
    """The first dimension of one of ``kinds``, in the order of ``kinds``."""
    listed = list(dims)
    return next((dim for kind in kinds for dim in listed if dim.kind == kind), None)


@dataclass(frozen=True)
class Grid:
    """Small multiples: what the columns and rows of panels stand for, and what is held fixed.

    ``shown`` are the values of columns and rows that fit; ``fixed`` are (dimension, value) pairs.
    """

    column: Dimension | None
    row: Dimension | None
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    fixed: tuple[tuple[Dimension, str], ...]
    inside: tuple[tuple[Dimension, tuple[str, ...]], ...] = ()
    """What is drawn inside the panels, and those of its values that can be told apart there."""

    def select(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of ``frame`` (which has the cell's columns) that the grid shows, with ``column`` and ``row`` labels."""
        for dim, value in self.fixed:
            frame = frame.filter(pl.col(dim.key) == value)
        for dim, values in self.inside:
            if len(values) < len(dim.values):
                frame = frame.filter(pl.col(dim.key).is_in(list(values)))
        for name, over, values in (("column", self.column, self.columns), ("row", self.row, self.rows)):
            if over is None:
                frame = frame.with_columns(pl.lit("").alias(name))
                continue
            frame = frame.filter(pl.col(over.key).is_in(list(values)))
            labels = [over.label(value) for value in values]
            frame = frame.with_columns(
                pl.col(over.key).replace_strict(list(values), labels, return_dtype=pl.String).alias(name)
            )
        return frame

    @property
    def note(self) -> str:
        """Which cells are shown, in a sentence; empty when all are."""
        parts = [f"{dim.label(value)} (of {dim.listed})" for dim, value in self.fixed]
        for dim, values in ((self.column, self.columns), (self.row, self.rows), *self.inside):
            if dim is None or len(values) == len(dim.values):
                continue
            one = len(values) == 1
            parts.append(
                f"{dim.label(values[0])} (of {dim.listed})"
                if one
                else f"{len(values)} of {len(dim.values)} values of {dim.title}"
            )
        return "Shown: " + "; ".join(parts) + "." if parts else ""


def _spread(values: tuple[str, ...], most: int) -> tuple[str, ...]:
    """At most ``most`` of ``values``, evenly spaced, the first and the last among them."""
    if len(values) <= most:
        return values
    if most == 1:
        return values[:1]
    return tuple(values[round(i * (len(values) - 1) / (most - 1))] for i in range(most))


def chosen(dims: Sequence[Dimension], words: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` of each of ``words`` by the dimension that it fixes.

    A key that always changes together with another one stands for the dimension of both only where it is its first.

    Raises ScenarioError: no such key among ``dims``, no such value of it, or one of two values.
    """
    by_key = {sweep_key(dim.key): dim for dim in dims}
    found: dict[str, str] = {}
    for text in words:
        key, equals, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not equals:
            raise _wrong(f'found "{text}", expected KEY=VALUE of what the sweep varies: {", ".join(by_key)}')
        if key not in by_key:
            raise _wrong(unknown_name(key, by_key, "key that the sweep varies"))
        dim = by_key[key]
        said = {dim.word(one): one for one in dim.values}
        if value not in dim.values and value not in said:
            raise _wrong(unknown_name(value, map(dim.word, dim.values), f"value of {key}"))
        if dim.key in found:
            raise _wrong(f"{key} is given twice")
        found[dim.key] = said.get(value, value)
    return found


def _wrong(text: str) -> ScenarioError:
    return ScenarioError([("at", text)], SOURCE_ARGUMENT)


def grid(
    dims: Sequence[Dimension],
    column: Dimension | None,
    row: Dimension | None,
    fixed: dict[str, str] | None = None,
    most: int = 12,
    inside: tuple[Dimension | None, int] = (None, 0),
) -> Grid:
    """A grid of at most ``most`` panels over ``column`` and ``row``; every other dimension is held at one value.

    ``fixed`` says at which (by key); the first value otherwise. Of a column or row that it names, the panels are those
    of that value alone. Dimensions that a figure draws inside its panels must not be among ``dims``; of one of them,
    ``inside``, so many values are shown.
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
