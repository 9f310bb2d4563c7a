"""Distribution of the goodput of users of a shared link."""

from __future__ import annotations

import altair as alt
import polars as pl

from bentpipe.figures.context import MAX_COLOURS, FigureContext
from bentpipe.figures.downsample import MAX_ROWS
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import axis, colour, facet_grid
from bentpipe.figures.sweep_dimensions import Dimension, grid, of_kind
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.samples import ecdf

__all__ = ["user_goodput"]

MIN_USERS = 3
"""Fewest users of a figure: a distribution of fewer shows no more than their values."""

_UNIT = METRICS["goodput_bit_s"]


def _colour_dimension(context: FigureContext) -> Dimension | None:
    """Return the dimension of the colours: schedulers, else another dimension with few values."""
    few = [dim for dim in context.dims if len(dim.values) <= MAX_COLOURS]
    schedulers = next((dim for dim in few if any(key.endswith("scheduler") for key in dim.keys)), None)
    return schedulers or of_kind(few, "other", "congestion")


def user_goodput(context: FigureContext) -> Figure | None:
    """Draw empirical distributions of users' goodput over all seeds."""
    users = context.users
    if not users.height or users.group_by("run").len()["len"].max() < MIN_USERS:  # type: ignore[operator]
        return None
    colour_dim = _colour_dimension(context)
    rest = [dim for dim in context.dims if dim is not colour_dim]
    row = of_kind(rest, "delay", "loss")
    column = of_kind([dim for dim in rest if dim is not row], "other", "congestion", "rate", "loss", "delay")
    panels = grid(rest, column, row)
    tables = users["flow"].unique(maintain_order=True).to_list()
    frame = panels.select(users)
    if colour_dim is not None:
        label = pl.col(colour_dim.key).replace_strict(
            list(colour_dim.values),
            [colour_dim.value_label(value) for value in colour_dim.values],
            return_dtype=pl.String,
        )
        frame = frame.filter(pl.col(colour_dim.key).is_not_null())
    else:
        label = pl.lit("users")
    several = len(tables) > 1
    if several:
        label = pl.concat_str(label, "flow", separator=", ") if colour_dim is not None else pl.col("flow")
    frame = frame.with_columns(series=label)
    series = frame["series"].unique(maintain_order=True).to_list()
    by = ["row", "column", "series"]
    parts = []
    for group in frame.partition_by(by, maintain_order=True):
        steps = ecdf((group["goodput_bit_s"] * _UNIT.scale).to_list())
        shares = [100 * count / group.height for count in steps.counts]
        parts.append(
            pl.DataFrame({"x": [steps.values[0], *steps.values], "y": [0.0, *shares]}).with_columns(
                pl.lit(group[name][0], pl.String).alias(name) for name in by
            )
        )
    if not parts:
        return None
    rows = pl.concat(parts).select(*by, "x", "y")
    most = max(4, MAX_ROWS // len(parts))
    place, count = pl.int_range(pl.len()).over(by), pl.len().over(by)
    rows = rows.filter((place % (count / most).ceil().cast(pl.Int64) == 0) | (place == count - 1))
    title = colour_dim.title if colour_dim is not None and not several else None
    line = alt.Chart().mark_line(interpolate="step-after").encode(
        x=alt.X("x:Q", **axis(rows["x"].to_list(), f"per-user goodput, {_UNIT.unit}")),
        y=alt.Y("y:Q", title="users, %", scale=alt.Scale(domain=[0, 100])),
        color=colour(series, title=title, known=context.colours),
    )  # fmt: skip
    seeds = context.store.index["seed"].n_unique()
    caption = (
        "Share of users with at most this goodput"
        + (f", over {seeds} seeds" if seeds > 1 else "")
        + ". A steeper curve means more equal users; a curve further to the right means more goodput."
    )
    return Figure(
        "user-goodput", "Per-user goodput (ECDF)", f"{caption} {panels.note}".strip(),
        facet_grid([line], rows, panels, height=190), rows.height,
    )  # fmt: skip
