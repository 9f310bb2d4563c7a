"""Figures of recordings over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import altair as alt

from bentpipe.figures import style
from bentpipe.figures.downsample import downsample
from bentpipe.figures.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

__all__ = ["lines"]

_WIDTH = style.WIDTH - 60
"""Width of a figure without its axis, CSS pixels."""


def lines(
    key: str,
    title: str,
    caption: str,
    axis: str,
    frame: pl.DataFrame,
    names: Sequence[str],
    form: Literal["linear", "step-before"] = "step-before",
) -> Figure:
    """Draw lines over time.

    Args:
        key: key of the figure.
        title: title of the figure.
        caption: caption of the figure.
        axis: title of the vertical axis, with its unit.
        frame: columns ``line`` (one of ``names``), ``time_s``, and ``y`` in the unit of ``axis``.
        names: names of the lines.
        form: interpolation between points.
    """
    shown = downsample(frame.select("line", "time_s", "y"), ["line"], "time_s", "y")
    chart = (
        alt.Chart(style.inline_csv(shown))
        .mark_line(interpolate=form, clip=True)
        .encode(
            x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(nice=False)),
            y=alt.Y("y:Q", axis=alt.Axis(tickCount=5), title=axis),
            color=style.colour(names, "line"),
        )
        .properties(width=_WIDTH, height=220)
    )
    return Figure(key, title, caption, chart, shown.height)
