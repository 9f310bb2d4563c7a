"""Received bytes over time of page loads: sequence numbers of TCP, equivalent numbers of QUIC."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MAX_ROWS, downsample
from bentpipe.figures.figure import Figure
from bentpipe.figures.packet_rows import equivalent, received
from bentpipe.figures.page_load_samples import PageLoads
from bentpipe.figures.style import BYTES, colour, facet_grid

MAX_SEEDS = 4
"""Largest number of drawn sessions: the first in full colour, the others faint."""

MIN_POINTS = 40
"""Smallest number of points of a curve; with too many curves, fewer sessions are drawn."""

_LOAD = ["run", "flow", "load"]


def time_sequence(context: FigureContext) -> Figure | None:
    """Draw the largest connection of each load, with responseStart and loadEventEnd."""
    if not context.pages.height:
        return None
    found = PageLoads(context)
    where = found.panels(by_load=True)
    cells = where.select(found.rows.with_columns(pl.col("load").cast(pl.String)))
    if not cells.height:
        return None
    panels = cells.select(pl.struct("row", "column", "variant").n_unique()).item()
    most = max(1, min(MAX_SEEDS, MAX_ROWS // (MIN_POINTS * panels)))
    cells = cells.filter(pl.col("seed").is_in(sorted(set(cells["seed"].to_list()))[:most]))
    curves = received(found, cells["run"].unique(maintain_order=True).to_list())
    if not curves.height:
        return None
    instants = cells.select(
        "run", "flow", pl.col("load").cast(pl.Int64), "row", "column", "seed", "variant", "ttr_s", "plt_s"
    )
    curves = curves.join(instants, on=_LOAD, how="inner", maintain_order="left")
    by_unit = (
        ["row", "seed"]
        if where.column is not None and where.column.name == "load"
        else ["row", "column", "seed"]
    )
    curves = equivalent(curves, by_unit).with_columns(
        series=pl.col("variant"),
        y=pl.col("bytes"),
        first=(pl.col("seed") == pl.col("seed").min()).cast(pl.Int64),
    )
    curve = ["row", "column", "series", "seed"]
    marks = _marks(curves.filter(pl.col("first") == 1))
    ends = [name for name in found.variants if name in set(curves["series"].to_list())]
    points = _with_pauses(curves.select(*curve, "first", "time_s", "y"), curve)
    lines = downsample(points, curve, "time_s", "y", MAX_ROWS - marks.height)
    frame = pl.concat([lines.with_columns(mark=pl.lit("line")), marks.select(*lines.columns, "mark")])
    x = alt.X("time_s:Q", title="time since connectStart, s", scale=alt.Scale(domainMin=0, nice=False))
    y = alt.Y("y:Q", title="received", axis=alt.Axis(tickCount=5, labelExpr=BYTES))
    hue = colour(ends, title=found.variant_title, known=context.colours)
    base = alt.Chart()
    line = base.mark_line(clip=True)
    layers = [
        line.transform_filter("datum.mark == 'line' && datum.first == 1").encode(x=x, y=y, color=hue),
        line.transform_filter("datum.mark == 'line' && datum.first == 0").encode(
            x=x, y=y, color=hue, detail="seed:N", opacity=alt.value(0.25)
        ),
        *[
            base.mark_point(
                filled=True, shape=form, size=70, opacity=1, yOffset=shift, stroke="white", strokeWidth=0.6
            )
            .transform_filter(f"datum.mark == '{mark}'")
            .encode(
                x=x, y=y, color=hue, tooltip=[alt.Tooltip("mark:N"), alt.Tooltip("time_s:Q", format=".4~g")]
            )
            for mark, form, shift in (
                ("responseStart", "triangle-down", -6),
                ("loadEventEnd", "triangle-up", 6),
            )
        ],
    ]
    many = len(set(curves["seed"].to_list()))
    meaning = _meaning(set(curves["transport"].to_list()))
    caption = (
        f"Data that the client has received on the largest connection of a load. {meaning} ▼ "
        "responseStart, ▲ loadEventEnd."
        + (f" Faint: {many - 1} more session{'s' if many > 2 else ''}." if many > 1 else "")
    )
    chart = facet_grid(layers, frame, where, height=210)
    title = "Bytes received" if set(curves["transport"]) == {"quic"} else "Time-sequence graph (Stevens)"
    return Figure("time-sequence", title, f"{caption} {where.note}".strip(), chart, frame.height)


def _meaning(transports: set[str]) -> str:
    if transports == {"tcp"}:
        return "The vertical axis is the TCP sequence number."
    if transports == {"quic"}:
        return "The vertical axis is received IP bytes, unscaled, because the store has no TCP connection."
    return (
        "TCP: sequence number. QUIC: received IP bytes, scaled per session so that the largest "
        "QUIC and TCP connections end at the same height."
    )


def _with_pauses(curves: pl.DataFrame, curve: Sequence[str]) -> pl.DataFrame:
    """Add a point at the end of every pause with the value before it.

    The line is then flat during pauses, even after downsampling.
    """
    pause = pl.col("time_s") - pl.col("time_s").shift(1).over(curve)
    span = pl.col("time_s").max().over(curve) - pl.col("time_s").min().over(curve)
    numbered = curves.with_row_index("place")
    ends = numbered.with_columns(y=pl.col("y").shift(1).over(curve)).filter(pause > span / 200)
    return (
        pl.concat([ends.with_columns(after=pl.lit(0)), numbered.with_columns(after=pl.lit(1))])
        .sort("place", "after", maintain_order=True)
        .drop("place", "after")
    )


def _marks(curves: pl.DataFrame) -> pl.DataFrame:
    """Return the points of the curves at responseStart and loadEventEnd."""
    by = ["row", "column", "series", "seed", "first"]
    parts = []
    for column, name in (("ttr_s", "responseStart"), ("plt_s", "loadEventEnd")):
        reached = curves.filter(pl.col(column).is_not_null() & (pl.col("time_s") <= pl.col(column) + 1e-9))
        parts.append(
            reached.group_by(by, maintain_order=True)
            .agg(pl.col(column).first().alias("time_s"), pl.col("y").last())
            .with_columns(mark=pl.lit(name))
        )
    return pl.concat(parts)
