"""Users that share a link: the distribution of their goodput. It reads the same for two users as for two hundred."""

from __future__ import annotations

import altair as alt
import polars as pl

from bentpipe.figures.context import MOST_COLOURS, FigureContext
from bentpipe.figures.downsample import MOST_ROWS
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import axis, colour, facet_grid
from bentpipe.figures.sweep_dimensions import Dimension, grid, of_kind
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.samples import ecdf

__all__ = ["user_goodput"]

LEAST_USERS = 3
"""Of fewer a distribution says no more than their numbers."""

_UNIT = METRICS["goodput_bit_s"]


def _compared(material: FigureContext) -> Dimension | None:
    """What colours stand for: schedulers, else another dimension that has few values."""
    few = [dim for dim in material.dims if len(dim.values) <= MOST_COLOURS]
    schedulers = next((dim for dim in few if any(key.endswith("scheduler") for key in dim.keys)), None)
    return schedulers or of_kind(few, "other", "congestion")


def user_goodput(material: FigureContext) -> Figure | None:
    """Empirical distributions of users' goodput, those of all seeds together."""
    users = material.users
    if not users.height or users.group_by("run").len()["len"].max() < LEAST_USERS:  # type: ignore[operator]
        return None
    compared = _compared(material)
    rest = [dim for dim in material.dims if dim is not compared]
    row = of_kind(rest, "delay", "loss")
    column = of_kind([dim for dim in rest if dim is not row], "other", "congestion", "rate", "loss", "delay")
    where = grid(rest, column, row)
    tables = users["flow"].unique(maintain_order=True).to_list()
    frame = where.select(users)
    if compared is not None:
        named = pl.col(compared.key).replace_strict(
            list(compared.values), [compared.word(value) for value in compared.values], return_dtype=pl.String
        )
        frame = frame.filter(pl.col(compared.key).is_not_null())
    else:
        named = pl.lit("users")
    several = len(tables) > 1
    if several:
        named = pl.concat_str(named, "flow", separator=", ") if compared is not None else pl.col("flow")
    frame = frame.with_columns(series=named)
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
    most = max(4, MOST_ROWS // len(parts))
    place, count = pl.int_range(pl.len()).over(by), pl.len().over(by)
    rows = rows.filter((place % (count / most).ceil().cast(pl.Int64) == 0) | (place == count - 1))
    title = compared.title if compared is not None and not several else None
    line = alt.Chart().mark_line(interpolate="step-after").encode(
        x=alt.X("x:Q", **axis(rows["x"].to_list(), f"goodput of a user, {_UNIT.unit}")),
        y=alt.Y("y:Q", title="users, %", scale=alt.Scale(domain=[0, 100])),
        color=colour(series, title=title),
    )  # fmt: skip
    seeds = material.store.index["seed"].n_unique()
    caption = (
        "Share of the users that had at most this goodput"
        + (f", those of {seeds} seeds together" if seeds > 1 else "")
        + ". The steeper a curve, the more alike they are; the further right, the more they have."
    )
    return Figure(
        "user-goodput", "Users that share a link", f"{caption} {where.note}".strip(),
        facet_grid([line], rows, where, height=190), rows.height,
    )  # fmt: skip
