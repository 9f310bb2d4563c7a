"""Figure of a route: the contacts of the plan over time, with those of the route and the bundle on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.dtn.contact_loss import contact_key
from bentpipe.dtn.summary import by_pair
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREY, RED, WIDTH, inline_csv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_loss import Arrival, ContactLoss
    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["KEY", "draw_route"]

KEY = "route"
"""Key of the figure."""

ROWS = 24
"""Maximum number of pairs of nodes; those of the route have priority."""

KINDS = ("contact", "contact of the route", "bundle: first byte to arrival")


def draw_route(
    plan: CheckedPlan, at_ns: int, arrival: Arrival | None, losses: Sequence[ContactLoss], title: str
) -> Figure | None:
    """Return the contacts of the plan over time with the route; None without a route.

    Args:
        plan: contact plan.
        at_ns: instant of the decision.
        arrival: the earliest arrival.
        losses: arrivals without each contact.
        title: title of the figure.
    """
    if arrival is None:
        return None
    last_ns = max([arrival.time_ns, *(loss.arrival_ns for loss in losses if loss.arrival_ns is not None)])
    margin = max((last_ns - at_ns) // 10, 1)
    begin, end = max(at_ns - margin, 0), last_ns + margin
    used = {contact_key(hop) for hop in arrival.hops}
    first = [(hop["from"], hop["to"]) for hop in arrival.hops]
    visible = {
        pair: inside
        for pair, contacts in by_pair(plan).items()
        if (inside := [one for one in contacts if one["start_ns"] < end and one["stop_ns"] > begin])
    }
    pairs = [*first, *(pair for pair in visible if pair not in first)][:ROWS]
    bars = [
        _bar(pair, one["start_ns"], one["stop_ns"], KINDS[contact_key(one) in used], one["declared_at"])
        for pair in pairs
        for one in visible.get(pair, ())
    ]
    bundle = [
        _bar((hop["from"], hop["to"]), hop["first_ns"], hop["arrival_ns"], KINDS[2], hop["declared_at"])
        for hop in arrival.hops
    ]
    names = [_name(pair) for pair in pairs]
    x = alt.X(
        "start_s:Q",
        title="time, s",
        scale=alt.Scale(nice=False, zero=False, domain=[begin / 1e9, end / 1e9]),
    )
    y = alt.Y("pair:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))
    scale = alt.Scale(domain=list(KINDS), range=[GREY, BLUE, RED])
    layers = [
        alt.Chart(inline_csv(pl.DataFrame(rows), digits=12))
        .mark_bar(height=alt.RelativeBandSize(height), clip=True, opacity=opacity)
        .encode(
            x=x,
            x2="stop_s:Q",
            y=y,
            color=alt.Color("kind:N", scale=scale, legend=alt.Legend(title=None)),
            tooltip=[
                alt.Tooltip("pair:N", title="from, to"),
                alt.Tooltip("declared:N", title="source"),
                alt.Tooltip("start_s:Q", title="start, s"),
                alt.Tooltip("stop_s:Q", title="end, s"),
            ],
        )
        for rows, height, opacity in ((bars, 0.66, 0.55), (bundle, 0.3, 1.0))
    ]
    width = WIDTH - 60 - min(260, 7 * max(map(len, names)))
    chart = alt.layer(*layers).properties(width=width, height=alt.Step(26))
    caption = (
        "Contacts of each direction between two nodes. Red is the bundle, from its first byte to its arrival."
    )
    if len(pairs) < len({*visible, *first}):
        caption += f" The figure shows {len(pairs)} of {len({*visible, *first}):,} directions."
    return Figure(KEY, title, caption, chart, len(bars) + len(bundle))


def _bar(pair: tuple[str, str], start_ns: int, stop_ns: int, kind: str, declared: Any) -> Mapping[str, Any]:
    return {
        "pair": _name(pair),
        "start_s": start_ns / 1e9,
        "stop_s": stop_ns / 1e9,
        "kind": kind,
        "declared": declared,
    }


def _name(pair: tuple[str, str]) -> str:
    return f"{pair[0]} to {pair[1]}"
