"""Bundle events over time: generated, delivered, acknowledged, deleted."""

from __future__ import annotations

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import downsample
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import colour, facet_grid

_EVENTS = ("generated", "delivered", "acknowledged", "deleted")


def bundles(context: FigureContext) -> Figure | None:
    """Draw the cumulative number of bundles of clients by event over time."""
    rows = context.store.rows("bundles")
    if rows.width <= 1 or not rows.height:
        return None
    rows = rows.filter((pl.col("kind") == "data") & pl.col("event").is_in(_EVENTS))
    first, last = context.time_range
    # Fragments do not count as bundles of a client.
    rows = rows.filter(pl.col("offset_bytes").is_null() | pl.col("offset_bytes").is_nan())
    shown = rows.join(context.time_runs, on="run", how="inner", maintain_order="left")
    by = ["row", "column", "event"]
    shown = shown.sort("time_s", maintain_order=True).with_columns(
        y=pl.int_range(1, pl.len() + 1).over(by).cast(pl.Float64), series=pl.col("event").cast(pl.String)
    )
    shown = shown.filter(pl.col("time_s") >= first)
    if last is not None:
        shown = shown.filter(pl.col("time_s") <= last)
    if not shown.height:
        return None
    panels = ["row", "column", "series", "run"]
    shown = downsample(context.with_run_numbers(shown).select(*panels, "time_s", "y"), panels, "time_s", "y")
    series = [name for name in _EVENTS if name in set(shown["series"].to_list())]
    marks = alt.Chart().mark_line(interpolate="step-after", point=alt.OverlayMarkDef(size=18), strokeWidth=1).encode(
        x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(domainMin=first)),
        y=alt.Y("y:Q", title="bundles"),
        color=colour(series, title="event"),
    )  # fmt: skip
    one = context.time_runs.select("row", "column").n_unique() == 1
    chart = facet_grid([marks], shown, context.time_grid, height=260 if one else 140)
    caption = "Cumulative number of client bundles generated, delivered, acknowledged or deleted."
    return Figure(
        "bundles", "Bundles over time", caption, chart, shown.height, context.time_note, of_runs=True
    )
