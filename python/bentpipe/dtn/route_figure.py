"""Figure of a route: the contacts of the plan over time, with those of the route and the bundle on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.dtn.contact_loss import contact_key
from bentpipe.dtn.summary import by_pair
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREY, RED, VIOLET, WIDTH, inline_csv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_loss import Arrival, ContactLoss
    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["KEY", "draw_route"]

KEY = "route"
"""Key of the figure."""

ROWS = 24
"""Maximum number of pairs of nodes; those of the route have priority."""

WINDOW = 8
"""Maximum extent of the time axis after the arrival, as a multiple of the time until the arrival."""

KINDS = (
    "contact",
    "contact of an alternative",
    "contact of the route",
    "bundle: first byte to arrival",
)


def draw_route(
    plan: CheckedPlan, at_ns: int, arrival: Arrival | None, losses: Sequence[ContactLoss], title: str
) -> Figure | None:
    """Return the contacts of the plan over time with the route; None without a route.

    Rows are the directions of the route, those of the routes without one of its contacts, and others between the same
    nodes.

    Args:
        plan: contact plan.
        at_ns: instant of the decision.
        arrival: the earliest arrival.
        losses: arrivals without each contact.
        title: title of the figure.
    """
    if arrival is None:
        return None
    flight_ns = max(arrival.time_ns - at_ns, 1)
    last_ns = max([arrival.time_ns, *(loss.arrival_ns for loss in losses if loss.arrival_ns is not None)])
    alternatives = [hop for loss in losses for hop in loss.alternative]
    last_ns = max([last_ns, *(hop["stop_ns"] for hop in (*arrival.hops, *alternatives))])
    last_ns = min(last_ns, arrival.time_ns + WINDOW * flight_ns)
    margin = max((last_ns - at_ns) // 10, 1)
    begin, end = max(at_ns - margin, 0), last_ns + margin
    used = {contact_key(hop): KINDS[1] for hop in alternatives}
    used |= {contact_key(hop): KINDS[2] for hop in arrival.hops}
    pairs = list(dict.fromkeys((hop["from"], hop["to"]) for hop in (*arrival.hops, *alternatives)))
    nodes = {node for pair in pairs for node in pair}
    visible = {
        pair: inside
        for pair, contacts in by_pair(plan).items()
        if nodes.issuperset(pair)
        and (inside := [one for one in contacts if one["start_ns"] < end and one["stop_ns"] > begin])
    }
    every = [*pairs, *(pair for pair in visible if pair not in pairs)]
    pairs = every[:ROWS]
    bars = [
        _bar(pair, one["start_ns"], one["stop_ns"], used.get(contact_key(one), KINDS[0]), one["declared_at"])
        for pair in pairs
        for one in visible.get(pair, ())
    ]
    bundle = [
        _bar((hop["from"], hop["to"]), hop["first_ns"], hop["arrival_ns"], KINDS[3], hop["declared_at"])
        for hop in arrival.hops
    ]
    names = [_name(pair) for pair in pairs]
    x = alt.X(
        "start_s:Q",
        title="time, s",
        scale=alt.Scale(nice=False, zero=False, domain=[begin / 1e9, end / 1e9]),
        axis=alt.Axis(labelOverlap="greedy", labelSeparation=8),
    )
    y = alt.Y("pair:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))
    scale = alt.Scale(domain=list(KINDS), range=[GREY, VIOLET, BLUE, RED])
    layers = [
        alt.Chart(inline_csv(pl.DataFrame(rows), digits=12))
        .mark_bar(height=alt.RelativeBandSize(height), clip=True)
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
        for rows, height in ((bars, 0.66), (bundle, 0.3))
    ]
    continued = [
        {"pair": _name(pair), "start_s": edge / 1e9, "mark": mark}
        for pair in pairs
        for one in visible.get(pair, ())
        for is_cut, edge, mark in (
            (one["stop_ns"] > end, end, "\u25b6"), (one["start_ns"] < begin, begin, "\u25c0"),
        )
        if is_cut
    ]  # fmt: skip
    for mark, dx in (("\u25b6", 8), ("\u25c0", -8)):
        if rows := [row for row in continued if row["mark"] == mark]:
            layers.append(
                alt.Chart(inline_csv(pl.DataFrame(rows), digits=12))
                .mark_text(dx=dx, clip=False)
                .encode(x=x, y=y, text="mark:N")
            )
    width = WIDTH - 60 - min(260, 7 * max(map(len, names)))
    chart = alt.layer(*layers).properties(width=width, height=alt.Step(26))
    caption = (
        "Contacts between the nodes of the route, and of the routes without one of its contacts. Red is the bundle, "
        "from its first byte to its arrival."
    )
    if continued:
        caption += " A triangle marks a contact that continues beyond the axis."
    if len(pairs) < len(every):
        caption += f" The figure shows {len(pairs)} of {len(every):,} directions."
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
