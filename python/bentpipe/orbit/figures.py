"""Figures of a pair over a constellation: delay, hops and handovers over time; ``maps`` has those on a map."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREEN, GREY, ORANGE, RED, WIDTH, axis, inline_csv
from bentpipe.orbit.maps import coverage_map, route_map
from bentpipe.orbit.summary import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.orbit.query import RouteQuery
    from bentpipe.plan.network.constellation_routes import RouteTimeline

__all__ = ["KEYS", "SPARSE", "figures"]

KEYS = ("delay", "hops", "handovers", "map", "coverage")
"""Keys of all figures."""

SPARSE = 300
"""Maximum number of satellites for figures of all footprints and links."""

_COLOURS = alt.Scale(domain=list(SIZES), range=[BLUE, ORANGE, RED])


def figures(query: RouteQuery, timeline: RouteTimeline) -> list[Figure]:
    """Return all non-empty figures."""
    if not timeline.legs:
        return []
    drawn = [_delay(timeline), _hops(timeline)]
    if timeline.handovers:
        drawn.append(_steps(timeline))
    if timeline.frames:
        sparse = len(timeline.names) <= SPARSE
        drawn.append(route_map(query, timeline, linked=sparse))
        if sparse:
            drawn.append(coverage_map(query, timeline))
    return drawn


def _time(timeline: RouteTimeline) -> alt.X:
    whole = alt.Scale(nice=False, domain=[0, timeline.duration_ns / 1e9])
    return alt.X("time_s:Q", title="time, s", scale=whole)


def _gaps(timeline: RouteTimeline) -> list[alt.Chart]:
    """Return times without a route as a grey band."""
    if not timeline.gaps:
        return []
    frame = pl.DataFrame(
        {"time_s": [a / 1e9 for a, _ in timeline.gaps], "until": [b / 1e9 for _, b in timeline.gaps]}
    )
    return [
        alt.Chart(inline_csv(frame, digits=9))
        .mark_rect(color=GREY, opacity=0.25)
        .encode(x=_time(timeline), x2="until:Q")
    ]


def _pieces(timeline: RouteTimeline) -> Iterator[tuple[int, int, int]]:
    """Yield the number of the piece between two gaps, the time and the delay, ns."""
    ends = [begin for begin, _ in timeline.gaps]
    for at, first, last in timeline.legs:
        yield sum(end <= at for end in ends), at, first + last


def _delay(timeline: RouteTimeline) -> Figure:
    rows = [
        {"piece": str(piece), "time_s": at / 1e9, "ms": delay / 1e6} for piece, at, delay in _pieces(timeline)
    ]
    frame = pl.DataFrame(rows)
    upright = axis(frame["ms"].to_list(), "one-way delay, ms")
    line = (
        alt.Chart(inline_csv(frame, digits=10))
        .mark_line(color=BLUE, clip=True)
        .encode(x=_time(timeline), y=alt.Y("ms:Q", **upright), detail="piece:N")
    )
    layers = [*_gaps(timeline), line]
    if timeline.handovers:
        marks = pl.DataFrame(
            [
                {"time_s": one.at_ns / 1e9, "ms": one.after_ns / 1e6, "size": one.size}
                for one in timeline.handovers
            ]
        )
        layers.append(
            alt.Chart(inline_csv(marks, digits=10))
            .mark_point(filled=True, size=45, opacity=1)
            .encode(
                x=_time(timeline), y="ms:Q",
                color=alt.Color("size:N", scale=_COLOURS, legend=alt.Legend(title="handover")),
            )
        )  # fmt: skip
    chart = alt.layer(*layers).properties(width=WIDTH - 80, height=280)
    return Figure(
        "delay", "Delay over time",
        "One-way propagation delay of the route. Between handovers it changes smoothly. A small "
        "handover changes one node of the route, a large one all nodes. Grey: no route.", chart, len(rows),
    )  # fmt: skip


def _hops(timeline: RouteTimeline) -> Figure:
    rows: list[dict[str, Any]] = []
    ends = [route.at_ns for route in timeline.routes[1:]] + [timeline.duration_ns]
    for number, (route, end) in enumerate(zip(timeline.routes, ends, strict=True)):
        if route.hops is not None:
            rows += [
                {"piece": str(number), "time_s": at / 1e9, "hops": route.hops} for at in (route.at_ns, end)
            ]
    frame = pl.DataFrame(rows)
    most = max(row["hops"] for row in rows)
    upright = alt.Y(
        "hops:Q", title="hops", axis=alt.Axis(values=_whole(most), format="d"),
        scale=alt.Scale(domain=[0, most + 0.5], nice=False),
    )  # fmt: skip
    line = (
        alt.Chart(inline_csv(frame, digits=10))
        .mark_line(color=GREEN, strokeWidth=3, clip=True)
        .encode(x=_time(timeline), y=upright, detail="piece:N")
    )
    chart = alt.layer(*_gaps(timeline), line).properties(width=WIDTH - 80, height=140)
    return Figure(
        "hops", "Hops over time", "Number of links of the route, with the ground links.", chart, len(rows)
    )


def _whole(most: int) -> list[int]:
    """Return ticks at whole numbers up to ``most``, at most seven."""
    return list(range(0, most + 1, max(1, math.ceil(most / 6))))


_BINS = 40
"""Maximum number of bars of the handovers."""


def _bin(steps: list[float]) -> float:
    """Return the width of bars, ms: 1, 2 or 5 times a power of ten, with ``_BINS`` over all steps."""
    whole = max(max(steps) - min(steps), 1e-3) / (_BINS - 2)
    power = 10.0 ** math.floor(math.log10(whole))
    return next(power * one for one in (1, 2, 5, 10) if power * one >= whole * (1 - 1e-9))


def _steps(timeline: RouteTimeline) -> Figure:
    steps: list[tuple[str, float]] = [
        (one.size, (one.after_ns - one.before_ns) / 1e6) for one in timeline.handovers
    ]
    width = _bin([step for _, step in steps])
    counts = Counter((size, math.floor(step / width + 1e-9)) for size, step in steps)
    low: dict[int, int] = {}
    rows = []
    for size in SIZES:
        for place in sorted(place for one, place in counts if one == size):
            begin = low.get(place, 0)
            low[place] = begin + counts[size, place]
            rows.append(
                {
                    "size": size,
                    "from": place * width,
                    "to": (place + 1) * width,
                    "low": begin,
                    "high": low[place],
                }
            )
    upright = alt.Y("low:Q", title="handovers", axis=alt.Axis(values=_whole(max(low.values())), format="d"))
    chart = (
        alt.Chart(inline_csv(pl.DataFrame(rows), digits=8))
        .mark_rect()
        .encode(
            x=alt.X("from:Q", title="change of the one-way delay, ms", scale=alt.Scale(zero=False)), x2="to:Q",
            y=upright, y2="high:Q",
            color=alt.Color("size:N", scale=_COLOURS, legend=alt.Legend(title="handover")),
        )
        .properties(width=WIDTH - 80, height=180)
    )  # fmt: skip
    return Figure(
        "handovers", "Delay change at handovers",
        "Delay of the new route minus delay of the previous route at the same instant.", chart, len(steps),
    )  # fmt: skip
