"""Page of a site's load in a browser: headline, filmstrip and waterfall, also as rows."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, replace
from math import floor, log10
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.report.headline import Headline, join_names
from bentpipe.report.html_table import HtmlTable, TabularCell, add_tooltips, tabular
from bentpipe.report.page import Page

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "MAX_PICTURES",
    "SiteReport",
    "choose_pictures",
    "headline_text",
    "rows",
    "supporting_text",
    "write",
]

MAX_PICTURES = 8
"""Largest number of pictures of the filmstrip, as they are readable in two rows."""

MIN_SPACING = 0.03
"""Smallest distance of a picture to the others, as a share of the time from the first to the last one."""

PICTURED = ("first contentful paint", "loaded")
"""Marks that have a picture: the first one from that instant on."""

PHASES = (
    ("queued", "queued_s", "begin_s"),
    ("connect", "connect_start_s", "connect_end_s"),
    ("wait", "sent_s", "response_start_s"),
    ("receive", "response_start_s", "end_s"),
    ("open", "last_s", "left_s"),
)
"""Phases of a request: name, start and end, from its row and :func:`_instants`; instants may be missing."""

KEY = (
    ("queued", "queued", "waiting for name resolution, a connection, or requests of higher priority"),
    ("connect", "connecting", "handshakes of TCP and TLS, or of QUIC, if the request opens a connection"),
    ("wait", "waiting", "from the request to the first byte of the response: a round trip and the server's time"),
    ("receive", "receiving", "from the first to the last byte of the response"),
    ("open", "unfinished", "incomplete response: from the last known event to its failure or the end of the load"),
)  # fmt: skip
"""Phases with title and definition."""

MARKS = {
    "first byte": "first byte of the page's response, after all redirects (responseStart)",
    "first contentful paint": "first paint of text or an image (First Contentful Paint)",
    "DOM content loaded": "the HTML is parsed and deferred scripts have run (domContentLoadedEventEnd)",
    "loaded": "all images, style sheets and scripts of the page are loaded (loadEventEnd)",
}
"""Instants of a load with definition."""

COLUMNS = {
    "status": "HTTP status code",
    "protocol": "negotiated protocol (ALPN)",
    "kB": "size of the decompressed body",
    "queued": "instant when the browser creates the request",
    "sent": "instant when the browser sends the request, after queueing and any handshake",
    "first byte": "instant of the first byte of the response",
    "last byte": "instant of the last byte of the response",
}
"""Columns of the table with definition."""

MAX_TICKS = 8
"""Largest number of ticks of the waterfall's axis, besides 0."""


@dataclass(frozen=True)
class SiteReport:
    """Load of a site as plain data; times are ms since navigation start."""

    url: str
    access: str
    error: str
    marks: Mapping[str, float]
    """Known instants of :data:`MARKS`."""
    requests: Sequence[Mapping[str, Any]]
    """Requests; their instants are s since 1970."""
    start_s: float
    left_s: float
    """End of the observation, s since 1970."""
    film: Sequence[tuple[int, Path]]
    notes: Sequence[str]
    """Notes about the load."""


def headline_text(load: SiteReport) -> str:
    """Return one sentence with the load time or the error."""
    place = f"{load.url} over {load.access}"
    if load.error:
        return f"{place} did not load: {load.error}."
    content = load.marks.get("first contentful paint")
    first = "" if content is None else f"; first contentful paint after {_seconds(content)}"
    return f"{place} loads in {_seconds(load.marks['loaded'])}{first}."


def supporting_text(load: SiteReport) -> str:
    """Return the other instants and the number and size of requests."""
    listed = () if load.error else ("first contentful paint", "loaded")
    others = [f"{name} after {_seconds(ms)}" for name, ms in load.marks.items() if name not in listed]
    first = f"{', '.join(others)[:1].upper()}{', '.join(others)[1:]}. " if others else ""
    if not load.requests:
        return f"{first}The browser made no request."
    size = sum(int(one["bytes"]) for one in load.requests)
    by: dict[str, int] = {}
    for one in load.requests:
        way = (
            f"over {one['protocol'] or '?'}" if one["status"] else "failed" if one["error"] else "unanswered"
        )
        by[way] = by.get(way, 0) + 1
    count = len(load.requests)
    ways = join_names([f"{number:,} {way}" for way, number in by.items()])
    return f"{first}{count:,} request{'s' * (count != 1)}, {size / 1e3:,.0f} kB of bodies: {ways}."


def rows(load: SiteReport) -> list[dict[str, Any]]:
    """Return the waterfall as rows: each request with its instants, ms."""

    def ms(one: Mapping[str, Any], key: str) -> float | None:
        return None if one[key] is None else round((one[key] - load.start_s) * 1e3, 1)

    return [
        {
            "request": _short(one["url"]), "status": one["status"] or None, "protocol": one["protocol"] or None,
            "kB": round(one["bytes"] / 1e3, 1), "queued, ms": ms(one, "queued_s"), "sent, ms": ms(one, "sent_s"),
            "first byte, ms": ms(one, "response_start_s"), "last byte, ms": ms(one, "end_s"),
            "error": one["error"] or None,
        }
        for one in load.requests
    ]  # fmt: skip


