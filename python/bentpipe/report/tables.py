"""Tables of a report: means over seeds with intervals, in display units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.sweep_dimensions import Dimension
from bentpipe.metrics.compute import aggregate_seeds
from bentpipe.metrics.fairness import unknown_convergence
from bentpipe.metrics.format import mean_of, seed_mean
from bentpipe.metrics.groups import OVER_FLOWS
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.metrics.registry import METRICS, OVER_SEEDS, Metric, Scope, select
from bentpipe.metrics.transfers import has_one_transfer
from bentpipe.metrics.users import GOODPUT_METRICS, SERVICE_METRICS, aggregate_cells, aggregate_users
from bentpipe.report.html_table import (
    MAX_ROWS,
    Heading,
    HtmlTable,
    TabularCell,
    TabularRow,
    first_groups,
    mean_cell,
)
from bentpipe.scenario.sweep_columns import label_contains

RESULTS = OVER_SEEDS
"""Columns of the table of results."""

RUN_METRICS = frozenset(metric.name for metric in select(Scope.RUN))
"""Metrics of the whole run, which appear once for each cell."""


def result_metrics(context: FigureContext) -> list[Metric]:
    """Return the columns of the table of results; the quantiles of one transfer are its completion time."""
    metrics = [METRICS[name] for name in RESULTS]
    if not has_one_transfer(context.transfers):
        return metrics
    alone = METRICS["completion_s"]
    return [
        replace(metric, title=alone.title, definition=alone.definition)
        if metric.name == "completion_p50_s"
        else metric
        for metric in metrics
        if metric.name != "completion_p95_s"
    ]


def results(context: FigureContext, most: int = MAX_ROWS) -> HtmlTable:
    """Return one row for each cell and flow, at most ``most``: mean ± half of the interval over seeds."""
    cells = context.cells
    sizes, runs = _sizes(context), _runs(context.metrics, [*context.store.columns, "flow", "direction"])
    present = set(cells["metric"].unique().to_list())
    columns = [metric for metric in result_metrics(context) if metric.name in present]
    many = context.directions.height > 1 or context.directions["flow"].is_duplicated().any()
    heads = [Heading(context.title(dim), text=True) for dim in context.dims]
    heads += [Heading("flow", text=True)] if many or not context.dims else []
    heads += [Heading("flows")] if context.grouped else []
    heads += [Heading("controller", text=True)] if _has_controller_column(context) else []
    heads += [Heading(column.title, column.unit) for column in columns]
    rows: list[TabularRow] = []
    complete: set[tuple[object, ...]] = set()
    lines, more = _lines(context, cells, most)
    for cell, begins, first, values in lines:
        line: list[str | TabularCell] = _cell(context, first, begins=begins)
        if many or not context.dims:
            line.append(_flow(context, first))
        if context.grouped:
            line.append(format_significant(sizes[(*cell, first["flow"], first["direction"])]))
        if _has_controller_column(context):
            line.append(first["congestion"] or "")
        for column in columns:
            row = values.get(column.name)
            if column.name in RUN_METRICS and (*cell, first["direction"]) in complete:
                line.append("")
            elif row is None:
                line.append("–")
            elif column.is_skewed:
                median = ConfidenceInterval(row["median"], None, None, row["n"])
                line.append(mean_cell(column, median, runs[*cell, first["flow"], first["direction"]]))
            else:
                line.append(mean_cell(column, seed_mean(row), runs[*cell, first["flow"], first["direction"]]))
        complete.add((*cell, first["direction"]))
        rows.append(TabularRow(line, many and begins))
    notes = unknown_convergence(context.metrics) if "jain" in present else ()
    return HtmlTable(heads, rows, more, notes=notes)


def _runs(frame: pl.DataFrame, by: Sequence[str]) -> dict[tuple[object, ...], int]:
    """Return the number of rows of ``frame``, one for each run, by combination of ``by``."""
    return {row[:-1]: row[-1] for row in frame.group_by(by, maintain_order=True).len().iter_rows()}


_Line = tuple[tuple[object, ...], bool, dict[str, Any], dict[str, dict[str, Any]]]
"""Line of a table: cell, whether it is the first of its cell, first row of the aggregate, all rows by metric."""


def _lines(context: FigureContext, cells: pl.DataFrame, most: int) -> tuple[list[_Line], int]:
    """Return one line for each cell, flow and direction of ``compute.aggregate_seeds``, and the number of others."""
    by = [*context.store.columns, "flow", "direction"]
    shown, more = first_groups(cells, by, most)
    lines: list[_Line] = []
    for group in shown.partition_by(by, maintain_order=True):
        rows = group.to_dicts()
        cell = tuple(rows[0][key] for key in context.store.columns)
        begins = not lines or lines[-1][0] != cell
        lines.append((cell, begins, rows[0], {row["metric"]: row for row in rows}))
    return lines, more


def _cell(context: FigureContext, row: Mapping[str, Any], *, begins: bool) -> list[str | TabularCell]:
    """Return the labels of the cell in its first row, else empty labels."""
    return [(dim.value_label(row[dim.key]) or "–") if begins else "" for dim in context.dims]


def _flow(context: FigureContext, row: Mapping[str, Any]) -> str:
    return context.flow_names_short[f"{row['flow']} {row['direction']}"]


def _sizes(context: FigureContext) -> dict[tuple[object, ...], float]:
    """Return the mean number of flows of each row, by cell, flow and direction."""
    if not context.grouped:
        return {}
    by = [*context.store.columns, "flow", "direction"]
    sizes = context.metrics.group_by(by, maintain_order=True).agg(pl.col("flows").mean())
    return {tuple(row[:-1]): row[-1] for row in sizes.iter_rows()}


GROUPS = OVER_FLOWS
"""Metrics of the spread and sum over the flows of a group."""

LINKS = tuple(metric.name for metric in select(Scope.LINK) if metric.in_report)
"""Metrics of bottlenecks; ``decoded_ratio`` only for radio links."""


def _heads(names: Sequence[str]) -> list[Heading]:
    """Return headings of adjacent metrics: only the first of a kind has the full title."""
    kinds = [METRICS[name].title.partition(", ")[0] for name in names]
    return [
        Heading(
            metric.group_title if metric.group_title and kind in kinds[:at] else metric.title, metric.unit
        )
        for at, (kind, metric) in enumerate(zip(kinds, (METRICS[name] for name in names), strict=True))
    ]


def groups(context: FigureContext, most: int = MAX_ROWS) -> HtmlTable:
    """Return one row for each cell and group: spread over its flows, means over seeds."""
    frame = context.metrics.drop_nulls("goodput_sum_bit_s")
    cells = aggregate_seeds(frame, context.store.columns, ["flows", *GROUPS])
    heads: list[Heading] = [Heading(context.title(dim), text=True) for dim in context.dims]
    heads += [Heading("flows of", text=True), Heading("flows")]
    heads += _heads(GROUPS)
    rows: list[TabularRow] = []
    lines, more = _lines(context, cells, most)
    for _, begins, first, values in lines:
        line = _cell(context, first, begins=begins)
        line += [_flow(context, first), format_significant(values["flows"]["mean"])]
        for name in GROUPS:
            row = values.get(name)
            line.append(
                "–" if row is None else mean_cell(METRICS[name], seed_mean(row), values["flows"]["n"])
            )
        rows.append(TabularRow(line, begins))
    return HtmlTable(heads, rows, more)


def users(context: FigureContext, most: int = MAX_ROWS) -> list[HtmlTable]:
    """Return the tables of goodput and packet outcomes of users.

    Each has one row for each cell, table of flows and direction, with means over seeds.
    """
    keys = list(context.store.columns)
    cells = aggregate_cells(aggregate_users(context.users, keys), keys)
    return [
        _users(context, cells, names, most)
        for names in (GOODPUT_METRICS, SERVICE_METRICS)
        if _present_metrics(cells, names)
    ]


def _present_metrics(cells: pl.DataFrame, names: Sequence[str]) -> list[Metric]:
    return [METRICS[name] for name in names if cells[name].null_count() < cells.height]


def _users(context: FigureContext, cells: pl.DataFrame, names: Sequence[str], most: int) -> HtmlTable:
    present = _present_metrics(cells, names)
    heads: list[Heading] = [Heading(context.title(dim), text=True) for dim in context.dims]
    heads += [Heading("users of", text=True), Heading("users")]
    heads += [Heading(metric.short_title or metric.title, metric.unit) for metric in present]
    rows: list[TabularRow] = []
    for row in cells.head(most).iter_rows(named=True):
        line = _cell(context, row, begins=True)
        line += [_flow(context, row), format_significant(row["users"])]
        for metric in present:
            mean = mean_of(row, metric.name)
            line.append("–" if mean is None else mean_cell(metric, mean, row["seeds"]))
        rows.append(TabularRow(line, True))
    return HtmlTable(heads, rows, max(0, cells.height - most))


def _has_controller_column(context: FigureContext) -> bool:
    """Return whether a column with the controller adds information to the cell."""
    swept = any(dim.kind == "congestion" for dim in context.dims)
    return context.shared or not (swept or any(_has_controller_label(context, dim) for dim in context.dims))


def _has_controller_label(context: FigureContext, dim: Dimension) -> bool:
    """Return whether the label of a tied axis contains the controller in every cell."""
    pairs = context.metrics.select(dim.key, "congestion").unique().rows()
    return dim.labelled and all(
        label is not None and controller is not None and label_contains(label, controller)
        for label, controller in pairs
    )


def links(context: FigureContext, most: int = MAX_ROWS) -> HtmlTable:
    """Return one row for each cell and bottleneck, means over seeds."""
    keys = list(context.store.columns)
    order = [*keys, "link"]
    names = [name for name in LINKS if name in context.links.columns]
    means = context.links.group_by(order, maintain_order=True).agg(
        pl.col("rate_bit_s").mean() * METRICS["rate_bit_s"].scale,
        pl.col("propagation_ms").mean(),
        pl.col(names).mean(),
    )
    heads = [Heading(context.title(dim), text=True) for dim in context.dims]
    heads += [Heading("link", text=True), *_heads(("rate_bit_s", "propagation_ms", *names))]
    rows: list[TabularRow] = []
    before: tuple[object, ...] | None = None
    more = max(0, means.height - most)
    for row in means.head(most).iter_rows(named=True):
        cell = tuple(row[key] for key in keys)
        line: list[str | TabularCell] = [
            (dim.value_label(row[dim.key]) or "–") if cell != before else "" for dim in context.dims
        ]
        line += [
            row["link"],
            format_significant(row["rate_bit_s"]),
            format_significant(row["propagation_ms"]),
        ]
        line += [
            format_significant(None if row[name] is None else METRICS[name].scale * row[name], 3)
            for name in names
        ]
        rows.append(TabularRow(line, cell != before))
        before = cell
    return HtmlTable(heads, rows, more)
