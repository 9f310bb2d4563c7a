"""Bytes received over time during page loads: sequence numbers of TCP, equivalent numbers of QUIC."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MOST_ROWS, downsample
from bentpipe.figures.figure import Figure
from bentpipe.figures.packet_rows import equivalent, received
from bentpipe.figures.page_load_samples import PageLoads
from bentpipe.figures.style import BYTES, colour, facet_grid

MOST_SEEDS = 4
"""Units that are drawn: the first in full colour, the others faint."""

LEAST_POINTS = 40
"""Points that a curve needs; where there are so many curves that they would have fewer, fewer units are drawn."""

_LOAD = ["run", "flow", "load"]


def sequence(material: FigureContext) -> Figure | None:
    """Curves of the largest connection of each load, with responseStart and loadEventEnd marked."""
    if not material.pages.height:
        return None
    found = PageLoads(material)
    where = found.panels(by_load=True)
    cells = where.select(found.rows.with_columns(pl.col("load").cast(pl.String)))
    if not cells.height:
        return None
    panels = cells.select(pl.struct("row", "column", "arm").n_unique()).item()
    most = max(1, min(MOST_SEEDS, MOST_ROWS // (LEAST_POINTS * panels)))
    cells = cells.filter(pl.col("seed").is_in(sorted(set(cells["seed"].to_list()))[:most]))
    curves = received(found, cells["run"].unique(maintain_order=True).to_list())
    if not curves.height:
        return None
    about = cells.select(
        "run", "flow", pl.col("load").cast(pl.Int64), "row", "column", "seed", "arm", "ttr_s", "plt_s"
    )
    curves = curves.join(about, on=_LOAD, how="inner", maintain_order="left")
    apart = (
        ["row", "seed"]
        if where.column is not None and where.column.name == "load"
        else ["row", "column", "seed"]
    )
    curves = equivalent(curves, apart).with_columns(
        series=pl.col("arm"),
        y=pl.col("bytes"),
        first=(pl.col("seed") == pl.col("seed").min()).cast(pl.Int64),
    )
    curve = ["row", "column", "series", "seed"]
    marks = _marks(curves.filter(pl.col("first") == 1))
    ends = [name for name in found.arms if name in set(curves["series"].to_list())]
    points = _with_pauses(curves.select(*curve, "first", "time_s", "y"), curve)
    lines = downsample(points, curve, "time_s", "y", MOST_ROWS - marks.height)
    frame = pl.concat([lines.with_columns(mark=pl.lit("line")), marks.select(*lines.columns, "mark")])
    x = alt.X("time_s:Q", title="time since connectStart, s", scale=alt.Scale(domainMin=0, nice=False))
    y = alt.Y("y:Q", title="received", axis=alt.Axis(tickCount=5, labelExpr=BYTES))
    hue = colour(ends, title=found.arm_title)
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
    what = _meaning(set(curves["transport"].to_list()))
    caption = (
        f"What the client has received on the largest connection of a load. {what} "
        "▼ responseStart, ▲ loadEventEnd."
        + (f" Faint: {many - 1} more unit{'s' if many > 2 else ''}." if many > 1 else "")
    )
    chart = facet_grid(layers, frame, where, height=210)
    title = "Sequence numbers" if curves["transport"].n_unique() > 1 else "Bytes received"
    return Figure("sequence", title, f"{caption} {where.note}".strip(), chart, frame.height)


def _meaning(transports: set[str]) -> str:
    if transports == {"tcp"}:
        return "The height is TCP's sequence number."
    if transports == {"quic"}:
        return "The height is received IP bytes; there is no TCP connection to scale them to."
    return (
        "TCP: the sequence number. QUIC: received IP bytes, scaled in every unit so that its largest connection ends "
        "where the largest TCP connection does."
    )


def _with_pauses(curves: pl.DataFrame, curve: Sequence[str]) -> pl.DataFrame:
    """``curves`` with a point at the end of every pause, at the height before it: a line drawn through the points is
    flat where nothing came, also when most of the points are left out."""
    pause = pl.col("time_s") - pl.col("time_s").shift(1).over(curve)
    span = pl.col("time_s").max().over(curve) - pl.col("time_s").min().over(curve)
    numbered = curves.with_row_index("place")
    held = numbered.with_columns(y=pl.col("y").shift(1).over(curve)).filter(pause > span / 200)
    return (
        pl.concat([held.with_columns(after=pl.lit(0)), numbered.with_columns(after=pl.lit(1))])
        .sort("place", "after", maintain_order=True)
        .drop("place", "after")
    )


def _marks(curves: pl.DataFrame) -> pl.DataFrame:
    """Points on the curves at the two instants: the curve's height there."""
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
