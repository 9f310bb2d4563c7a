"""Figures of traced flows, packet by packet: time-sequence graph, bytes in flight, queueing delay, and losses."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from bentpipe.figures import split_connections
from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MAX_ROWS, downsample
from bentpipe.figures.figure import Figure
from bentpipe.figures.flow_packets import data_packets, flight
from bentpipe.figures.style import GREY, axis, colour, facet_grid

MAX_MARKS = 400
"""Largest number of crosses and circles of a figure; of more, an even sample is drawn."""

_LINE, _OTHER = "line", "other line"
_LOST, _AGAIN = "lost", "retransmitted"
_ROWS = ["run", "flow", "direction", "time_s", "y", "mark"]


def flow_time_sequence(context: FigureContext) -> Figure | None:
    """Draw the sequence number of each sent data packet, with retransmissions and losses."""
    packets = data_packets(context)
    if not packets.height:
        return None
    rows = packets.with_columns(time_s="sent_s", y=pl.col("bytes") / 1e6)
    parts = [
        rows.filter(pl.col("retransmission") == 0).with_columns(mark=pl.lit(_LINE)),
        rows.filter(pl.col("retransmission") == 1).with_columns(mark=pl.lit(_AGAIN)),
        _lost(rows),
    ]
    transports = set(packets["transport"].to_list())
    meaning = (
        "TCP sequence number"
        if transports == {"tcp"}
        else "TCP sequence number; of other transports the payload sent so far"
        if "tcp" in transports
        else "Payload sent so far"
    )
    caption = f"{meaning} of each data packet at its departure. × lost, ○ retransmitted (TCP)."
    return _draw(
        context,
        "flow-time-sequence",
        "Time-sequence graph of flows",
        caption,
        "sequence, MB",
        parts,
        packets,
    )


def flow_flight(context: FigureContext) -> Figure | None:
    """Draw the payload on the path, and what the sender counts as in flight."""
    packets = data_packets(context)
    if not packets.height:
        return None
    on_path = flight(packets).with_columns(y=pl.col("y") / 1e3, mark=pl.lit(_LINE))
    sender = split_connections.samples(context, ["in_flight_bytes"]).join(
        packets.select("run", "flow", "direction").unique(), on=["run", "flow", "direction"], how="semi"
    )
    end = packets.group_by("run", "flow", "direction").agg(pl.col("sent_s").max().alias("end_s"))
    sender = sender.join(end, on=["run", "flow", "direction"], how="left").filter(
        pl.col("time_s") <= pl.col("end_s")
    )
    parts = [
        on_path,
        sender.with_columns(y=pl.col("in_flight_bytes") / 1e3, mark=pl.lit(_OTHER)),
        _lost(_at(packets, on_path)),
    ]
    caption = (
        "Payload between departure and arrival (line), and bytes that the sender has sent and that are neither "
        "acknowledged nor declared lost (dashed, at each sample). × lost packet."
    )
    return _draw(context, "flow-flight", "Bytes in flight", caption, "bytes in flight, kB", parts, packets)


def flow_queueing(context: FigureContext) -> Figure | None:
    """Draw the delay of each data packet above the smallest one, with losses."""
    packets = data_packets(context)
    if not packets.height:
        return None
    rows = packets.with_columns(
        time_s="sent_s", y=pl.col("wait_ms").forward_fill().over("run", "flow", "direction").fill_null(0.0)
    )
    parts = [rows.filter(pl.col("received_s").is_not_null()).with_columns(mark=pl.lit(_LINE)), _lost(rows)]
    caption = (
        "One-way delay of each data packet above the smallest of the flow, at its departure: queueing, jitter and "
        "link-layer retransmissions. × lost packet, at the delay of the packet before."
    )
    return _draw(
        context,
        "flow-queueing",
        "Queueing delay of packets",
        caption,
        "delay above the smallest, ms",
        parts,
        packets,
    )


def _lost(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("dropped") != "").with_columns(mark=pl.lit(_LOST))


def _at(packets: pl.DataFrame, line: pl.DataFrame) -> pl.DataFrame:
    """Return packets at the height of a line at their departure."""
    by = ["run", "flow", "direction"]
    return (
        packets.with_columns(time_s="sent_s")
        .sort("time_s", maintain_order=True)
        .join_asof(
            line.select(*by, "time_s", "y").sort("time_s", maintain_order=True),
            on="time_s",
            by=by,
            check_sortedness=False,
        )
        .with_columns(pl.col("y").fill_null(0.0))
    )


def _draw(
    context: FigureContext, key: str, title: str, caption: str, axis_title: str, parts: Sequence[pl.DataFrame],
    packets: pl.DataFrame,
) -> Figure | None:  # fmt: skip
    """Draw lines and marks of ``parts`` in the panels of the figures over time."""
    first, last = context.time_range
    rows = pl.concat([part.select(_ROWS).with_columns(pl.col("y").cast(pl.Float64)) for part in parts])
    rows = (
        rows.filter(pl.col("time_s") >= first)
        if last is None
        else rows.filter(pl.col("time_s").is_between(first, last))
    )
    rows = context.label(rows.join(context.time_runs, on="run", how="inner", maintain_order="left"))
    panels = ["row", "column", "series", "run", "mark"]
    rows = context.with_run_numbers(rows).select(*panels, "time_s", "y")
    marks = rows.filter(pl.col("mark").is_in([_LOST, _AGAIN]))
    sampled = marks.gather_every(-(-marks.height // MAX_MARKS)) if marks.height > MAX_MARKS else marks
    lines = downsample(
        rows.filter(pl.col("mark").is_in([_LINE, _OTHER])), panels, "time_s", "y", MAX_ROWS - sampled.height
    )
    shown = pl.concat([lines, sampled])
    if not lines.height:
        return None
    series = [name for name in context.series if name in set(shown["series"].to_list())]
    span = (
        alt.Scale(nice=False, domainMin=first)
        if last is None
        else alt.Scale(nice=False, domain=[first, last])
    )
    x = alt.X("time_s:Q", title="time, s", scale=span)
    y = alt.Y("y:Q", axis=alt.Axis(tickCount=5), **axis(shown["y"].drop_nulls().to_list(), axis_title))
    hue = colour(series, title=context.series_title, known=context.colours)
    base = alt.Chart()
    layers = [
        base.mark_line(clip=True)
        .transform_filter(f"datum.mark == '{_LINE}'")
        .encode(x=x, y=y, color=hue, detail="run:N"),
        base.mark_line(clip=True, strokeDash=[4, 3], opacity=0.7)
        .transform_filter(f"datum.mark == '{_OTHER}'")
        .encode(x=x, y=y, color=hue, detail="run:N"),
        base.mark_point(shape="circle", size=22, strokeWidth=1, clip=True)
        .transform_filter(f"datum.mark == '{_AGAIN}'")
        .encode(x=x, y=y, color=hue),
        base.mark_point(shape="M-.5,-.5L.5,.5M.5,-.5L-.5,.5", size=45, color=GREY, strokeWidth=1.4, clip=True)
        .transform_filter(f"datum.mark == '{_LOST}'")
        .encode(x=x, y=y),
    ]
    one = context.time_runs.select("row", "column").n_unique() == 1
    chart = facet_grid(layers, shown, context.time_grid, height=260 if one else 140)
    text = " ".join(
        filter(None, [caption, _losses(packets, marks.height, sampled.height), _sections(packets)])
    )
    return Figure(key, title, text, chart, shown.height, context.time_note, of_runs=True)


def _losses(packets: pl.DataFrame, marks: int, sampled: int) -> str:
    """Return a sentence on the lost packets by place and cause, and on the marks that are drawn."""
    lost = packets.filter(pl.col("dropped") != "")
    if not lost.height:
        text = f"None of {packets.height:,} data packets is lost."
    else:
        causes = (
            lost.group_by("dropped", maintain_order=True)
            .len()
            .sort("len", descending=True, maintain_order=True)
        )
        listed = ", ".join(f"{count:,} ({cause})" for cause, count in causes.head(4).iter_rows())
        text = f"Lost: {lost.height:,} of {packets.height:,} data packets: {listed}."
    return text + (f" Marks: {sampled:,} of {marks:,}." if sampled < marks else "")


def _sections(packets: pl.DataFrame) -> str:
    """Return a sentence on the drawn sections of split flows; empty without one."""
    split = packets.filter("split").select("flow", "from_node", "to_node").unique(maintain_order=True)
    named = [f"{flow} from {first} to {second}" for flow, first, second in split.head(4).iter_rows()]
    return f"Proxies split the path. The figure shows {', '.join(named)}." if named else ""
