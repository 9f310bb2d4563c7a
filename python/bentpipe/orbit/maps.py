"""Figures of a constellation on a map: the route with its links, and the coverage of every satellite."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import GREEN, GREY, ORANGE, RED, VIOLET, WIDTH, inline_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bentpipe.orbit.query import RouteQuery
    from bentpipe.plan.network.constellation_routes import Route, RouteTimeline
    from bentpipe.scenario.network.places import Place

__all__ = ["coastlines", "coverage_map", "footprint", "route_map"]

_COAST = Path(__file__).with_name("coastlines.txt")

EARTH_KM = 6378.137
LOWEST_KM = 80.0
"""Minimum height of a link between satellites over the ground, as in the engine, km."""

MAX_SATELLITES = 8000
"""Maximum number of satellites on a map: 6 MB of PDF."""

_PARTS = 12
"""Number of map segments of a straight line in space."""

_X = alt.X("longitude:Q", scale=alt.Scale(domain=[-180, 180], nice=False), title="longitude, degrees east")
_Y = alt.Y("latitude:Q", scale=alt.Scale(domain=[-90, 90], nice=False), title="latitude, degrees north")

Position = tuple[float, float, float]
"""Kilometres, in a frame that turns with the Earth."""


def route_map(query: RouteQuery, timeline: RouteTimeline, *, linked: bool) -> Figure:
    """Return a map of the first route, at the frame nearest to its start; ``linked`` adds every link."""
    route, frame, sky = _moment(timeline)
    orbit = query.orbit
    ends = (orbit.from_, orbit.to[route.end])
    relays = [_on_ground(place) for place in orbit.relays]
    nodes = [sky[node] if node < len(sky) else relays[node - len(sky)] for node in route.nodes]
    layers = [_lines(coastlines(), color=GREY, strokeWidth=0.8)]
    drawn = _links(query, timeline, sky) if linked else []
    if drawn:
        layers.append(_lines([_straight(pair) for pair in drawn], color=VIOLET, strokeWidth=0.7, opacity=0.8))
    line = _straight([_on_ground(ends[0]), *nodes, _on_ground(ends[1])])
    layers += [_satellites(sky), _lines([line], color=RED, strokeWidth=2), *_places(ends)]
    every = f"1 of {_every(sky)} satellites" if _every(sky) > 1 else "satellites"
    caption = f"Map at {frame['at_ns'] / 1e9:g} s: {every} (green) and route (red)"
    if drawn:
        caption += ", links between satellites (blue)"
    return _figure("map", "Route map", f"{caption}. Coastlines: Natural Earth.", layers, len(sky))


def coverage_map(query: RouteQuery, timeline: RouteTimeline) -> Figure:
    """Return a map of the coverage of every satellite, at the same instant."""
    route, frame, sky = _moment(timeline)
    orbit = query.orbit
    rings = [footprint(at, _reach(query, at)) for at in sky]
    layers = [
        _lines(coastlines(), color=GREY, strokeWidth=0.8),
        _lines(rings, color=ORANGE, strokeWidth=1),
        _satellites(sky),
        *_places((orbit.from_, orbit.to[route.end])),
    ]
    caption = f"Map at {frame['at_ns'] / 1e9:g} s: satellites (green) and the coverage of each (orange)."
    return _figure("coverage", "Satellite coverage", caption, layers, len(sky))


@cache
def coastlines() -> tuple[tuple[tuple[float, float], ...], ...]:
    """Return longitudes and latitudes, degrees, a tuple for each line."""
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


def footprint(at: Position, angle: float) -> list[tuple[float, float]]:
    """Return the circle on a round Earth at ``angle`` (radians, from its centre) around the subsatellite point."""
    longitude, latitude = (math.radians(part) for part in below(at))
    ring = []
    for step in range(73):
        turn = math.radians(5 * step)
        north = math.sin(latitude) * math.cos(angle) + math.cos(latitude) * math.sin(angle) * math.cos(turn)
        east = longitude + math.atan2(
            math.sin(turn) * math.sin(angle) * math.cos(latitude),
            math.cos(angle) - math.sin(latitude) * north,
        )
        ring.append(
            (math.remainder(math.degrees(east), 360), math.degrees(math.asin(max(-1, min(1, north)))))
        )
    return ring


def below(at: Position) -> tuple[float, float]:
    """Return longitude and latitude of a position, degrees; geocentric, up to 0.2 degrees from geodetic."""
    x, y, z = at
    return math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))


def _moment(timeline: RouteTimeline) -> tuple[Route, Mapping[str, Any], list[Position]]:
    """Return the first route, the frame nearest to its start, and every satellite in it."""
    route = next(route for route in timeline.routes if route.nodes)
    frame = min(timeline.frames, key=lambda one: abs(one["at_ns"] - route.at_ns))
    return route, frame, [(x, y, z) for x, y, z in frame["satellites_km"]]


def _reach(query: RouteQuery, at: Position) -> float:
    """Return the coverage angle of a satellite, radians from the centre of a round Earth."""
    far = math.hypot(*at)
    orbit, flies = query.orbit, query.orbit.constellation
    least = orbit.elevation or flies.elevation
    if least is not None:
        elevation = math.radians(least.degrees)
        return math.acos(EARTH_KM * math.cos(elevation) / far) - elevation
    slant = flies.slant.km if flies.slant is not None else 0.0
    return math.acos(min(1, (EARTH_KM**2 + far**2 - slant**2) / (2 * EARTH_KM * far)))


def _links(
    query: RouteQuery, timeline: RouteTimeline, sky: Sequence[Position]
) -> list[tuple[Position, Position]]:
    """Return the links whose ends see each other, by the rules of the engine."""
    flies = query.orbit.constellation
    plane = flies.per_plane or 1
    within = flies.cross_links_within.degrees if flies.cross_links_within is not None else 90.0
    drawn = []
    for one, other in timeline.links:
        a, b = sky[one], sky[other]
        low = math.hypot(a[0] + b[0], a[1] + b[1], a[2] + b[2]) < 2 * (EARTH_KM + LOWEST_KM)
        across = one // plane != other // plane
        if not low and not (across and any(abs(below(end)[1]) > within for end in (a, b))):
            drawn.append((a, b))
    return drawn


def _on_ground(place: Place) -> Position:
    latitude, longitude = math.radians(place.latitude), math.radians(place.longitude)
    flat = EARTH_KM * math.cos(latitude)
    return flat * math.cos(longitude), flat * math.sin(longitude), EARTH_KM * math.sin(latitude)


def _straight(points: Sequence[Position]) -> list[tuple[float, float]]:
    """Return the ground track of straight lines in space."""
    line = [below(points[0])]
    for a, b in pairwise(points):
        for part in range(1, _PARTS + 1):
            share = part / _PARTS
            x, y, z = (start + (end - start) * share for start, end in zip(a, b, strict=True))
            line.append(below((x, y, z)))
    return line


def _lines(lines: Iterable[Sequence[tuple[float, float]]], **style: Any) -> alt.Chart:
    rows = [
        {"part": f"{number}.{piece}", "step": step, "longitude": at[0], "latitude": at[1]}
        for number, line in enumerate(lines)
        for piece, step, at in _unwrapped(line)
    ]
    chart: alt.Chart = alt.Chart(inline_csv(pl.DataFrame(rows), digits=5)).mark_line(**style)
    return chart.encode(x=_X, y=_Y, detail="part:N", order="step:Q")


def _every(sky: Sequence[Position]) -> int:
    """Return n such that one satellite in n is drawn."""
    return math.ceil(len(sky) / MAX_SATELLITES)


def _satellites(sky: Sequence[Position]) -> alt.Chart:
    spots = [below(at) for at in sky[:: _every(sky)]]
    rows = pl.DataFrame({"longitude": [a for a, _ in spots], "latitude": [b for _, b in spots]})
    chart: alt.Chart = alt.Chart(inline_csv(rows)).mark_circle(
        color=GREEN, size=9 if len(sky) > 300 else 24, opacity=0.8
    )
    return chart.encode(x=_X, y=_Y)


def _places(ends: tuple[Place, Place]) -> list[alt.Chart]:
    """Return both ends with their names, that of the southern one below it."""
    rows = pl.DataFrame(
        [{"longitude": one.longitude, "latitude": one.latitude, "name": str(one)} for one in ends]
    )
    charts = [alt.Chart(inline_csv(rows)).mark_circle(color=RED, size=60, opacity=1).encode(x=_X, y=_Y)]
    for place, away in zip(sorted(ends, key=lambda one: one.latitude), (14, -11), strict=True):
        near_edge = abs(place.longitude) > 150
        align: Literal["left", "center", "right"] = "center"
        if near_edge:
            align = "left" if place.longitude < 0 else "right"
        text = alt.Chart(inline_csv(rows.filter(pl.col("name") == str(place)))).mark_text(
            dy=away, fontWeight=600, align=align
        )
        charts.append(text.encode(x=_X, y=_Y, text="name:N"))
    return charts


def _figure(key: str, title: str, caption: str, layers: Sequence[alt.Chart], count: int) -> Figure:

    def chart(wide: float) -> Any:
        """Return the chart at a width; a degree has the same length in both directions."""
        return alt.layer(*layers).properties(width=wide - 80, height=(wide - 80) // 2)

    return Figure(key, title, caption, chart(WIDTH), count, drawn_for=chart)


def _unwrapped(line: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int, tuple[float, float]]]:
    """Yield points with the number of their piece: a line that crosses 180 degrees continues at the other side."""
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
