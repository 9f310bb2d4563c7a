"""Figures of runs over time: congestion window, goodput, RTT, queue, fairness.

They show one run of each cell, of the first seed. Lines keep the extremes of every bucket (``downsample``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures import split_connections, style
from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MAX_ROWS, downsample
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import colour, facet_grid
from bentpipe.metrics import compute, windows
from bentpipe.metrics.fairness import FAIR_JAIN, jain_over_time, with_all_series
from bentpipe.metrics.format import UNLIMITED_BYTES
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.windows import WINDOW_S

_BY = ["run", "flow", "direction"]

TOGETHER = "For a group: sum over its flows."
MEAN = "For a group: mean over its flows with a connection."


def _range(context: FigureContext, frame: pl.DataFrame) -> pl.DataFrame:
    first, last = context.time_range
    frame = frame.filter(pl.col("time_s") >= first)
    return frame if last is None else frame.filter(pl.col("time_s") <= last)


def _while_sending(context: FigureContext, frame: pl.DataFrame, window_s: float = WINDOW_S) -> pl.DataFrame:
    """Return the rows from the start of each direction's data to the end of the window in which it ends."""
    spans = context.metrics.select(*_BY, "data_start_s", "duration_s")
    joined = frame.join(spans, on=_BY, how="inner", maintain_order="left")
    start = pl.col("data_start_s").fill_null(-1.0)
    end = pl.col("data_start_s") + pl.col("duration_s")
    end = ((end / window_s).ceil() * window_s).fill_null(float("inf"))
    during = (pl.col("time_s") > start) & (pl.col("time_s") <= end + 1e-9)
    return joined.filter(during).drop("data_start_s", "duration_s")


def _lines(
    context: FigureContext, key: str, title: str, caption: str, axis: str, frame: pl.DataFrame,
    series: Sequence[str] | None = None, series_title: str | None = None,
    domain: tuple[float, float] | None = None, steps: pl.DataFrame | None = None, limit: pl.DataFrame | None = None,
) -> Figure | None:  # fmt: skip
    """Draw lines from ``frame`` with ``run, time_s, y`` and either ``series`` or ``flow, direction``.

    Thin ``steps``, with the same columns, are behind the lines. A ``limit``, ``run, y``, is a dashed line.
    """
    known = context.colours if series is None else None
    most = MAX_ROWS if steps is None else MAX_ROWS // 2 - 100
    shown = _rows_of_panels(context, frame, most, labelled=series is not None)
    if series is None:
        series, series_title = context.series, context.series_title
    if steps is not None:
        behind = _rows_of_panels(context, steps, most)
        parts = [shown.with_columns(kind=pl.lit("line")), behind.with_columns(kind=pl.lit("step"))]
        if limit is not None and shown.height:
            parts.append(_limit_lines(context, shown, limit))
        shown = pl.concat(parts, how="diagonal")
    if not shown.height:
        return None
    series = [name for name in series if name in set(shown["series"].to_list())]
    pick = alt.selection_point(name=f"pick_{key.replace('-', '_')}", fields=["series"], bind="legend")
    first, last = context.time_range
    span = (
        alt.Scale(nice=False, domainMin=first)
        if last is None
        else alt.Scale(nice=False, domain=[first, last])
    )
    upright = style.axis(shown["y"].drop_nulls().to_list(), axis)
    if domain:
        upright = {"title": axis, "scale": alt.Scale(domain=list(domain))}
    x = alt.X("time_s:Q", title="time, s", scale=span)
    y = alt.Y("y:Q", axis=alt.Axis(tickCount=5), **upright)
    hue = colour(series, title=series_title, known=known)

    def opacity(full: float) -> Any:
        return alt.condition(pick, alt.value(full), alt.value(0.12)) if len(series) > 1 else alt.value(full)

    line = alt.Chart().mark_line(clip=True).encode(x=x, y=y, color=hue, opacity=opacity(0.9))
    layers = [line]
    if steps is not None:
        base = alt.Chart()
        thin = base.mark_line(interpolate="step-before", strokeWidth=0.7, clip=True)
        dashed = base.mark_line(strokeDash=[4, 4], strokeWidth=1, color=style.GREY, clip=True)
        layers = [
            thin.transform_filter("datum.kind == 'step'").encode(x=x, y=y, color=hue, opacity=opacity(0.4)),
            dashed.transform_filter("datum.kind == 'limit'").encode(x=x, y=y, detail="run:N"),
            line.transform_filter("datum.kind == 'line'"),
        ]
    if len(series) > 1:
        layers[0] = layers[0].add_params(pick)
    one = context.time_runs.select("row", "column").n_unique() == 1
    own_y = domain is None and context.time_grid.is_of_presets
    chart = facet_grid(layers, shown, context.time_grid, height=260 if one else 150, own_y=own_y)
    if own_y:
        caption = f"{caption} {context.time_grid.scale_note}".strip()
    return Figure(key, title, caption, chart, shown.height, context.time_note, of_runs=True)


