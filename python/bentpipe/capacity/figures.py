"""Figure of a capacity: MOS and page load time over the number of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.capacity.headline import share_text
from bentpipe.figures.calls import MAX_MOS
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREY, WIDTH, colour, inline_csv
from bentpipe.metrics.registry import METRICS

if TYPE_CHECKING:
    from bentpipe.capacity.search import Capacity

__all__ = ["KEYS", "figure"]

KEYS = ("capacity",)
"""Keys of the figures."""

MEDIAN = 0.5


def figure(result: Capacity) -> Figure:
    """Return the figure: a panel for MOS and one for page load time, as far as the mix has these users."""
    criterion = result.config.criterion
    shares = sorted({criterion.share, MEDIAN}, reverse=True)
    labels = [_label(share) for share in shares]
    rows = [
        {"panel": panel, "series": _label(share), "users": one.users, "seed": one.seed, "y": value}
        for one in result.evaluations
        for panel, read in (("mos", one.quality.mos_of), ("page", one.quality.page_of))
        for share in shares
        if (value := read(share)) is not None
    ]
    frame = pl.DataFrame(rows)
    limit = None if criterion.page is None else criterion.page.ns / 1e9
    panels: list[Any] = []
    if frame.filter(panel="mos").height:
        scale = alt.Scale(domain=[1, MAX_MOS])
        panels.append(_panel(result, frame, "mos", METRICS["mos"].axis, scale, criterion.mos, labels))
    if frame.filter(panel="page").height:
        scale = alt.Scale(zero=True)
        panels.append(_panel(result, frame, "page", METRICS["plt_s"].axis, scale, limit, labels))
    chart = panels[0] if len(panels) == 1 else alt.vconcat(*panels, spacing=18).resolve_scale(x="shared")
    seeds = len(result.limits)
    caption = (
        "A point is a run; lines are means over its seeds. Dashed lines are the criterion. "
        + ("" if result.is_none else "The vertical line is the capacity")
        + ("" if result.is_none or seeds == 1 else ", the band its 95 % interval")
        + ("" if result.is_none else ". ")
        + "A MOS is that of the worse direction of a call, a page load time the median of the loads of a user."
    )
    return Figure(KEYS[0], "Quality by number of users", caption, chart, frame.height)


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
    rows = frame.filter(panel=panel).drop("panel").sort("series", "users", "seed")
    widest = max(1, *frame["users"].to_list())
    x = alt.X("users:Q", title="users", scale=alt.Scale(domain=[0, widest], nice=True))
    y = alt.Y("y:Q", title=title, scale=scale)
    hue = colour(labels)
    base = alt.Chart(inline_csv(rows))
    layers: list[Any] = []
    if not result.is_none:
        interval = result.interval
        if interval.low is not None and interval.high is not None:
            ends = {"low": [max(interval.low, 0.0)], "high": [min(interval.high, float(widest))]}
            band = alt.Chart(inline_csv(pl.DataFrame(ends))).mark_rect(color=BLUE, opacity=0.12)
            layers.append(band.encode(x=alt.X("low:Q", title="users"), x2="high:Q"))
        place = pl.DataFrame({"users": [interval.estimate]})
        layers.append(alt.Chart(inline_csv(place)).mark_rule(color=BLUE, strokeWidth=1.5).encode(x=x))
    if limit is not None:
        dashed = alt.Chart(inline_csv(pl.DataFrame({"y": [limit]})))
        layers.append(dashed.mark_rule(color=GREY, strokeDash=[4, 3]).encode(y=y))
    tips = ["users:Q", "seed:Q", "series:N", alt.Tooltip("y:Q", title=title, format=".3f")]
    layers += [
        base.mark_line().encode(x=x, y=alt.Y("mean(y):Q", title=title, scale=scale), color=hue),
        base.mark_point(filled=True, size=36, opacity=0.8).encode(x=x, y=y, color=hue, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 70, height=210)
