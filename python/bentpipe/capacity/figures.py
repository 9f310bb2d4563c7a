"""Figure of a capacity: MOS and page load time over the number of users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.capacity.headline import share_text
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREY, WIDTH, colour, inline_csv
from bentpipe.metrics.call_quality import MAX_MOS
from bentpipe.metrics.registry import METRICS

if TYPE_CHECKING:
    from bentpipe.capacity.search import Capacity

__all__ = ["KEYS", "figure"]

KEYS = ("capacity",)
"""Keys of the figures."""

MEDIAN = 0.5

MIN_USERS = 4
MARGIN = 1.25
"""Largest number of users in the figure, relative to the end of the interval."""

SCHEMA = {"panel": pl.String, "series": pl.String, "users": pl.Int64, "seed": pl.Int64, "y": pl.Float64}


def figure(result: Capacity) -> Figure:
    """Return the figure: a panel for MOS and one for page load time, as far as the mix has these users.

    The axis of users is around the interval; the table has all runs.
    """
    criterion = result.config.criterion
    shares = sorted({criterion.share, MEDIAN}, reverse=True)
    labels = [_label(share) for share in shares]
    fewest, widest = _fewest(result), _widest(result)
    shown = [one for one in result.evaluations if fewest <= one.users <= widest]
    rows = [
        {"panel": panel, "series": _label(share), "users": one.users, "seed": one.seed, "y": value}
        for one in shown
        for panel, read in (("mos", one.quality.mos_of), ("page", one.quality.page_of))
        for share in shares
        if (value := read(share)) is not None
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA)
    limit = None if criterion.page is None else criterion.page.ns / 1e9
    panels: list[Any] = []
    if frame.filter(panel="mos").height:
        scale = alt.Scale(domain=_mos_domain(frame, criterion.mos))
        panels.append(_panel(result, frame, "mos", METRICS["mos"].axis, scale, criterion.mos, labels))
    if frame.filter(panel="page").height:
        scale = alt.Scale(zero=True)
        panels.append(_panel(result, frame, "page", METRICS["plt_s"].axis, scale, limit, labels))
    chart = panels[0] if len(panels) == 1 else alt.vconcat(*panels, spacing=18).resolve_scale(x="shared")
    caption = (
        "A point is a run; a thin line joins the runs of a seed. Dashed lines are the criterion. "
        + ("" if result.is_none else "The vertical line is the number of users that fit")
        + ("" if result.is_none or len(result.limits) == 1 else f", the band {_band_text(result)}")
        + ("" if result.is_none else ". ")
        + (
            ""
            if len(shown) == len(result.evaluations)
            else "Runs with fewer or more users are in the table. "
        )
        + "A MOS is that of the worse direction of a call, a page load time the median of the loads of a user."
    )
    return Figure(KEYS[0], "Quality by number of users", caption, chart, frame.height)


def _widest(result: Capacity) -> int:
    """Return the largest number of users in the figure."""
    if result.is_none:
        return result.evaluations[-1].users
    wanted = max(result.bounds[1], result.first_failing or result.users, MIN_USERS)
    return math.ceil(MARGIN * wanted)


def _fewest(result: Capacity) -> int:
    """Return the smallest number of users in the figure."""
    return 0 if result.is_none else math.floor(result.bounds[0] / MARGIN**2)


def _mos_domain(frame: pl.DataFrame, limit: float | None) -> list[float]:
    """Return the range of the scores of the figure and their limit, in half units."""
    scores = [*frame.filter(panel="mos")["y"].to_list(), *([] if limit is None else [limit])]
    low, high = math.floor(2 * min(scores)) / 2, math.ceil(2 * max(scores)) / 2
    return [
        max(low if low < min(scores) else low - 0.5, 1.0),
        min(high if high > max(scores) else high + 0.5, MAX_MOS),
    ]


def _band_text(result: Capacity) -> str:
    return "its 95 % interval" if result.interval.known else "the range of its seeds"


def _label(share: float) -> str:
    return "median user" if share == MEDIAN else f"{share_text(share)} of the users"


def _panel(
    result: Capacity,
    frame: pl.DataFrame,
    panel: str,
    title: str,
    scale: alt.Scale,
    limit: float | None,
    labels: list[str],
) -> Any:
    rows = frame.filter(panel=panel).drop("panel").sort("series", "seed", "users")
    across = alt.Scale(domain=[_fewest(result), _widest(result)], zero=False, nice=False)
    x = alt.X("users:Q", title="users", scale=across, axis=alt.Axis(tickMinStep=1, format=",d"))
    y = alt.Y("y:Q", title=title, scale=scale)
    hue = colour(labels)
    base = alt.Chart(inline_csv(rows))
    layers: list[Any] = []
    if not result.is_none:
        low, high = result.bounds
        if low != high:
            ends = {"low": [float(low)], "high": [float(high)]}
            band = alt.Chart(inline_csv(pl.DataFrame(ends))).mark_rect(color=BLUE, opacity=0.12)
            layers.append(band.encode(x=alt.X("low:Q", title="users", scale=across), x2="high:Q"))
        place = pl.DataFrame({"users": [float(result.users)]})
        layers.append(alt.Chart(inline_csv(place)).mark_rule(color=BLUE, strokeWidth=1.5).encode(x=x))
    if limit is not None:
        dashed = alt.Chart(inline_csv(pl.DataFrame({"y": [limit]})))
        layers.append(dashed.mark_rule(color=GREY, strokeDash=[4, 3]).encode(y=y))
    tips = ["users:Q", "seed:Q", "series:N", alt.Tooltip("y:Q", title=title, format=".3f")]
    layers += [
        base.mark_line(strokeWidth=1, opacity=0.45).encode(x=x, y=y, color=hue, detail="seed:N"),
        base.mark_point(filled=True, size=36, opacity=0.8).encode(x=x, y=y, color=hue, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 70, height=210)