def _rows_of_panels(
    context: FigureContext, frame: pl.DataFrame, most: int, *, labelled: bool = False
) -> pl.DataFrame:
    """Return about ``most`` rows of lines: ``row, column, series, run, time_s, y``; ``labelled``: they have labels."""
    shown = _range(context, frame).join(context.time_runs, on="run", how="inner", maintain_order="left")
    if not labelled:
        shown = context.label(shown)
    panels = ["row", "column", "series", "run"]
    return downsample(
        context.with_run_numbers(shown).select(*panels, "time_s", "y"), panels, "time_s", "y", most
    )


def _limit_lines(context: FigureContext, shown: pl.DataFrame, limit: pl.DataFrame) -> pl.DataFrame:
    """Return the ends of one horizontal line for each panel and value of ``limit``, over the time of ``shown``."""
    by = ["row", "column", "y"]
    first, last = shown["time_s"].min(), shown["time_s"].max()
    panels = (
        limit.join(context.time_runs, on="run", how="inner", maintain_order="left").select(by).drop_nulls()
    )
    ends = panels.unique(maintain_order=True).with_row_index("run", 1).with_columns(
        pl.format("-{}", "run").alias("run"), time_s=pl.lit([first, last], pl.List(pl.Float64))
    )  # fmt: skip
    return ends.explode("time_s").with_columns(kind=pl.lit("limit"))


def _caption(context: FigureContext, text: str, group_note: str) -> str:
    """Return a caption; with groups, it ends with ``group_note``."""
    return f"{text.strip()} {group_note}" if context.grouped else text.strip()


def _scaled(metric: str, unit_of: str = "") -> pl.Expr:
    """Return the column in the unit of its axis, or of that of ``unit_of``."""
    return pl.col(metric) * METRICS[unit_of or metric].scale


def window(context: FigureContext) -> Figure | None:
    """Draw the congestion window of the sender, kB; no line while it is unlimited."""
    frame = _while_sending(context, split_connections.samples(context, ["cwnd_bytes"]))
    frame = frame.filter(pl.col("cwnd_bytes") < UNLIMITED_BYTES)
    return _lines(
        context, "cwnd", "Congestion window",
        _caption(context, f"Congestion window of the sender. {split_connections.caption(context)}",
              TOGETHER),
        METRICS["cwnd_bytes"].axis,
        frame.with_columns(y=_scaled("cwnd_bytes")),
    )  # fmt: skip


def _received(context: FigureContext) -> pl.DataFrame:
    columns = ["time_s", "flow", "side", "received_in_order_bytes"]
    return context.store.rows("flows", columns, context.time_runs["run"])


def goodput(context: FigureContext) -> Figure | None:
    """Draw goodput in windows of 1 s, or of the sampling interval if that is longer, and its moving mean; Mbit/s."""
    flows = _received(context)
    window = windows.window_of(flows)
    frame = _while_sending(context, windows.goodput_windows(flows, context.directions, window), window)
    steps = frame.with_columns(y=_scaled("goodput_bit_s"))
    span = windows.smoothing_span(window, _round_trip_s(context))
    limit = context.metrics.select("run", y=_scaled("bottleneck_bit_s", "goodput_bit_s"))
    highest, rate = steps["y"].max(), limit["y"].max()
    # The rate of a link of many users would flatten the lines of each.
    drawn = isinstance(highest, float) and isinstance(rate, float) and highest >= rate / 5
    return _lines(
        context, "goodput", "Goodput",
        _caption(
            context,
            f"Lines: moving mean over {format_significant(span)} s, at least a round trip. "
            f"Thin steps: windows of {format_significant(window)} s. "
            + ("Dashed: rate of the bottleneck, of a random rate the largest. " if drawn else "")
            + "The receiving application gets bytes in order. A jump is data that waited for a missing packet.",
            TOGETHER,
        ),
        METRICS["goodput_bit_s"].axis, windows.smooth_windows(steps, "y", window, span),
        steps=steps, limit=limit if drawn else None,
    )  # fmt: skip


