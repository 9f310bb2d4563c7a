"""Figures of calls: one-way delay of datagrams and mean opinion score."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MAX_ROWS
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import GREY, MAX_AXIS_VALUES, axis, category_axis, colour, facet_grid, shape
from bentpipe.figures.sweep_dimensions import Dimension, Grid, grid, of_kind
from bentpipe.metrics.call_quality import GOOD, MAX_MOS, aggregate_cells
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.registry import METRICS

DELAY, OPINION = METRICS["delay_ms"], METRICS["mos"]


def call_delay(context: FigureContext) -> Figure | None:
    """Draw distributions of the one-way delay of datagrams over all calls and seeds of a cell."""
    if not context.calls.height:
        return None
    rest = _panels(context.dims)
    known = pl.col("sent_packets") - pl.col("pending_packets")
    cells = [key for dim in context.dims for key in dim.keys]
    by = [*dict.fromkeys(cells), "series"]
    index = context.store.index.select("run", *dict.fromkeys(cells))

    def named(table: str) -> pl.DataFrame:
        rows = as_groups(context.store.rows(table), context.flow_summary)
        return rest.select(_series(rows.join(index, on="run", how="inner", maintain_order="left")))

    whole = named("calls").group_by(["row", "column", "series"]).agg(known=known.sum())
    bins = named("call_delays").group_by(["row", "column", "series", "delay_ms"]).agg(pl.col("packets").sum())
    if not bins.height or not by:
        return None
    rows = shares(bins, whole, ["row", "column", "series"])
    series = _labels(rows)
    line = alt.Chart().mark_line().encode(
        x=alt.X("x:Q", **axis(rows["x"].to_list(), DELAY.axis)),
        y=alt.Y("y:Q", title="datagrams, %", scale=alt.Scale(domain=[0, 100])),
        color=colour(series, known=context.colours),
    )  # fmt: skip
    caption = (
        "Share of datagrams with at most this one-way delay, over all calls and seeds. The delay "
        "starts when the datagram is full. A curve that ends below 100 % shows loss."
    )
    return Figure(
        "call-delay",
        "One-way delay of datagrams (ECDF)",
        f"{caption} {rest.note}".strip(),
        facet_grid([line], rows, rest, height=170),
        rows.height,
    )


def shares(bins: pl.DataFrame, whole: pl.DataFrame, where: list[str]) -> pl.DataFrame:
    """Return the share ``y`` of datagrams, in per cent, with a delay of at most ``x`` ms, for each group.

    Args:
        bins: ``packets`` by ``delay_ms``, an integer.
        whole: number of datagrams with a known outcome, ``known``, including lost ones.
        where: columns of a group in both frames.
    """
    rows = (
        bins.join(whole, on=where)
        .sort([*where, "delay_ms"])
        .with_columns(y=100 * pl.col("packets").cum_sum().over(where) / pl.col("known"))
        # all datagrams of a bin have arrived at its end
        .with_columns(x=pl.col("delay_ms") + 1)
    )
    start = rows.group_by(where, maintain_order=True).agg(pl.col("delay_ms").min().alias("x"))
    rows = pl.concat(
        [start.select(*where, "x", y=pl.lit(0.0)), rows.select(*where, "x", "y")], how="vertical_relaxed"
    ).sort([*where, "x"])
    most = max(4, MAX_ROWS // rows.select(pl.struct(where).n_unique()).item())
    place, count = pl.int_range(pl.len()).over(where), pl.len().over(where)
    return rows.filter((place % (count / most).ceil().cast(pl.Int64) == 0) | (place == count - 1))


def call_mos(context: FigureContext) -> Figure | None:
    """Draw mean opinion scores over a dimension of the sweep."""
    dim_x = _axis_dim(context.dims)
    if dim_x is None or not context.calls.height:
        return None
    rated = context.calls.filter(pl.col("mos").is_not_null())
    if not rated.height:
        return None
    rest = _panels([dim for dim in context.dims if dim is not dim_x], dim_x)
    values = list(rest.inside[0][1])
    names = [dim_x.value_label(value) for value in values]
    keys = list(context.store.columns)
    cells = _series(aggregate_cells(rated, keys))
    place = pl.col(dim_x.key).replace_strict(values, list(range(len(values))), return_dtype=pl.Int64)
    frame = rest.select(cells).with_columns(label=dim_x.label_column, x=place)
    frame = frame.select("row", "column", "series", "label", "x", "mos", "mos_low", "mos_high", "mos_min")
    limits = pl.col("mos_low", "mos_high").cast(pl.Float64).clip(1.0, MAX_MOS)
    frame = frame.with_columns(limits, good=pl.lit(GOOD)).sort("row", "column", "series", "x")
    if not frame.height:
        return None
    series = _labels(frame)
    ticks = category_axis(names, frame["column"].n_unique())
    across = alt.X("label:O", sort=names, title=context.title(dim_x), axis=ticks)
    upright = alt.Scale(domain=[1, MAX_MOS])

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=OPINION.axis, scale=upright)

    hue, form = colour(series, known=context.colours), shape(series)
    tips = ["series:N", alt.Tooltip("label:N", title=context.title(dim_x)), alt.Tooltip("mos:Q", format=".3f"),
            alt.Tooltip("mos_min:Q", title="min of a call", format=".3f")]  # fmt: skip
    base = alt.Chart()
    layers = [
        base.mark_rule(color=GREY, strokeDash=[4, 3]).encode(y=y("good")),
        # Alternatives, such as controllers, have no order.
        *([base.mark_line().encode(x=across, y=y("mos"), color=hue)] if dim_x.is_quantity else []),
        base.mark_rule().encode(x=across, y=y("mos_low"), y2="mos_high:Q", color=hue),
        base.mark_point(filled=True, size=46, opacity=1).encode(
            x=across, y=y("mos"), color=hue, shape=form, tooltip=tips
        ),
    ]
    seeds = context.store.index["seed"].n_unique()
    bars = f"; bars: 95 % confidence intervals over {seeds} seeds" if seeds > 1 else ""
    caption = (
        "Mean opinion score (ITU-T G.107) with adaptive play-out, mean over the calls of a "
        f"run{bars}. Most users are satisfied above the dashed line at {GOOD:g}."
    )
    return Figure(
        "call-mos",
        "Mean opinion score",
        f"{caption} {rest.note}".strip(),
        facet_grid(layers, frame, rest, height=190),
        frame.height,
    )


def _axis_dim(dims: Sequence[Dimension]) -> Dimension | None:
    """Return the dimension of the horizontal axis: an amount, else alternatives; None without a sweep."""
    amounts = [dim for dim in dims if dim.is_quantity]
    return of_kind(amounts or dims, "other", "delay", "loss", "rate", "congestion")


def _panels(dims: Sequence[Dimension], inside: Dimension | None = None) -> Grid:
    column = of_kind(dims, "other", "congestion", "loss", "rate", "delay")
    row = of_kind([dim for dim in dims if dim is not column], "delay", "other", "loss", "rate", "congestion")
    return grid(dims, column, row, inside=(inside, MAX_AXIS_VALUES))


def _series(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the label of a line: the direction, and with several flows the flow."""
    several = rows["flow"].n_unique() > 1
    name = pl.concat_str("flow", "direction", separator=", ") if several else pl.col("direction")
    return rows.with_columns(series=name)


def _labels(rows: pl.DataFrame) -> list[str]:
    """Return the labels of all lines, up before down."""
    labels = rows["series"].unique().to_list()
    return sorted(labels, key=lambda name: (name.rpartition(", ")[0], name.endswith("down")))
