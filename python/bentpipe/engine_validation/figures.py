"""Figures with both engines: delivered bytes and congestion window over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.downsample import downsample
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, ORANGE, inline_csv, panel_width
from bentpipe.metrics.compute import flow_directions
from bentpipe.metrics.format import UNLIMITED_BYTES, short_labels
from bentpipe.metrics.groups import as_groups

if TYPE_CHECKING:
    from bentpipe.engine_validation.compare import EngineComparison
    from bentpipe.store.reader import Store

__all__ = ["KEYS", "figures"]

KEYS = ("delivered", "window")

ENGINES = ("simulated", "real")
MAX_PANELS = 16


def figures(comparison: EngineComparison) -> list[Figure]:
    """Return figures of delivered bytes and windows with a panel for each flow and cell, and a line for each seed."""
    delivered = _merge_engines(comparison, "received_in_order_bytes", "receiver")
    windows = _merge_engines(comparison, "cwnd_bytes", "sender").filter(pl.col("y") < UNLIMITED_BYTES)
    return [
        _figure(
            "delivered",
            "Delivered bytes",
            "Cumulative in-order bytes at the receiver.",
            "MB",
            delivered,
            1e-6,
        ),
        _figure("window", "Congestion window", "Congestion window of the sender.", "kB", windows, 1e-3),
    ]


def _merge_engines(comparison: EngineComparison, column: str, side: str) -> pl.DataFrame:
    parts = [
        _series(store, column, side).with_columns(clock=pl.lit(clock))
        for clock, store in zip(ENGINES, (comparison.simulated, comparison.real), strict=True)
    ]
    return pl.concat(parts)


def _series(store: Store, column: str, side: str) -> pl.DataFrame:
    summary = store.rows("flow_summary")
    directions = flow_directions(as_groups(summary, summary).select("flow", "side", "written_bytes"))
    directions = directions.select("flow", "direction", pl.col(side).alias("side"))
    frame = store.rows("flows", ["time_s", "flow", "side", column]).join(
        directions, on=["flow", "side"], how="inner", maintain_order="left"
    )
    index = store.index
    frame = index.join(frame, on="run", how="inner", maintain_order="left_right")
    columns = (index.get_column(key).to_list() for key in store.columns)
    names = short_labels(value for values in columns for value in values if value is not None)
    plain = [pl.col(key).fill_null("") for key in store.columns]
    labels = [label.replace(names) for label in plain] if names else plain
    title = pl.concat_str([*labels, pl.col("flow"), pl.col("direction")], separator=", ")
    frame = frame.select(
        title.alias("panel"),
        pl.col("seed").cast(pl.String),
        "time_s",
        pl.col(column).cast(pl.Float64).alias("y"),
    )
    return downsample(frame.drop_nulls("y"), ["panel", "seed"], "time_s", "y")


def _figure(key: str, title: str, caption: str, axis: str, frame: pl.DataFrame, factor: float) -> Figure:
    panels = frame["panel"].unique(maintain_order=True).to_list()
    shown = frame.filter(pl.col("panel").is_in(panels[:MAX_PANELS])).with_columns(y=pl.col("y") * factor)
    columns = min(3, len(panels))
    scale = alt.Scale(domain=list(ENGINES), range=[BLUE, ORANGE])
    line: Any = (
        alt.Chart()
        .mark_line(opacity=0.75)
        .encode(
            x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(nice=False)),
            y=alt.Y("y:Q", title=axis),
            color=alt.Color("clock:N", scale=scale, title=None),
            detail="seed:N",
        )
        .properties(width=panel_width(columns, own_axis=True), height=170)
    )
    facet = alt.Facet("panel:N", sort=panels, title=None, header=alt.Header(labelAnchor="start"))
    chart = line.facet(data=inline_csv(shown), facet=facet, columns=columns).resolve_scale(
        x="independent", y="independent"
    )
    left_out = len(panels) - MAX_PANELS
    note = f"The HTML reports of the stores have {left_out} more panels." if left_out > 0 else ""
    legend = "Blue: simulation; orange: emulation with real sockets. Each line is one seed."
    return Figure(key, title, f"{caption} {legend}", chart, shown.height, note)
