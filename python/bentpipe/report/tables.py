"""The tables of a report: means over seeds with their intervals, in units a person reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import polars as pl

from bentpipe.figures.material import Material
from bentpipe.report.base import Heading, table
from bentpipe.stats.intervals import significant
from bentpipe.stats.metrics import cell_summary
from bentpipe.stats.wording import aligned, plus_minus


@dataclass(frozen=True)
class Column:
    """A column of the table of results: a metric, its heading and unit, and the factor that leads to the unit.

    ``of_run``: it belongs to the whole run, and is printed once a cell. ``skewed``: the median is printed, because
    a few large values would carry the mean away.
    """

    metric: str
    heading: str
    unit: str
    factor: float = 1.0
    of_run: bool = False
    skewed: bool = False


RESULTS = (
    Column("goodput_bit_s", "goodput", "Mbit/s", 1e-6),
    Column("jain", "Jain's index", "", of_run=True),
    Column("convergence_s", "fair after", "s", of_run=True, skewed=True),
    Column("harm", "harm", "%", 100.0),
    Column("completion_p50_s", "completion, median", "s"),
    Column("completion_p95_s", "completion, p95", "s"),
    Column("retransmission_ratio", "sent again", "%", 100.0),
    Column("largest_cwnd_bytes", "largest window", "kB", 1e-3),
    Column("ack_bytes", "ACK volume", "kB", 1e-3),
    Column("queueing_p95_ms", "queueing, p95", "ms"),
)


def mean_and_spread(mean: float, low: float | None, high: float | None, factor: float) -> str:
    """A mean over seeds and, smaller, half of its interval, with decimals alike; HTML."""
    half = None if low is None or high is None or low == high else (high - low) / 2 * abs(factor)
    text, mark, spread = aligned(mean * factor, half, _magnitude, most=6).partition(" ± ")
    if not mark or not float(spread):
        return plus_minus(mean * factor, None)
    return f"{text} <small>± {spread}</small>"


def _magnitude(value: float) -> int:
    """Of the number rounded to one digit: of 0.096 that of 0.1."""
    return int(f"{abs(value):.0e}".partition("e")[2]) if value else 0


def results(material: Material) -> str:
    """One row per cell and flow: mean ± half of the interval over seeds."""
    keys = list(material.store.keys)
    cells = material.cells
    sizes = _sizes(material)
    present = set(cells["metric"].unique().to_list())
    columns = [column for column in RESULTS if column.metric in present]
    by = [*keys, "flow", "direction"]
    many = material.ways.height > 1 or material.ways["flow"].is_duplicated().any()
    heads = [(material.title(dim), "", True) for dim in material.dims]
    heads += [("flow", "", True)] if many or not material.dims else []
    heads += [("flows", "", False)] if material.grouped else []
    heads += [("controller", "", True)] if _tells(material) else []
    heads += [(column.heading, column.unit, False) for column in columns]
    rows: list[tuple[Sequence[str], bool]] = []
    before: tuple[object, ...] | None = None
    said: set[tuple[object, ...]] = set()
    for group in cells.partition_by(by, maintain_order=True):
        first = group.row(0, named=True)
        values = {row["metric"]: row for row in group.to_dicts()}
        cell = tuple(first[key] for key in keys)
        line = [escape(first[dim.key] or "") if cell != before else "" for dim in material.dims]
        if many or not material.dims:
            line.append(escape(material.flow_names_short[f"{first['flow']} {first['direction']}"]))
        if material.grouped:
            line.append(significant(sizes[(*cell, first["flow"], first["direction"])]))
        if _tells(material):
            line.append(escape(first["congestion"] or ""))
        for column in columns:
            row = values.get(column.metric)
            if column.of_run and (*cell, first["direction"]) in said:
                line.append("")
            elif row is None:
                line.append("–")
            elif column.skewed:
                line.append(significant(row["median"] * column.factor, 3))
            else:
                line.append(mean_and_spread(row["mean"], row["mean_low"], row["mean_high"], column.factor))
        said.add((*cell, first["direction"]))
        rows.append((line, many and cell != before))
        before = cell
    return table(heads, rows)


def _sizes(material: Material) -> dict[tuple[object, ...], float]:
    """How many flows each row stands for, by cell, flow and direction."""
    if not material.grouped:
        return {}
    by = [*material.store.keys, "flow", "direction"]
    sizes = material.metrics.group_by(by, maintain_order=True).agg(pl.col("flows").mean())
    return {tuple(row[:-1]): row[-1] for row in sizes.iter_rows()}


GROUPS = (
    ("goodput_p5_bit_s", "goodput, 5th percentile", "Mbit/s", 1e-6),
    ("goodput_p50_bit_s", "50th", "Mbit/s", 1e-6),
    ("goodput_p95_bit_s", "95th", "Mbit/s", 1e-6),
    ("goodput_sum_bit_s", "all together", "Mbit/s", 1e-6),
    ("group_jain", "Jain's index within", "", 1.0),
)
"""Of the flows of a group: what a mean does not say."""


def groups(material: Material) -> str:
    """One row per cell and group: how far apart its flows are; means over seeds."""
    keys = list(material.store.keys)
    frame = material.metrics.drop_nulls("goodput_sum_bit_s")
    found = cell_summary(frame, keys, ["flows", *(name for name, *_ in GROUPS)])
    heads: list[Heading] = [(material.title(dim), "", True) for dim in material.dims]
    heads += [("flows of", "", True), ("flows", "", False)]
    heads += [(heading, unit, False) for _, heading, unit, _ in GROUPS]
    rows: list[tuple[Sequence[str], bool]] = []
    before: tuple[object, ...] | None = None
    for group in found.partition_by([*keys, "flow", "direction"], maintain_order=True):
        first = group.row(0, named=True)
        values = {row["metric"]: row for row in group.to_dicts()}
        cell = tuple(first[key] for key in keys)
        line = [escape(first[dim.key] or "") if cell != before else "" for dim in material.dims]
        line += [
            escape(material.flow_names_short[f"{first['flow']} {first['direction']}"]),
            significant(values["flows"]["mean"]),
        ]
        for name, _, _, factor in GROUPS:
            row = values.get(name)
            line.append(
                "–"
                if row is None
                else mean_and_spread(row["mean"], row["mean_low"], row["mean_high"], factor)
            )
        rows.append((line, cell != before))
        before = cell
    return table(heads, rows)


def _tells(material: Material) -> bool:
    """Whether a column with the controller says something that the cell does not."""
    swept = any(dim.kind == "congestion" for dim in material.dims)
    return material.shared or not swept


def links(material: Material) -> str:
    """One row per cell and busiest link, means over seeds."""
    keys = list(material.store.keys)
    numbers: list[tuple[str, str, str, Callable[[float], float]]] = [
        ("utilisation", "used", "%", lambda v: 100 * v),
        ("lost_ratio", "lost", "%", lambda v: 100 * v),
        ("overflow_ratio", "dropped, queue full", "%", lambda v: 100 * v),
        ("marked_ratio", "marked CE", "%", lambda v: 100 * v),
        ("queueing_p50_ms", "queueing, p50", "ms", lambda v: v),
        ("queueing_p95_ms", "p95", "ms", lambda v: v),
        ("queueing_p99_ms", "p99", "ms", lambda v: v),
        ("queueing_max_ms", "max", "ms", lambda v: v),
    ]
    names = [name for name, *_ in numbers]
    order = [*keys, "link"]
    means = material.links.group_by(order, maintain_order=True).agg(
        pl.col("rate_bit_s").mean() / 1e6, pl.col("propagation_ms").mean(), pl.col(names).mean()
    )
    heads = [(material.title(dim), "", True) for dim in material.dims]
    heads += [("link", "", True), ("rate", "Mbit/s", False), ("propagation", "ms", False)]
    heads += [(heading, unit, False) for _, heading, unit, _ in numbers]
    rows: list[tuple[Sequence[str], bool]] = []
    before: tuple[object, ...] | None = None
    for row in means.to_dicts():
        cell = tuple(row[key] for key in keys)
        line = [escape(row[dim.key] or "") if cell != before else "" for dim in material.dims]
        line += [escape(row["link"]), significant(row["rate_bit_s"]), significant(row["propagation_ms"])]
        line += [
            significant(None if row[name] is None else unit(row[name]), 3) for name, _, _, unit in numbers
        ]
        rows.append((line, cell != before))
        before = cell
    return table(heads, rows)
