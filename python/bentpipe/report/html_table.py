"""Tables of a page as data: headings with their units, rows of cells. ``parts.html`` makes them HTML."""

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
    "MOST_ROWS",
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
"""Rows above which a table is folded at first."""

WIDE = 12
"""Columns from which on a table is printed across the paper."""

MOST_ROWS = 1000
"""Of a table that has a row a cell: nobody reads more, and of a hundred thousand they would be 50 MB."""


@dataclass(frozen=True)
class Heading:
    """Of a column, with its unit, and whether it holds text; ``hint`` says what the word means."""

    title: str
    unit: str = ""
    text: bool = False
    hint: str = ""


@dataclass(frozen=True)
class TabularCell:
    """What is more than its text: ``small`` stands behind it, ``hint`` is shown where the mouse rests, ``mark`` is a
    verdict, which has a colour."""

    text: str
    small: str = ""
    hint: str = ""
    mark: str = ""


@dataclass(frozen=True)
class TabularRow:
    """Cells, and whether they begin a group of rows."""

    cells: Sequence[str | TabularCell]
    first: bool = False


@dataclass(frozen=True)
class HtmlTable:
    """A table."""

    heads: Sequence[Heading]
    rows: Sequence[TabularRow]
    more: int = 0
    """What there is beside these rows..."""
    what: str = "rows"
    """... and in what it is counted."""
    notes: Sequence[str] = ()
    """Below it: what its cells cannot say."""

    @property
    def long(self) -> bool:
        """Whether it is folded at first."""
        return len(self.rows) > LONG

    @property
    def wide(self) -> bool:
        """Whether it is printed across the paper."""
        return len(self.heads) >= WIDE


def mean_cell(metric: Metric, found: ConfidenceInterval, runs: int) -> TabularCell:
    """:func:`bentpipe.metrics.format.format_metric_mean` with all but the mean in small letters."""
    mean, blank, rest = format_metric_mean(metric, found, runs).partition(" ")
    return TabularCell(mean, small=rest if blank else "")


def first_groups(frame: pl.DataFrame, by: Sequence[str], most: int) -> tuple[pl.DataFrame, int]:
    """The rows of the first groups of ``frame``, which share ``by``, and how many groups there are more."""
    groups = frame.select(by).unique(maintain_order=True)
    if groups.height <= most:
        return frame, 0
    kept = frame.join(groups.head(most), on=by, how="semi", nulls_equal=True, maintain_order="left")
    return kept, groups.height - most


def tabular(rows: Sequence[Mapping[str, Any]]) -> HtmlTable | None:
    """A table of rows as data, None without any; a column that holds nothing but numbers is set as such, and "time, s"
    has its unit below.

    An empty first cell continues the row above; verdicts have their colours.
    """
    if not rows:
        return None
    heads = []
    for name in rows[0]:
        head, comma, unit = str(name).rpartition(", ")
        said = comma and re.fullmatch(r"[µm]?s|%|[kMG]?B|[kMG]?bit/s", unit)
        numbers = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
        heads.append(Heading(head if said else str(name), unit if said else "", not numbers))
    lines: list[TabularRow] = []
    for row in rows:
        values = list(row.values())
        lines.append(
            TabularRow([_cell(value) for value in values], bool(lines) and format_cell(values[0]) != "")
        )
    return HtmlTable(heads, lines)


def add_tooltips(grid: HtmlTable, words: Mapping[str, str]) -> HtmlTable:
    """``grid`` with hints at headings that have one of ``words`` among theirs, and at cells that begin with one."""

    def meaning(*said: str) -> str:
        return next((words[word] for word in said if word in words), "")

    def cell(it: str | TabularCell) -> str | TabularCell:
        one = it if isinstance(it, TabularCell) else TabularCell(it)
        hint = "" if one.hint else meaning(re.split(r" \(|: ", one.text)[0])
        return replace(one, hint=hint) if hint else it

    heads = [replace(head, hint=meaning(head.title, *re.split(r", |: ", head.title))) for head in grid.heads]
    rows = [replace(row, cells=[cell(it) for it in row.cells]) for row in grid.rows]
    return replace(grid, heads=heads, rows=rows)


def _cell(value: Any) -> str | TabularCell:
    text = format_cell(value)
    verdict = re.match(r"agrees|differs|(within|exceeded)$", text)
    return TabularCell(text, mark=verdict[0]) if verdict else text
