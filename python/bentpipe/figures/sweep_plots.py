"""Figures that compare cells: goodput, goodput shares, queueing delay, completion times.

Points are means over seeds, bars their Student-t intervals (95 %); a single seed has no bar.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MAX_ROWS
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import (
    BLUE,
    GREY,
    MAX_AXIS_VALUES,
    POINT_SIZE,
    category_axis,
    colour,
    facet_grid,
    shape,
)
from bentpipe.figures.sweep_dimensions import Dimension, Grid, grid, magnitude, of_kind
from bentpipe.metrics import compute
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.registry import METRICS

MBIT_S = METRICS["goodput_bit_s"].scale


MAX_LINES = 40
"""Largest number of lines of a panel."""


def _intervals(context: FigureContext) -> str:
    seeds = context.store.index["seed"].n_unique()
    return (
        f"Points: means over {seeds} seeds; bars: 95 % confidence intervals."
        if seeds > 1
        else "One seed, therefore no confidence intervals."
    )


def _numeric(dim: Dimension) -> bool:
    return all(magnitude(value) is not None for value in dim.values)


def axis_dim(context: FigureContext) -> Dimension | None:
    """Return the dimension of the horizontal axis: loss, else another numeric dimension."""
    dims = [dim for dim in context.panel_dims if _numeric(dim)]
    return of_kind(dims, "loss", "rate", "delay", "other")


def _rest(context: FigureContext, *drawn: Dimension | None) -> list[Dimension]:
    return [dim for dim in context.panel_dims if dim not in drawn]


def goodput_by_parameter(context: FigureContext) -> Figure | None:
    """Draw the mean goodput of a single flow over the loss rate (or another dimension), by controller."""
    if context.shared or not context.dims:
        return None
    along = axis_dim(context) or context.colour_dim
    if along is None:
        along = context.panel_dims[0]
    rest = _rest(context, along)
    row = of_kind(rest, "delay")
    column = of_kind([dim for dim in rest if dim is not row], "rate", "loss", "other", "congestion")
    where = grid(rest, column, row, inside=(along, MAX_AXIS_VALUES))
    cells = context.cells.filter(pl.col("metric") == "goodput_bit_s")
    limit = context.metrics.group_by(list(context.store.columns), maintain_order=True).agg(
        pl.col("bottleneck_bit_s").max() * MBIT_S
    )
    frame = context.label(
        where.select(cells.join(limit, on=list(context.store.columns), how="left", nulls_equal=True))
    )
    frame = frame.select(
        "row", "column", "series", along.label_column.alias("x"), (pl.col("mean") * MBIT_S).alias("y"),
        (pl.col("mean_low") * MBIT_S).clip(lower_bound=0).alias("low"),
        (pl.col("mean_high") * MBIT_S).alias("high"), "n",
        pl.col("bottleneck_bit_s").alias("limit"), (pl.col("bottleneck_bit_s") * 1.06).alias("top"),
    )  # fmt: skip
    series = [name for name in context.series if name in set(frame["series"].to_list())]
    words = [along.value_label(value) for value in where.inside[0][1]]
    x = alt.X(
        "x:N",
        sort=words,
        title=context.title(along),
        axis=category_axis(words, frame["column"].n_unique()),
        scale=alt.Scale(padding=0.4),
    )
    y = alt.Y(
        "y:Q",
        title=METRICS["goodput_bit_s"].axis,
        scale=alt.Scale(zero=True, nice=context.grouped),
        axis=alt.Axis(tickCount=5),
    )
    hue = colour(series, title=context.series_title, known=context.colours)
    tips = ["series:N", "x:N", alt.Tooltip("y:Q", title=f"mean, {METRICS['goodput_bit_s'].unit}", format=".4~g"),
            alt.Tooltip("low:Q", format=".4~g"), alt.Tooltip("high:Q", format=".4~g"), "n:Q"]  # fmt: skip
    base = alt.Chart()
    ceiling = [
        base.mark_point(opacity=0).encode(x=x, y=alt.Y("top:Q", title=METRICS["goodput_bit_s"].axis)),
        base.mark_line(strokeDash=[4, 4], color=GREY, strokeWidth=1).encode(
            x=x, y=alt.Y("limit:Q", title=METRICS["goodput_bit_s"].axis)
        ),
    ]
    layers = [
        # The flows of a group share the rate, and each has little of it.
        *([] if context.grouped else ceiling),
        base.mark_rule(strokeWidth=2).encode(
            x=x, y=alt.Y("low:Q", title=METRICS["goodput_bit_s"].axis), y2="high:Q", color=hue
        ),
        base.mark_point(filled=True, size=POINT_SIZE, opacity=1).encode(
            x=x, y=y, color=hue, shape=shape(series, title=context.series_title), tooltip=tips
        ),
    ]
    if along is not context.colour_dim:
        layers.insert(-2, base.mark_line().encode(x=x, y=y, color=hue))
    one = where.column is None and where.row is None
    chart = facet_grid(layers, frame, where, height=280 if one else 170, own_y=True)
    dashed = "" if context.grouped else " Dashed: link rate."
    caption = f"Mean goodput of each run. {_intervals(context)}{dashed} {where.note}"
    by = f" and {context.series_title}" if context.colour_dim not in (None, along) else ""
    return Figure(
        "goodput-by-parameter",
        f"Goodput by {context.title(along)}{by}",
        caption.strip(),
        chart,
        frame.height,
    )


def _pair_grid(context: FigureContext) -> tuple[Dimension | None, Grid]:
    """Return the dimension of the lines of the goodput shares, and the panels."""
    dims = context.panel_dims
    lines = of_kind(dims, "congestion", "other", "loss", "rate", "delay")
    rest = [dim for dim in dims if dim is not lines]
    row = of_kind(rest, "delay")
    column = of_kind([dim for dim in rest if dim is not row], "loss", "rate", "other", "congestion")
    return lines, grid(rest, column, row, inside=(lines, MAX_LINES))


def goodput_shares(context: FigureContext) -> Figure | None:
    """Draw the goodput of each flow on a shared link with intervals, and Jain's index."""
    if not context.shared:
        return None
    lines, where = _pair_grid(context)
    frame = context.label(where.select(context.cells.filter(pl.col("metric") == "goodput_bit_s")))
    name, order = _line_labels(context, lines, where)
    jain = context.cells.filter(pl.col("metric") == "jain").select(
        *context.store.columns, "flow", "direction",
        pl.struct("mean", "mean_low", "mean_high").map_elements(_jain_text, return_dtype=pl.String).alias("jain"),
    )  # fmt: skip
    by = [*context.store.columns, "flow", "direction"]
    first = context.directions.group_by("direction", maintain_order=True).first()
    first_flows = first.select(pl.concat_str("flow", "direction")).to_series().to_list()
    frame = frame.join(jain, on=by, how="left", maintain_order="left", nulls_equal=True).select(
        "row", "column", "series", name.alias("line"), (pl.col("mean") * MBIT_S).alias("x"),
        (pl.col("mean_low") * MBIT_S).clip(lower_bound=0).alias("low"),
        (pl.col("mean_high") * MBIT_S).alias("high"), "n",
        pl.when(pl.concat_str("flow", "direction").is_in(first_flows)).then("jain").alias("jain"),
    )  # fmt: skip
    series = [label for label in context.series if label in set(frame["series"].to_list())]
    y = alt.Y("line:N", sort=order, title=None, axis=alt.Axis(grid=True, domain=False, ticks=False))
    limit = float(frame.select(pl.max_horizontal(pl.col("x").max(), pl.col("high").max())).item() or 1) * 1.05
    x = alt.X(
        "x:Q",
        title=METRICS["goodput_bit_s"].axis,
        scale=alt.Scale(domain=[0, limit], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    hue = colour(series, title="flow", known=context.colours)
    base = alt.Chart()
    tips = ["series:N", "line:N", alt.Tooltip("x:Q", title=f"mean, {METRICS['goodput_bit_s'].unit}", format=".4~g"),
            alt.Tooltip("low:Q", format=".4~g"), alt.Tooltip("high:Q", format=".4~g"), "n:Q"]  # fmt: skip
    text = base.mark_text(align="right", dx=-4, dy=-13, fontSize=10.5).encode(
        y=y, x=alt.value("width"), text="jain:N"
    ).transform_filter("isValid(datum.jain) && datum.jain != ''")  # fmt: skip
    layers = [
        base.mark_line(color=GREY, strokeWidth=1, opacity=0.7).encode(x=x, y=y, detail="line:N"),
        base.mark_rule(strokeWidth=3).encode(
            x=alt.X("low:Q", title=METRICS["goodput_bit_s"].axis), x2="high:Q", y=y, color=hue
        ),
        base.mark_point(filled=True, size=POINT_SIZE, opacity=1).encode(
            x=x, y=y, color=hue, shape=shape(series, title="flow"), tooltip=tips
        ),
        text,
    ]
    # Panels of a row share their lines, unless some differ: those would be empty in the other panels.
    lines_of = frame.group_by("row", "column").agg(pl.col("line").unique().sort())
    own = lines_of["line"].n_unique() > 1
    most = max(lines_of["line"].list.len().to_list(), default=1)
    chart = facet_grid(layers, frame, where, height=44 * max(1, most), own_y=own, names=order)
    scope = "of each flow (of a group: mean over its flows)" if context.grouped else "of each flow"
    competing = frame["jain"].str.len_chars().max()
    fair = "Points close to each other are fair shares. J is Jain's index; 1 means equal goodput. "
    caption = f"Mean goodput {scope}. {fair if competing else ''}{_intervals(context)} {where.note}"
    return Figure("goodput-shares", "Goodput shares", caption.strip(), chart, frame.height)


def _line_labels(context: FigureContext, lines: Dimension | None, where: Grid) -> tuple[pl.Expr, list[str]]:
    """Return the label of a line and the order of labels: the cell, and with two directions the direction."""
    ways = context.directions["direction"].unique(maintain_order=True).to_list()
    values = list(where.inside[0][1]) if lines is not None else [""]
    labels = [lines.label(value) for value in values] if lines is not None else [" "]
    cell = (
        pl.col(lines.key).replace_strict(values, labels, return_dtype=pl.String)
        if lines is not None
        else pl.lit(" ")
    )
    if len(ways) == 1:
        return cell, labels
    both = pl.concat_str(cell, pl.col("direction"), separator=" ").str.strip_chars()
    return both, [f"{label} {way}".strip() for label in labels for way in ways]


def _jain_text(value: dict[str, float | None]) -> str:
    """Format Jain's index with its interval, limited to (0, 1]: ``J 0.909 [0.9, 0.92]``."""
    text = f"J {value['mean']:.3f}"
    low, high = value["mean_low"], value["mean_high"]
    if low is not None and high is not None and high > low:
        text += f" [{max(0.0, low):.3f}, {min(1.0, high):.3f}]"
    return text


def queueing_delay(context: FigureContext) -> Figure | None:
    """Draw p50, p95 and p99 of the queueing delay at the bottleneck."""
    direction = context.directions["direction"][0]
    links = context.links.filter(pl.col("direction") == direction)
    if not links.height:
        return None
    line = context.colour_dim or of_kind(context.panel_dims, "congestion", "other", "loss", "rate", "delay")
    rest = [dim for dim in context.dims if dim is not line]
    row = of_kind(rest, "delay")
    column = of_kind([dim for dim in rest if dim is not row], "loss", "rate", "other", "congestion")
    where = grid(rest, column, row, inside=(line, MAX_LINES))
    keys = list(context.store.columns)
    quantiles = [f"queueing_{q}_ms" for q in ("p50", "p95", "p99")]
    means = links.group_by(keys, maintain_order=True).agg(pl.col(quantiles).mean()) if keys else links.select(
        pl.col(quantiles).mean()
    )  # fmt: skip
    values = where.inside[0][1] if line is not None else ()
    label = (
        pl.col(line.key).replace_strict(list(values), [line.label(v) for v in values], return_dtype=pl.String)
        if line is not None
        else pl.lit("")
    )
    frame = where.select(means).select("row", "column", label.alias("line"), *quantiles)
    frame = frame.rename(dict(zip(quantiles, ("p50", "p95", "p99"), strict=True)))
    if not frame.height or not (frame["p99"].max() or 0):
        return None
    order = [line.label(value) for value in values] if line is not None else [""]
    y = alt.Y("line:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False))
    hue = (
        colour(order, field="line", known=context.colours)
        if line is not None and context.colour_dim is line
        else alt.value(BLUE)
    )
    if isinstance(hue, alt.Color):
        hue = hue.legend(None)
    base = alt.Chart()
    title = "queueing delay, ms"
    tips = [alt.Tooltip(f"{q}:Q", format=".4~g", title=f"{q}, ms") for q in ("p50", "p95", "p99")]
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.45).encode(
            x=alt.X("p50:Q", title=title, axis=alt.Axis(labelFlush=False)), x2="p99:Q", y=y, color=hue
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=alt.X("p50:Q", title=title), y=y, color=hue, tooltip=tips
        ),
        base.mark_point(filled=False, size=55, opacity=1, strokeWidth=2, fill="transparent").encode(
            x=alt.X("p95:Q", title=title), y=y, stroke=_stroke(hue), tooltip=tips
        ),
        base.mark_tick(thickness=2.5, size=14, opacity=1).encode(
            x=alt.X("p99:Q", title=title), y=y, color=hue, tooltip=tips
        ),
    ]
    height = 26 * max(2, frame["line"].n_unique())
    chart = facet_grid(layers, frame, where, height, own_x=where.is_of_presets, names=order)
    names = ", ".join(links["link"].unique(maintain_order=True).to_list())
    caption = (
        f"Queueing delay of packets at the transmitter of {names}, mean over seeds. Dot: median; "
        f"ring: 95th percentile; tick: 99th percentile. {where.note} {where.scale_note}"
    )
    return Figure("queueing-delay", "Queueing delay", caption.strip(), chart, frame.height)


def _stroke(hue: object) -> object:
    """Return the colour encoding for a mark with only an outline."""
    if isinstance(hue, alt.Color):
        described: Any = hue.to_dict()
        return alt.Stroke(**described)
    return hue


def completion_time(context: FigureContext) -> Figure | None:
    """Draw the distribution of completion times of streams of a given size over all seeds.

    Shares are of all streams, including unfinished ones.
    """
    times = compute.completion_times(context.store.rows("streams"))
    if times["completion_s"].null_count() == times.height:
        return None
    directions = context.flow_metrics.unique(["run", "flow"], keep="first", maintain_order=True)
    directions = directions.select("run", "flow", "direction")
    rows = times.join(directions, on=["run", "flow"], how="inner", maintain_order="left")
    rows = as_groups(rows, context.flow_summary)
    where = context.time_grid
    rows = context.label(
        where.select(rows.join(context.store.index, on="run", how="left", maintain_order="left"))
    )
    by = ["row", "column", "series"]
    rank = pl.col("completion_s").rank("ordinal").over(by) / pl.len().over(by)
    rows = rows.select(*by, pl.col("completion_s").alias("x"), (100 * rank).alias("y"))
    rows = rows.drop_nulls("x").sort(*by, "x", maintain_order=True)
    if rows.height > MAX_ROWS:
        place = pl.int_range(pl.len()).over(by)
        count = pl.len().over(by)
        share = max(2, MAX_ROWS // rows.select(pl.struct(by).n_unique()).item())
        step = (count / share).ceil().cast(pl.Int64)
        rows = rows.filter((place % step == 0) | (place == count - 1))
    series = [name for name in context.series if name in set(rows["series"].to_list())]
    line = alt.Chart().mark_line(interpolate="step-after").encode(
        x=alt.X("x:Q", title=METRICS["completion_s"].axis),
        y=alt.Y("y:Q", title="completed streams, %", scale=alt.Scale(domain=[0, 100])),
        color=colour(series, title=context.series_title, known=context.colours),
    )  # fmt: skip
    one = rows.select("row", "column").n_unique() == 1
    chart = facet_grid([line], rows, where, height=260 if one else 150)
    caption = (
        "Share of streams that complete within this time, over all seeds. The time counts from "
        "the opening of the stream to its last byte. A curve that ends below 100 % has unfinished "
        "streams. "
    )
    caption += where.note
    return Figure("completion-time", "Completion time (ECDF)", caption.strip(), chart, rows.height)
