"""Figures of a pair over a constellation: delay, hops and hand-overs over time, the way on a map."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREEN, GREY, ORANGE, RED, WIDTH, axis, inline
from bentpipe.orbit.summary import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.orbit.asking import Question
    from bentpipe.plan.orbits import Ways

__all__ = ["coastlines", "figures"]

_COAST = Path(__file__).with_name("coastlines.txt")
_COLOURS = alt.Scale(domain=list(SIZES), range=[BLUE, ORANGE, RED])


def figures(question: Question, found: Ways) -> list[Figure]:
    """All that have something to show."""
    if not found.legs:
        return []
    drawn = [_delay(found), _hops(found)]
    if found.handovers:
        drawn.append(_steps(found))
    if found.frames:
        drawn.append(_map(question, found))
    return drawn


@cache
def coastlines() -> tuple[tuple[tuple[float, float], ...], ...]:
    """Longitudes and latitudes, degrees, a tuple a line."""
    lines = []
    for text in _COAST.read_text(encoding="utf-8").splitlines():
        if text.startswith("#"):
            continue
        numbers = [int(word) for word in text.split()]
        longitude, latitude = numbers[:2]
        line = [(longitude / 10, latitude / 10)]
        for east, north in zip(numbers[2::2], numbers[3::2], strict=True):
            longitude, latitude = longitude + east, latitude + north
            line.append((longitude / 10, latitude / 10))
        lines.append(tuple(line))
    return tuple(lines)


def _time(found: Ways) -> alt.X:
    whole = alt.Scale(nice=False, domain=[0, found.duration_ns / 1e9])
    return alt.X("time_s:Q", title="time, s", scale=whole)


def _gaps(found: Ways) -> list[alt.Chart]:
    """Times without a way, as a grey band."""
    if not found.gaps:
        return []
    frame = pl.DataFrame(
        {"time_s": [a / 1e9 for a, _ in found.gaps], "until": [b / 1e9 for _, b in found.gaps]}
    )
    return [
        alt.Chart(inline(frame, digits=9))
        .mark_rect(color=GREY, opacity=0.25)
        .encode(x=_time(found), x2="until:Q")
    ]


def _pieces(found: Ways) -> Iterator[tuple[int, int, int]]:
    """Legs with the number of the piece between two gaps."""
    ends = [begin for begin, _ in found.gaps]
    for at, first, last in found.legs:
        yield sum(end <= at for end in ends), at, first + last


def _delay(found: Ways) -> Figure:
    rows = [
        {"piece": str(piece), "time_s": at / 1e9, "ms": delay / 1e6} for piece, at, delay in _pieces(found)
    ]
    frame = pl.DataFrame(rows)
    upright = axis(frame["ms"].to_list(), "one-way delay, ms")
    line = (
        alt.Chart(inline(frame, digits=10))
        .mark_line(color=BLUE, clip=True)
        .encode(x=_time(found), y=alt.Y("ms:Q", **upright), detail="piece:N")
    )
    layers = [*_gaps(found), line]
    if found.handovers:
        marks = pl.DataFrame(
            [
                {"time_s": one.at_ns / 1e9, "ms": one.after_ns / 1e6, "size": one.size}
                for one in found.handovers
            ]
        )
        layers.append(
            alt.Chart(inline(marks, digits=10))
            .mark_point(filled=True, size=45, opacity=1)
            .encode(
                x=_time(found), y="ms:Q",
                color=alt.Color("size:N", scale=_COLOURS, legend=alt.Legend(title="hand-over")),
            )
        )  # fmt: skip
    chart = alt.layer(*layers).properties(width=WIDTH - 80, height=280)
    return Figure(
        "delay", "Delay over time",
        "One way, from end to end: between hand-overs it changes smoothly with the satellites; a small one changes "
        "one node of the way, a large one all of it. Grey: no way.", chart, len(rows),
    )  # fmt: skip


def _hops(found: Ways) -> Figure:
    rows: list[dict[str, Any]] = []
    ends = [route.at_ns for route in found.routes[1:]] + [found.duration_ns]
    for number, (route, end) in enumerate(zip(found.routes, ends, strict=True)):
        if route.hops is not None:
            rows += [
                {"piece": str(number), "time_s": at / 1e9, "hops": route.hops} for at in (route.at_ns, end)
            ]
    frame = pl.DataFrame(rows)
    line = (
        alt.Chart(inline(frame, digits=10))
        .mark_line(color=GREEN, strokeWidth=3, clip=True)
        .encode(
            x=_time(found), detail="piece:N",
            y=alt.Y("hops:Q", title="hops", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(zero=True)),
        )
    )  # fmt: skip
    chart = alt.layer(*_gaps(found), line).properties(width=WIDTH - 80, height=140)
    return Figure(
        "hops", "Hops over time", "Links of the way, those to the ground among them.", chart, len(rows)
    )


def _steps(found: Ways) -> Figure:
    frame = pl.DataFrame(
        [{"size": one.size, "step_ms": (one.after_ns - one.before_ns) / 1e6} for one in found.handovers]
    )
    chart = (
        alt.Chart(inline(frame, digits=8))
        .mark_bar()
        .encode(
            x=alt.X("step_ms:Q", bin=alt.Bin(maxbins=40), title="change of the one-way delay, ms"),
            y=alt.Y("count()", title="hand-overs", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color("size:N", scale=_COLOURS, legend=alt.Legend(title="hand-over")),
        )
        .properties(width=WIDTH - 80, height=180)
    )
    return Figure(
        "handovers", "Hand-overs by what they change",
        "What the new way has less what the one before would have at the same instant.", chart, frame.height,
    )  # fmt: skip


def _map(question: Question, found: Ways) -> Figure:
    """The first way that there is, at the frame nearest to its beginning."""
    route = next(route for route in found.routes if route.nodes)
    frame = min(found.frames, key=lambda one: abs(one["at_ns"] - route.at_ns))
    sky = [_below(at) for at in frame["satellites_km"]]
    orbit = question.orbit
    relays = [(place.longitude, place.latitude) for place in orbit.relays]
    ends = [(orbit.from_.longitude, orbit.from_.latitude)]
    ends += [(orbit.to[route.end].longitude, orbit.to[route.end].latitude)]
    nodes = [sky[node] if node < len(sky) else relays[node - len(sky)] for node in route.nodes]
    shore = [
        {"part": f"{number}.{piece}", "step": step, "longitude": at[0], "latitude": at[1]}
        for number, line in enumerate(coastlines())
        for piece, step, at in _unwrapped(line)
    ]
    way = [
        {"part": str(piece), "step": step, "longitude": at[0], "latitude": at[1]}
        for piece, step, at in _unwrapped([ends[0], *nodes, ends[1]])
    ]
    places = [{"longitude": at[0], "latitude": at[1], "name": str(name)}
              for at, name in zip(ends, (orbit.from_, orbit.to[route.end]), strict=True)]  # fmt: skip
    x = alt.X("longitude:Q", scale=alt.Scale(domain=[-180, 180], nice=False), title="longitude, degrees East")
    y = alt.Y("latitude:Q", scale=alt.Scale(domain=[-90, 90], nice=False), title="latitude, degrees North")

    def lines(rows: Sequence[Mapping[str, Any]], **style: Any) -> alt.Chart:
        data = inline(pl.DataFrame(rows), digits=6)
        chart: alt.Chart = alt.Chart(data).mark_line(**style)
        return chart.encode(x=x, y=y, detail="part:N", order="step:Q")

    stars = pl.DataFrame({"longitude": [a for a, _ in sky], "latitude": [b for _, b in sky]})
    layers = [
        lines(shore, color=GREY, strokeWidth=0.8),
        alt.Chart(inline(stars)).mark_circle(color=GREEN, size=9, opacity=0.7).encode(x=x, y=y),
        lines(way, color=RED, strokeWidth=2),
        alt.Chart(inline(pl.DataFrame(places))).mark_circle(color=RED, size=60, opacity=1).encode(x=x, y=y),
        alt.Chart(inline(pl.DataFrame(places)))
        .mark_text(dy=-11, fontWeight=600)
        .encode(x=x, y=y, text="name:N"),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH - 80, height=(WIDTH - 80) // 2)
    return Figure(
        "map", "The way on a map",
        f"After {frame['at_ns'] / 1e9:g} s: satellites over the ground (green), the way (red). Coastlines: Natural "
        "Earth.", chart, len(sky),
    )  # fmt: skip


def _below(at: Sequence[float]) -> tuple[float, float]:
    """Longitude and latitude of a position, degrees; geocentric, up to 0.2 degrees from geodetic."""
    x, y, z = at
    return math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))


def _unwrapped(line: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int, tuple[float, float]]]:
    """Points with the piece they belong to: a line that crosses 180 degrees goes on at the other side."""
    piece, step = 0, 0
    yield piece, step, line[0]
    for old, new in pairwise(line):
        turn = new[0] - old[0]
        if abs(turn) > 180:
            side = math.copysign(180, old[0])
            across = new[0] + 2 * side
            part = (side - old[0]) / (across - old[0]) if across != old[0] else 0.5
            edge = old[1] + part * (new[1] - old[1])
            yield piece, step + 1, (side, edge)
            piece += 1
            yield piece, step + 2, (-side, edge)
        step += 3
        yield piece, step, new
