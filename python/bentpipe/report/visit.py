"""A site that a browser has loaded: its beginning, its film, its waterfall; as a page and as lines."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.report.base import Page
from bentpipe.report.opening import Opening

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["MOST_PICTURES", "Seen", "rows", "sentence", "write"]

MOST_PICTURES = 12
"""Of a film in a page."""

PHASES = (
    ("queued", "queued_s", "begin_s"),
    ("connect", "connect_start_s", "connect_end_s"),
    ("wait", "sent_s", "response_start_s"),
    ("receive", "response_start_s", "end_s"),
)
"""What a request goes through: from, to; instants of its row, of which some do not come."""


@dataclass(frozen=True)
class Seen:
    """A load, as plain data. Times are ms since the page was asked for."""

    url: str
    access: str
    error: str
    marks: Mapping[str, float]
    requests: Sequence[Mapping[str, Any]]
    """Their instants are s since 1970."""
    start_s: float
    film: Sequence[tuple[int, Path]]
    reasons: Sequence[str]


def sentence(seen: Seen) -> str:
    """What became of it, in one sentence."""
    place = f"{seen.url} behind {seen.access}"
    fetched = [one for one in seen.requests if one["status"]]
    said = ", ".join(f"{name} {ms / 1e3:.2f} s" for name, ms in seen.marks.items())
    if seen.error:
        return f"{place} did not load: {seen.error}" + (f" ({said})" if said else "")
    size = sum(int(one["bytes"]) for one in seen.requests)
    by: dict[str, int] = {}
    for one in fetched:
        by[one["protocol"] or "?"] = by.get(one["protocol"] or "?", 0) + 1
    ways = ", ".join(f"{count} by {protocol}" for protocol, count in by.items())
    return f"{place}: {said}; {len(seen.requests)} requests, {size / 1e3:,.0f} kB of bodies, {ways}"


def rows(seen: Seen) -> list[dict[str, Any]]:
    """The waterfall as a table: each request, when it was queued, sent, answered, whole, ms."""

    def ms(one: Mapping[str, Any], key: str) -> float | None:
        return None if one[key] is None else round((one[key] - seen.start_s) * 1e3, 1)

    return [
        {
            "request": _short(one["url"]), "status": one["status"] or None, "by": one["protocol"] or None,
            "kB": round(one["bytes"] / 1e3, 1), "queued, ms": ms(one, "queued_s"), "sent, ms": ms(one, "sent_s"),
            "answered, ms": ms(one, "response_start_s"), "whole, ms": ms(one, "end_s"), "error": one["error"] or None,
        }
        for one in seen.requests
    ]  # fmt: skip


def write(seen: Seen, out: Path, engine: str) -> Path:
    """Writes the page to ``out``: one file that needs no network."""
    ends = [one[key] for one in seen.requests for _, _, key in PHASES[1:] if one[key] is not None]
    span = max([*(end - seen.start_s for end in ends), *(ms / 1e3 for ms in seen.marks.values()), 1e-3])
    page = Page(urlsplit(seen.url).netloc)
    notes = tuple(f"the machine did not keep the path's time: {reason}" for reason in seen.reasons)
    return page.write(
        out, "report/visit.html", Opening(sentence(seen)), notes=notes, pictures=_pictures(seen),
        bars=[_bar(one, row, seen.start_s, span) for one, row in zip(seen.requests, rows(seen), strict=True)],
        marks=[(name, ms / 10 / span, f"{ms / 1e3:.2f} s") for name, ms in seen.marks.items()], engine=engine,
        span=f"{span:.2f} s",
    )  # fmt: skip


def _pictures(seen: Seen) -> list[tuple[str, str]]:
    """Of the film the first and the last, and those between at even distances."""
    film = list(seen.film)
    if len(film) > MOST_PICTURES:
        step = (len(film) - 1) / (MOST_PICTURES - 1)
        film = [film[round(place * step)] for place in range(MOST_PICTURES)]
    return [(f"{ms / 1e3:.2f} s", base64.b64encode(file.read_bytes()).decode()) for ms, file in film]


def _bar(one: Mapping[str, Any], row: Mapping[str, Any], start_s: float, span: float) -> dict[str, Any]:
    """A line of the waterfall; places and lengths are per cent of its width."""
    instants = [one[key] for key in ("connect_start_s", "sent_s") if one[key] is not None]
    known = {**one, "begin_s": min(instants, default=None)}
    parts = []
    for name, first, last in PHASES:
        a, b = known[first], known[last]
        if a is not None and b is not None and b > a:
            parts.append((name, (a - start_s) / span * 100, (b - a) / span * 100))
    return {"row": row, "url": one["url"], "parts": parts}


def _short(url: str) -> str:
    parts = urlsplit(url)
    tail = parts.path.rstrip("/").rsplit("/", 1)[-1] or "/"
    return f"{tail} ({parts.netloc})"[:80]
