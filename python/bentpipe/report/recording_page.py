"""Page of a recording: its path over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.report.time_series import lines

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["Session", "figures", "headline_text", "supporting_text", "totals", "write"]

SERIES = (
    ("rate", "Rate", "IP bytes delivered per second, by direction.", "delivered, Mbit/s", "rate_bit_s", 1e-6),
    ("queue", "Queue", "Bytes in the transmit queue of each direction.", "queue, kB", "queued_bytes", 1e-3),
    ("drops", "Drops", "Packets dropped in each direction, for all causes.", "packets", "dropped_packets", 1.0),
)  # fmt: skip
"""Key, title, caption, axis, column and its scale factor of each figure."""


@dataclass(frozen=True)
class Session:
    """Recording as plain data: ``rows`` over time and ``totals`` of each direction (``line``)."""

    command: str
    wall_s: float
    rtt_ms: float | None
    """RTT measured before the command; None without a measurement."""
    notes: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    totals: Sequence[Mapping[str, Any]]


def headline_text(session: Session) -> str:
    """Return one sentence with the delivered bytes of each direction."""
    parts = []
    for one in totals(session):
        lost = f", {one['dropped']:,} packets dropped" if one["dropped"] else ""
        parts.append(f"{one['line']} {one['delivered, kB']:,.0f} kB{lost}")
    rtt = "" if session.rtt_ms is None else f" at an RTT of {session.rtt_ms:.1f} ms"
    return f"{session.command} ran {session.wall_s:.1f} s{rtt}: {'; '.join(parts)}"


def supporting_text(session: Session) -> str:
    """Return the numbers of packets and drops by cause, and the duration of the series."""
    rows = totals(session)
    left, lost = (sum(int(one[name]) for one in rows) for name in ("packets", "dropped"))
    known = ("line", "packets", "delivered, kB", "dropped")
    causes = {key: sum(int(one[key]) for one in rows) for row in rows[:1] for key in row if key not in known}
    of = f" ({', '.join(f'{count:,} by {cause}' for cause, count in causes.items())})" if causes else ""
    text = f"{left:,} packets were delivered in {len(rows)} directions and {lost:,} dropped{of}"
    instants = {float(one["time_s"]) for one in session.rows}
    return f"{text}; {len(instants):,} samples over {max(instants, default=0.0):.1f} s."


def totals(session: Session) -> list[dict[str, Any]]:
    """Return one row for each direction, without causes of drops that did not occur."""
    causes = [
        key
        for key in (session.totals[0] if session.totals else ())
        if key.startswith("dropped_") and any(one[key] for one in session.totals)
    ]
    return [
        {
            "line": one["line"],
            "packets": one["delivered_packets"],
            "delivered, kB": one["delivered_bytes"] / 1e3,
            "dropped": sum(int(value) for key, value in one.items() if key.startswith("dropped_")),
            **{key.removeprefix("dropped_").removesuffix("_packets"): one[key] for key in causes},
        }
        for one in session.totals
    ]


def figures(session: Session) -> list[Figure]:
    """Return the figures of rate, queue and drops over time; drops only if there are any."""
    frame, found = pl.DataFrame(list(session.rows)), []
    if not frame.height:
        return []
    names = list(dict.fromkeys(frame["line"].to_list()))
    for key, title, caption, axis, column, factor in SERIES:
        shown = frame.select("line", "time_s", y=pl.col(column) * factor)
        if key == "drops" and not shown["y"].sum():
            continue
        found.append(lines(key, title, caption, axis, shown, names))
    return found


def write(session: Session, out: Path, engine: str) -> Path:
    """Write the page to ``out``; return ``out``."""
    page = Page("Recording of a command")
    return page.write(
        out, "report/recording_page.html", Headline(headline_text(session), supporting_text(session)),
        notes=session.notes,
        figures=[page.drawing(one) for one in figures(session)], totals=tabular(totals(session)), engine=engine,
    )  # fmt: skip
