"""Table of calls in a report: outcomes of datagrams and mean opinion score."""

from __future__ import annotations

from bentpipe.figures.context import FigureContext
from bentpipe.metrics.call_quality import aggregate_cells, blocked_calls
from bentpipe.metrics.format import format_cell, mean_of
from bentpipe.metrics.registry import METRICS, Scope, select
from bentpipe.report.html_table import MAX_ROWS, Heading, HtmlTable, TabularCell, TabularRow, mean_cell

__all__ = ["DEFINITIONS", "FIGURES", "table"]

FIGURES = ("call-mos", "call-delay")
"""Figures of calls, in the order of the page."""

_MULTI_CALL_METRICS = ("mos_min", "mos_good_ratio", "blocked_ratio")
_METRICS = tuple(metric.name for metric in select(Scope.CALL) if metric.name not in _MULTI_CALL_METRICS)
DEFINITIONS = {metric.title: metric.definition for metric in select(Scope.CALL)}
"""Definitions of the terms of this section."""


def table(context: FigureContext, most: int = MAX_ROWS) -> HtmlTable:
    """Return one row for each cell, flow (or group) and direction: means over calls and seeds, with intervals."""
    cells = aggregate_cells(context.calls, list(context.store.columns), blocked_calls(context.store))
    many = cells["calls"].max() != 1
    metrics = [METRICS[name] for name in (*_METRICS, *(_MULTI_CALL_METRICS if many else ()))
             if cells[name].null_count() < cells.height]  # fmt: skip
    heads = [Heading(context.title(dim), text=True) for dim in context.dims]
    heads += [Heading("flow", text=True), Heading("direction", text=True), Heading("source", text=True)]
    heads += [Heading("calls")] if many else []
    heads += [Heading(metric.title, metric.unit) for metric in metrics]
    rows: list[TabularRow] = []
    before: list[str] = []
    for row in cells.head(most).iter_rows(named=True):
        cell = [dim.value_label(row[dim.key]) or "–" for dim in context.dims]
        begins = cell != before
        line: list[str | TabularCell] = list(cell if begins else [""] * len(cell))
        line += [row["flow"], row["direction"], row["source"], *([format_cell(row["calls"])] if many else [])]
        for metric in metrics:
            mean = mean_of(row, metric.name)
            line.append("–" if mean is None else mean_cell(metric, mean, row["seeds"]))
        rows.append(TabularRow(line, begins))
        before = cell
    return HtmlTable(heads, rows, max(0, cells.height - most))