def _round_trip_s(context: FigureContext) -> float:
    """Return the longest median RTT of the drawn flows, seconds; 0 if no flow has one."""
    frame = split_connections.samples(context, ["smoothed_rtt_ms"])
    medians = frame.group_by(_BY).agg(pl.col("smoothed_rtt_ms").median())
    longest = medians["smoothed_rtt_ms"].max()
    return longest / 1e3 if isinstance(longest, float) else 0.0


def goodput_since_start(context: FigureContext) -> Figure | None:
    """Draw the mean goodput since the start of the data, Mbit/s."""
    starts = context.metrics.select(*_BY, "data_start_s")
    frame = windows.goodput_since_start(_received(context), context.directions, starts)
    frame = _while_sending(context, frame)
    return _lines(
        context, "goodput-since-start", "Goodput since the start",
        _caption(context, "Mean goodput from the start of the flow's data to each instant.", TOGETHER),
        METRICS["goodput_bit_s"].axis, frame.with_columns(y=_scaled("goodput_bit_s")),
    )  # fmt: skip


def rtt(context: FigureContext) -> Figure | None:
    """Draw the sender's smoothed RTT, ms."""
    frame = _while_sending(context, split_connections.samples(context, ["smoothed_rtt_ms"]))
    return _lines(
        context, "rtt", "Round-trip time",
        _caption(context, f"Smoothed RTT of the sender. {split_connections.caption(context)}", MEAN),
        METRICS["smoothed_rtt_ms"].axis,
        frame.with_columns(y=pl.col("smoothed_rtt_ms")),
    )  # fmt: skip


ALL_OF_THEM = "sum of all links"


def propagation_delay(context: FigureContext) -> Figure | None:
    """Draw the one-way delays that follow a trace (such as an orbit), by link and in total; ms."""
    rows: list[dict[str, Any]] = []
    links: list[str] = []
    for run, spec in context.store.specs(context.time_runs["run"].to_list()).items():
        traced = {
            link["name"]: (stage["points"], stage["interpolation"] == "step")
            for link in spec["graph"]["links"]
            for stage in link["up"]
            if stage["kind"] == "delay_trace" and stage["repeat_ns"] is None
        }
        links += [name for name in traced if name not in links]
        end = spec["duration_ns"]
        total = [
            (
                ALL_OF_THEM,
                [
                    (at, sum(_delay_at(*trace, at) for trace in traced.values()))
                    for at in _instants(traced, end)
                ],
            )
        ]
        each = [
            (name, [(at, _delay_at(*trace, at)) for at in _instants({name: trace}, end)])
            for name, trace in traced.items()
        ]
        for name, points in [*each, *(total if len(traced) > 1 else [])]:
            rows += [
                {"run": run, "series": name, "time_s": at / 1e9, "y": delay / 1e6} for at, delay in points
            ]
    if not rows:
        return None
    return _lines(
        context, "propagation-delay", "Propagation delay",
        "One-way propagation delays that change during the run, from the client side to the "
        "server side.",
        METRICS["propagation_ms"].axis, pl.DataFrame(rows), [*links, ALL_OF_THEM], "link",
    )  # fmt: skip


Traced = tuple[Sequence[Sequence[int]], bool]
"""Points of a delay over time, and whether it is constant between them."""


def _instants(traced: Mapping[str, Traced], end: int) -> list[int]:
    """Return all instants of change within the run; a step has one on both sides."""
    instants = {0, end}
    for points, steps in traced.values():
        for at, _ in points:
            instants |= {at, at - 1} if steps else {at}
    return sorted(at for at in instants if 0 <= at <= end)


def _delay_at(points: Sequence[Sequence[int]], steps: bool, at: int) -> float:
    """Return the delay at an instant, by the rule of the engine's stage."""
    after = bisect_right(points, at, key=lambda point: point[0])
    if after == 0 or after == len(points) or steps:
        return float(points[max(after - 1, 0)][1])
    (begin, low), (end, high) = points[after - 1], points[after]
    return low + (high - low) * (at - begin) / (end - begin)


