"""HTML page of a pair: figures, animation and tables in one file that needs no network."""

from __future__ import annotations

import array
import base64
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable
from bentpipe.orbit.figures import SPARSE
from bentpipe.orbit.maps import coastlines
from bentpipe.orbit.summary import build_headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.runners import engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.figures.figure import Figure
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.orbit.query import RouteQuery
    from bentpipe.plan.network.constellation_routes import RouteTimeline

__all__ = ["frames", "write"]

_SCRIPT = Path(__file__).with_name("moving.js")

MAX_POSITIONS = 90_000
"""Maximum satellites times frames of the animation: 720 kB of the page."""

MAX_LINKS = 10_000
"""Maximum links of the animation: 100 kB."""

MAX_DELAYS = 6000
"""Maximum delays of the animation."""

ANIMATION_S = 40
"""Duration of the animation, s."""


def frames(satellites: int) -> int:
    """Return the number of frames of all satellites in a page."""
    return max(2, min(121, MAX_POSITIONS // max(1, satellites)))


def write(
    query: RouteQuery, timeline: RouteTimeline, output: CommandOutput, out: Path, drawn: Sequence[Figure]
) -> Path:
    """Write ``orbit.html`` and each figure as SVG and PDF into ``out``; return the page."""
    for figure in drawn:
        figure.write_all([out / f"{figure.key}{suffix}" for suffix in (".svg", ".pdf")])
    orbit = query.orbit
    page = Page(f"{orbit.from_} to {' or '.join(map(str, orbit.to))} over {orbit.constellation.title}")
    moving = json.dumps(_data(query, timeline), ensure_ascii=False, separators=(",", ":")) if drawn else ""
    _, *texts = [part.strip() for part in output.shown if isinstance(part, str) and part]
    return page.write(
        out / "orbit.html", "orbit/page.html", build_headline(query, timeline), texts=texts,
        tables=[(part.title, tabular(part.rows)) for part in output.shown if isinstance(part, TextTable) and part.rows],
        figures=[page.drawing(figure) for figure in drawn], moving=moving.replace("<", "\\u003c"),
        script=_SCRIPT.read_text(encoding="utf-8"), seconds=timeline.duration_ns / 1e9, engine=engine.version(),
        source=orbit.constellation.source, sparse=len(timeline.names) <= SPARSE, linked=bool(_links(timeline)),
    )  # fmt: skip


def _data(query: RouteQuery, timeline: RouteTimeline) -> dict[str, Any]:
    orbit = query.orbit
    numbers = [x for frame in timeline.frames for at in frame["satellites_km"] for x in at]
    scale = max(1, math.ceil(max(abs(x) for x in numbers) / 32767))
    packed = array.array("h", (round(x / scale) for x in numbers))
    if sys.byteorder == "big":
        packed.byteswap()
    places = [orbit.from_, orbit.to[0], *orbit.relays, *orbit.to[1:]]
    every = max(1, math.ceil(len(timeline.delay_ns) / MAX_DELAYS))
    flies = orbit.constellation
    least = orbit.elevation or flies.elevation
    return {
        "satellites": len(timeline.names),
        "frames": [frame["at_ns"] / 1e9 for frame in timeline.frames],
        "positions": base64.b64encode(packed.tobytes()).decode(),
        "scale": scale,
        "radius": max(math.hypot(*at) for at in timeline.frames[0]["satellites_km"]),
        "routes": [[route.at_ns / 1e9, list(route.nodes), route.end] for route in timeline.routes],
        "sites": [[str(place), place.longitude, place.latitude] for place in places],
        "ends": [[place.longitude, place.latitude] for place in orbit.to],
        "elevation": least.degrees if least is not None else None,
        "slant": flies.slant.km if flies.slant is not None else None,
        "links": _links(timeline),
        "plane": flies.per_plane or 1,
        "within": flies.cross_links_within.degrees if flies.cross_links_within is not None else None,
        "delays": [_ms(delay) for delay in timeline.delay_ns[::every]],
        "step": timeline.step_ns * every / 1e9,
        "duration": timeline.duration_ns / 1e9,
        "speed": timeline.duration_ns / 1e9 / ANIMATION_S,
        "coast": _rounded(coastlines()),
    }


def _links(timeline: RouteTimeline) -> Sequence[tuple[int, int]]:
    """Return pairs of satellites; empty when there are too many to be visible."""
    return timeline.links if len(timeline.links) <= MAX_LINKS else []


def _ms(delay: int | None) -> float | None:
    return None if delay is None else round(delay / 1e6, 3)


def _rounded(lines: Sequence[Sequence[tuple[float, float]]]) -> list[list[list[float]]]:
    return [[[at[0], at[1]] for at in line] for line in lines]
