"""The tables of a report: means over seeds with their intervals, in units a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.metrics.compute import aggregate_seeds
from bentpipe.metrics.fairness import unknown_convergence
from bentpipe.metrics.format import mean_of, seed_mean
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.metrics.users import GOODPUT_METRICS, SERVICE_METRICS, aggregate_cells, aggregate_users
from bentpipe.report.html_table import (
    MOST_ROWS,
    Heading,
    HtmlTable,
    TabularCell,
    TabularRow,
    first_groups,
    mean_cell,
)

RESULTS = (
    "goodput_bit_s", "jain", "convergence_s", "harm", "completion_p50_s", "completion_p95_s", "handshake_s",
    "retransmission_ratio", "largest_cwnd_bytes", "ack_bytes", "queueing_p95_ms",
)  # fmt: skip
"""Columns of the table of results."""

OF_RUN = frozenset({"jain", "convergence_s"})
"""Belong to the whole run, and are printed once a cell."""


def results(material: FigureContext, most: int = MOST_ROWS) -> HtmlTable:
    """One row per cell and flow, of ``most`` at all: mean ± half of the interval over seeds."""
    cells = material.cells
    sizes, runs = _sizes(material), _runs(material.metrics, [*material.store.columns, "flow", "direction"])
    present = set(cells["metric"].unique().to_list())
    columns = [METRICS[name] for name in RESULTS if name in present]
    many = material.ways.height > 1 or material.ways["flow"].is_duplicated().any()
    heads = [Heading(material.title(dim), text=True) for dim in material.dims]
    heads += [Heading("flow", text=True)] if many or not material.dims else []
    heads += [Heading("flows")] if material.grouped else []
    heads += [Heading("controller", text=True)] if _tells(material) else []
    heads += [Heading(column.title, column.unit) for column in columns]
    rows: list[TabularRow] = []
    said: set[tuple[object, ...]] = set()
    lines, more = _lines(material, cells, most)
    for cell, begins, first, values in lines:
        line: list[str | TabularCell] = _cell(material, first, begins=begins)
        if many or not material.dims:
            line.append(_flow(material, first))
        if material.grouped:
            line.append(format_significant(sizes[(*cell, first["flow"], first["direction"])]))
        if _tells(material):
            line.append(first["congestion"] or "")
        for column in columns:
            row = values.get(column.name)
            if column.name in OF_RUN and (*cell, first["direction"]) in said:
                line.append("")
            elif row is None:
                line.append("–")
            elif column.skewed:
                found = ConfidenceInterval(row["median"], None, None, row["n"])
                line.append(mean_cell(column, found, runs[*cell, first["flow"], first["direction"]]))
            else:
                line.append(mean_cell(column, seed_mean(row), runs[*cell, first["flow"], first["direction"]]))
        said.add((*cell, first["direction"]))
        rows.append(TabularRow(line, many and begins))
    notes = unknown_convergence(material.metrics) if "jain" in present else ()
    return HtmlTable(heads, rows, more, notes=notes)


def _runs(frame: pl.DataFrame, by: Sequence[str]) -> dict[tuple[object, ...], int]:
    """How many rows of ``frame``, a run each, share each combination of ``by``."""
    return {row[:-1]: row[-1] for row in frame.group_by(by, maintain_order=True).len().iter_rows()}


_Line = tuple[tuple[object, ...], bool, dict[str, Any], dict[str, dict[str, Any]]]
"""Of a table: the cell, whether its rows begin here, its first row of the summary, and all of them by metric."""


def _lines(material: FigureContext, cells: pl.DataFrame, most: int) -> tuple[list[_Line], int]:
    """One a cell, flow and direction of ``cells`` (``compute.cell_summary``), and how many more."""
    by = [*material.store.columns, "flow", "direction"]
    shown, more = first_groups(cells, by, most)
    lines: list[_Line] = []
    for group in shown.partition_by(by, maintain_order=True):
        rows = group.to_dicts()
        cell = tuple(rows[0][key] for key in material.store.columns)
        begins = not lines or lines[-1][0] != cell
        lines.append((cell, begins, rows[0], {row["metric"]: row for row in rows}))
    return lines, more


def _cell(material: FigureContext, row: Mapping[str, Any], *, begins: bool) -> list[str | TabularCell]:
    """The cell's values, once."""
    return [(dim.word(row[dim.key]) or "–") if begins else "" for dim in material.dims]


def _flow(material: FigureContext, row: Mapping[str, Any]) -> str:
    return material.flow_names_short[f"{row['flow']} {row['direction']}"]


def _sizes(material: FigureContext) -> dict[tuple[object, ...], float]:
    """How many flows each row stands for, by cell, flow and direction."""
    if not material.grouped:
        return {}
    by = [*material.store.columns, "flow", "direction"]
    sizes = material.metrics.group_by(by, maintain_order=True).agg(pl.col("flows").mean())
    return {tuple(row[:-1]): row[-1] for row in sizes.iter_rows()}