def queue_length(context: FigureContext) -> Figure | None:
    """Draw the queue length of the bottleneck in the direction of the flows, packets."""
    ways = context.directions["direction"].unique(maintain_order=True).to_list()
    bottlenecks = context.links.filter(pl.col("direction").is_in(ways)).select("run", "link", "direction")
    frame = context.store.rows("links", ["time_s", "link", "queued_packets"], context.time_runs["run"])
    if frame.width == 1 or not bottlenecks.height:
        return None
    frame = frame.join(bottlenecks, on=["run", "link"], how="inner", maintain_order="left")
    frame = frame.with_columns(y=pl.col("queued_packets").cast(pl.Float64))
    names = bottlenecks["link"].unique(maintain_order=True).to_list()
    caption = f"Packets in the transmit queue of {', '.join(names)}, at each sample."
    if context.shared:
        frame = frame.with_columns(pl.col("link").alias("series"))
        return _lines(context, "queue-length", "Queue length", caption, "packets", frame, names, "link")
    frame = frame.with_columns(flow=pl.lit(context.directions["flow"][0]))
    return _lines(context, "queue-length", "Queue length", caption, "packets", frame)


def fairness(context: FigureContext) -> Figure | None:
    """Draw Jain's index of goodput in windows of 1 s; None with a longer sampling interval."""
    competing = context.flow_metrics.drop_nulls("jain").select("run", "direction").unique()
    if not competing.height:
        return None
    starts = context.flow_metrics.select(
        *_BY, "data_start_s", (pl.col("data_start_s") + pl.col("duration_s")).alias("data_end_s")
    )
    each = with_all_series(_received(context), context.flow_summary)
    if not each.height or windows.window_of(each) > WINDOW_S:
        return None
    ways = compute.flow_directions(context.flow_summary)
    frame = jain_over_time(windows.goodput_windows(each, ways), starts)
    frame = frame.filter(pl.col("direction") == context.directions["direction"][0])
    frame = frame.join(competing, on=["run", "direction"], how="semi", maintain_order="left")
    frame = frame.with_columns(y=pl.col("jain"), series=pl.lit(METRICS["jain"].title))
    return _lines(
        context, "fairness", "Fairness over time",
        "Jain's index of the flows' goodput in windows of 1 s: 1 for equal shares, 1/n if one "
        f"flow gets everything. Shares count as fair at {FAIR_JAIN} or above.",
        METRICS["jain"].axis, frame, [METRICS["jain"].title], domain=(min(0.4, 1 / ways.height), 1.0),
    )  # fmt: skip


def controller_state(context: FigureContext) -> Figure | None:
    """Draw the internal state of controllers, only for stores of a single cell."""
    if context.store.index.height > context.store.index["seed"].n_unique():
        return None
    columns = ["time_s", "flow", "side", "name", "value"]
    frame = context.store.rows("controller_state", columns, context.time_runs["run"])
    if frame.width == 1 or not frame.height:
        return None
    sending = context.directions.select("flow", "direction", pl.col("sender").alias("side"))
    frame = frame.join(sending, on=["flow", "side"], how="inner", maintain_order="left")
    frame = context.label(frame.join(context.time_runs, on="run", how="inner", maintain_order="left"))
    names = frame["name"].unique(maintain_order=True).sort().to_list()[:6]
    rows = _range(context, frame.filter(pl.col("name").is_in(names)))
    lines = ["name", "series", "run"]
    rows = downsample(
        context.with_run_numbers(rows).select(*lines, "time_s", pl.col("value").alias("y")),
        lines,
        "time_s",
        "y",
    )
    if not rows.height:
        return None
    from bentpipe.figures.style import WIDTH, inline_csv

    chart = (
        alt.Chart(inline_csv(rows))
        .mark_line()
        .encode(x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(nice=False)),
                y=alt.Y("y:Q", title=None, scale=alt.Scale(zero=False)),
                color=colour(context.series, title=context.series_title, known=context.colours))
        .properties(width=WIDTH // 3 - 70, height=120)
        .facet(facet=alt.Facet("name:N", sort=names, header=alt.Header(title=None, labelAnchor="start")), columns=3)
        .resolve_scale(y="independent")
    )  # fmt: skip
    caption = "State variables that the controller reports."
    return Figure("controller-state", "Controller state", caption, chart, rows.height, of_runs=True)