def write(load: SiteReport, out: Path, engine: str) -> Path:
    """Write the page to ``out``; return ``out``."""
    falls = [list(_parts(one, load.left_s)) for one in load.requests]
    ends = [to - load.start_s for fall in falls for _, _, to in fall]
    span = max([*ends, *(ms / 1e3 for ms in load.marks.values()), 1e-3])

    def place(at_s: float) -> float:
        return (at_s - load.start_s) / span * 100

    bars = [
        {"called": _short(one["url"]), "url": one["url"], "wrong": bool(one["error"]) or one["status"] >= 400,
         "parts": [(name, place(first), place(to) - place(first)) for name, first, to in fall]}
        for one, fall in zip(load.requests, falls, strict=True)
    ]  # fmt: skip
    marks = [(name, ms / 10 / span, _seconds(ms), MARKS[name]) for name, ms in load.marks.items()]
    there = {name for fall in falls for name, _, _ in fall}
    key = [one for one in KEY if one[0] in there]
    words = [
        *((word, meaning) for _, word, meaning in key),
        *((name, meaning) for name, _, _, meaning in marks),
    ]
    page = Page(urlsplit(load.url).netloc)
    return page.write(
        out, "report/site_page.html", Headline(headline_text(load), supporting_text(load)), notes=load.notes,
        pictures=_pictures(load),
        bars=bars, marks=marks, key=key, ticks=_ticks(span), requests=_table(load), words=words, engine=engine,
    )  # fmt: skip


def _seconds(ms: float) -> str:
    return f"{ms / 1e3:.2f} s"


def _table(load: SiteReport) -> HtmlTable | None:
    """Return the table with the full URL as tooltip; a column of errors only if there are any."""
    table_rows = rows(load)
    if not any(row["error"] for row in table_rows):
        table_rows = [{name: value for name, value in row.items() if name != "error"} for row in table_rows]
    if (grid := tabular(table_rows)) is None:
        return None
    addressed = [
        replace(line, first=False, cells=[TabularCell(str(line.cells[0]), hint=one["url"]), *line.cells[1:]])
        for line, one in zip(grid.rows, load.requests, strict=True)
    ]
    return add_tooltips(replace(grid, rows=addressed), COLUMNS)


def _pictures(load: SiteReport) -> list[tuple[str, str]]:
    """Return time and image of the pictures of the filmstrip; that of a mark has its name."""
    film = list(load.film)
    named: dict[int, str] = {}
    for name in PICTURED:
        at = next((place for place, (ms, _) in enumerate(film) if ms >= load.marks.get(name, math.inf)), None)
        if at is not None:
            named[at] = f"{named[at]}, {name}" if at in named else name
    return [
        (
            f"{film[at][0] / 1e3:.2f} s{f' ({named[at]})' if at in named else ''}",
            base64.b64encode(film[at][1].read_bytes()).decode(),
        )
        for at in choose_pictures([ms for ms, _ in film], named)
    ]


def choose_pictures(times: Sequence[int], required: Collection[int] = ()) -> list[int]:
    """Return the places of at most ``MAX_PICTURES`` pictures: the first, the last, the required, and distant others.

    Every picture is a visual change. Among equally required ones, that with the largest distance to the chosen ones is
    next, until the distance is below ``MIN_SPACING`` of the whole.

    Args:
        times: instants of all pictures, ascending, ms.
        required: places that are chosen in any case.
    """
    if not times:
        return []
    chosen = {0, len(times) - 1, *required}
    spacing = MIN_SPACING * (times[-1] - times[0])
    while len(chosen) < min(MAX_PICTURES, len(times)):
        distance = {
            place: min(abs(times[place] - times[other]) for other in chosen)
            for place in range(len(times))
            if place not in chosen
        }
        farthest = max(distance, key=distance.__getitem__)
        if distance[farthest] < spacing:
            break
        chosen.add(farthest)
    return sorted(chosen)


def _parts(one: Mapping[str, Any], left_s: float) -> Iterator[tuple[str, float, float]]:
    """Yield the phases of a request with a positive duration, with start and end."""
    known = {**one, **_instants(one, left_s)}
    for name, first, last in PHASES:
        a, b = known[first], known[last]
        if a is not None and b is not None and b > a:
            yield name, a, b


def _instants(one: Mapping[str, Any], left_s: float) -> dict[str, float | None]:
    """Return the start of connection or transmission; without an end, also the last known instant and the failure."""
    keys = ("queued_s", "connect_start_s", "connect_end_s", "sent_s", "response_start_s", "end_s")
    begun = [one[key] for key in keys[1:4:2] if one[key] is not None]
    found: dict[str, float | None] = {"begin_s": min(begun, default=None), "last_s": None, "left_s": None}
    if one["end_s"] is None:
        failed = one.get("failed_s")
        found["last_s"] = max(one[key] for key in keys if one[key] is not None)
        found["left_s"] = left_s if failed is None else failed
    return found


def _ticks(span: float) -> list[tuple[float, str]]:
    """Return positions in per cent and labels of the axis: steps of 1, 2 or 5 times a power of ten seconds."""
    power = 10 ** floor(log10(span / MAX_TICKS))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if span / step <= MAX_TICKS)
    return [(at * step / span * 100, f"{at * step:.6g} s") for at in range(floor(span / step) + 1)]


def _short(url: str) -> str:
    parts = urlsplit(url)
    tail = parts.path.rstrip("/").rsplit("/", 1)[-1] or "/"
    return f"{tail} ({parts.netloc})"[:80]