GROUPS = ("goodput_p5_bit_s", "goodput_p50_bit_s", "goodput_p95_bit_s", "goodput_sum_bit_s", "group_jain")
"""Of the flows of a group: what a mean does not say."""

LINKS = (
    "utilisation", "lost_ratio", "overflow_ratio", "marked_ratio", "queueing_p50_ms", "queueing_p95_ms",
    "queueing_p99_ms", "queueing_max_ms", "decoded_ratio",
)  # fmt: skip
"""Of the busiest links; the last where a link layer decodes."""


def _heads(names: Sequence[str]) -> list[Heading]:
    """Headings of metrics beside each other: the first of its kind says it all."""
    kinds = [METRICS[name].title.partition(", ")[0] for name in names]
    return [
        Heading(
            metric.group_title if metric.group_title and kind in kinds[:at] else metric.title, metric.unit
        )
        for at, (kind, metric) in enumerate(zip(kinds, (METRICS[name] for name in names), strict=True))
    ]


def groups(material: FigureContext, most: int = MOST_ROWS) -> HtmlTable:
    """One row per cell and group: how far apart its flows are; means over seeds."""
    frame = material.metrics.drop_nulls("goodput_sum_bit_s")
    found = aggregate_seeds(frame, material.store.columns, ["flows", *GROUPS])
    heads: list[Heading] = [Heading(material.title(dim), text=True) for dim in material.dims]
    heads += [Heading("flows of", text=True), Heading("flows")]
    heads += _heads(GROUPS)
    rows: list[TabularRow] = []
    lines, more = _lines(material, found, most)
    for _, begins, first, values in lines:
        line = _cell(material, first, begins=begins)
        line += [_flow(material, first), format_significant(values["flows"]["mean"])]
        for name in GROUPS:
            row = values.get(name)
            line.append(
                "–" if row is None else mean_cell(METRICS[name], seed_mean(row), values["flows"]["n"])
            )
        rows.append(TabularRow(line, begins))
    return HtmlTable(heads, rows, more)


def users(material: FigureContext, most: int = MOST_ROWS) -> list[HtmlTable]:
    """One row per cell, table of flows and direction: what its users had of the link they share, and what became of
    their packets; means over seeds."""
    keys = list(material.store.columns)
    cells = aggregate_cells(aggregate_users(material.users, keys), keys)
    return [
        _users(material, cells, names, most)
        for names in (GOODPUT_METRICS, SERVICE_METRICS)
        if _known(cells, names)
    ]


def _known(cells: pl.DataFrame, names: Sequence[str]) -> list[Metric]:
    return [METRICS[name] for name in names if cells[name].null_count() < cells.height]


def _users(material: FigureContext, cells: pl.DataFrame, names: Sequence[str], most: int) -> HtmlTable:
    present = _known(cells, names)
    heads: list[Heading] = [Heading(material.title(dim), text=True) for dim in material.dims]
    heads += [Heading("users of", text=True), Heading("users")]
    heads += [Heading(metric.short_title or metric.title, metric.unit) for metric in present]
    rows: list[TabularRow] = []
    for row in cells.head(most).iter_rows(named=True):
        line = _cell(material, row, begins=True)
        line += [_flow(material, row), format_significant(row["users"])]
        for metric in present:
            found = mean_of(row, metric.name)
            line.append("–" if found is None else mean_cell(metric, found, row["seeds"]))
        rows.append(TabularRow(line, True))
    return HtmlTable(heads, rows, max(0, cells.height - most))


def _tells(material: FigureContext) -> bool:
    """Whether a column with the controller says something that the cell does not."""
    swept = any(dim.kind == "congestion" for dim in material.dims)
    return material.shared or not swept


def links(material: FigureContext, most: int = MOST_ROWS) -> HtmlTable:
    """One row per cell and busiest link, means over seeds."""
    keys = list(material.store.columns)
    order = [*keys, "link"]
    names = [name for name in LINKS if name in material.links.columns]
    means = material.links.group_by(order, maintain_order=True).agg(
        pl.col("rate_bit_s").mean() * METRICS["rate_bit_s"].scale,
        pl.col("propagation_ms").mean(),
        pl.col(names).mean(),
    )
    heads = [Heading(material.title(dim), text=True) for dim in material.dims]
    heads += [Heading("link", text=True), *_heads(("rate_bit_s", "propagation_ms", *names))]
    rows: list[TabularRow] = []
    before: tuple[object, ...] | None = None
    more = max(0, means.height - most)
    for row in means.head(most).iter_rows(named=True):
        cell = tuple(row[key] for key in keys)
        line: list[str | TabularCell] = [
            (dim.word(row[dim.key]) or "–") if cell != before else "" for dim in material.dims
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
