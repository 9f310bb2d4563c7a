"""Tables of a page as data: headings with units and rows of cells. ``parts.html`` renders them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import format_cell, format_metric_mean

if TYPE_CHECKING:
    import polars as pl

    from bentpipe.metrics.intervals import ConfidenceInterval
    from bentpipe.metrics.registry import Metric

__all__ = [
    "MAX_ROWS",
    "Heading",
    "HtmlTable",
    "TabularCell",
    "TabularRow",
    "add_tooltips",
    "first_groups",
    "mean_cell",
    "tabular",
]

LONG = 16
"""Largest number of rows of a table that is initially expanded."""

WIDE = 12
"""Smallest number of columns of a table in landscape format on paper."""

MAX_ROWS = 1000
"""Largest number of rows of a table by cell; a hundred thousand rows would be 50 MB."""


@dataclass(frozen=True)
class Heading:
    """Heading of a column with its unit; ``text``: the column has text, ``hint``: definition of the title."""

    title: str
    unit: str = ""
    text: bool = False
    hint: str = ""


@dataclass(frozen=True)
class TabularCell:
    """Cell with attributes.

    ``small`` is small text behind the text, ``hint`` a tooltip, ``mark`` a verdict with a colour.
    """

    text: str
    small: str = ""
    hint: str = ""
    mark: str = ""


@dataclass(frozen=True)
class TabularRow:
    """Row of cells; ``first``: the row begins a group of rows."""

    cells: Sequence[str | TabularCell]
    first: bool = False


@dataclass(frozen=True)
class HtmlTable:
    """Table of a page."""

    heads: Sequence[Heading]
    rows: Sequence[TabularRow]
    more: int = 0
    """Number of omitted rows."""
    what: str = "rows"
    """Unit of ``more``."""
    notes: Sequence[str] = ()
    """Notes below the table."""

    def text_rows(self) -> list[dict[str, str]]:
        """Return the rows as text by column heading, for the terminal."""
        titles = [f"{head.title} {head.unit}".rstrip() for head in self.heads]
        texts = (
            [cell if isinstance(cell, str) else f"{cell.text} {cell.small}".rstrip() for cell in row.cells]
            for row in self.rows
        )
        return [dict(zip(titles, line, strict=True)) for line in texts]

    @property
    def long(self) -> bool:
        """Whether the table is initially collapsed."""
        return len(self.rows) > LONG

    @property
    def wide(self) -> bool:
        """Whether the table is printed in landscape format."""
        return len(self.heads) >= WIDE


def mean_cell(metric: Metric, interval: ConfidenceInterval, runs: int) -> TabularCell:
    """Return :func:`bentpipe.metrics.format.format_metric_mean` as a cell; all but the mean is small text."""
    mean, blank, rest = format_metric_mean(metric, interval, runs).partition(" ")
    return TabularCell(mean, small=rest if blank else "")


def first_groups(frame: pl.DataFrame, by: Sequence[str], most: int) -> tuple[pl.DataFrame, int]:
    """Return the rows of the first ``most`` groups of ``frame`` by ``by``, and the number of omitted groups."""
    groups = frame.select(by).unique(maintain_order=True)
    if groups.height <= most:
        return frame, 0
    first = frame.join(groups.head(most), on=by, how="semi", nulls_equal=True, maintain_order="left")
    return first, groups.height - most


def tabular(rows: Sequence[Mapping[str, Any]]) -> HtmlTable | None:
    """Return a table of rows; None without rows.

    A column with only numbers is numeric. A heading such as "time, s" has its unit below. An empty first cell continues
    the group of the row above. Verdicts have colours.
    """
    if not rows:
        return None
    heads = []
    for name in rows[0]:
        head, comma, unit = str(name).rpartition(", ")
        has_unit = comma and re.fullmatch(r"[µm]?s|%|[kMG]?B|[kMG]?bit/s", unit)
        numbers = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
        heads.append(Heading(head if has_unit else str(name), unit if has_unit else "", not numbers))
    lines: list[TabularRow] = []
    for row in rows:
        values = list(row.values())
        lines.append(
            TabularRow([_cell(value) for value in values], bool(lines) and format_cell(values[0]) != "")
        )
    return HtmlTable(heads, lines)


def add_tooltips(table: HtmlTable, definitions: Mapping[str, str]) -> HtmlTable:
    """Add tooltips to headings that contain a term of ``definitions``, and to cells that begin with one."""

    def definition(*terms: str) -> str:
        return next((definitions[term] for term in terms if term in definitions), "")

    def add(cell: str | TabularCell) -> str | TabularCell:
        full = cell if isinstance(cell, TabularCell) else TabularCell(cell)
        hint = "" if full.hint else definition(re.split(r" \(|: ", full.text)[0])
        return replace(full, hint=hint) if hint else cell

    heads = [
        replace(head, hint=definition(head.title, *re.split(r", |: ", head.title))) for head in table.heads
    ]
    rows = [replace(row, cells=[add(cell) for cell in row.cells]) for row in table.rows]
    return replace(table, heads=heads, rows=rows)


def _cell(value: Any) -> str | TabularCell:
    text = format_cell(value)
    verdict = re.match(r"agrees|differs|(within|exceeded)$", text)
    return TabularCell(text, mark=verdict[0]) if verdict else text
