"""A measurement of ``bentpipe perf`` as a page: goodput, round-trip time, window over time, of one side or both."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.format import UNLIMITED_BYTES
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.perf_samples import PerfConnection, PerfEndpoint, rates, window_s
from bentpipe.metrics.registry import METRICS
from bentpipe.report.headline import Headline, join_names
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.report.time_series import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe.figures.figure import Figure

__all__ = ["figures", "headline_text", "notes", "supporting_text", "write"]

OTHER = {"client": "server", "server": "client"}

SENT, RECEIVED = attrgetter("sent_bytes"), attrgetter("received_bytes")

WINDOW = METRICS["largest_cwnd_bytes"]

LEAST_SHARE = 0.01
"""Of the bytes of the larger direction: what is less are requests."""

MOST_LINES = 8
"""Connections of a side that have lines of their own: as many as there are colours."""


@dataclass(frozen=True)
class _Way:
    """One direction as one side counted it: the receiver, where it was there."""

    side: PerfEndpoint
    received: bool

    @property
    def bytes(self) -> int:
        return self.side.total(RECEIVED if self.received else SENT)

    @property
    def called(self) -> str:
        """From whom to whom."""
        name, other = self.side.name, OTHER.get(self.side.name)
        if other is None:
            return f"{name} received" if self.received else f"{name} sent"
        return f"{other} to {name}" if self.received else f"{name} to {other}"

    @property
    def rate_bit_s(self) -> float | None:
        return self.bytes * 8 / self.side.seconds if self.side.seconds > 0 else None


def _ways(sides: Sequence[PerfEndpoint]) -> list[_Way]:
    """What went each way, the larger part first; a direction is its receiver's, where both sides are there."""
    both = {side.name for side in sides} >= set(OTHER)
    found = [_Way(side, received) for side in sides for received in ((True,) if both else (False, True))]
    most = max((way.bytes for way in found), default=0)
    kept = [way for way in found if way.bytes and way.bytes >= LEAST_SHARE * most]
    return sorted(kept, key=lambda way: -way.bytes)


def headline_text(sides: Sequence[PerfEndpoint]) -> str:
    """What went through, and how fast, in one sentence."""
    said = [
        f"{way.called} {format_significant(way.bytes / 1e6, 3)} MB at "
        f"{format_significant((way.rate_bit_s or 0) / 1e6, 4)} Mbit/s"
        f"{_with(_senders(sides, way))}"
        for way in _ways(sides)
    ]
    if not said:
        return "No byte of a stream went through."
    least = [one.least_rtt_ms for one in _connections(sides) if one.least_rtt_ms is not None]
    behind = f", behind a round trip of at least {format_significant(min(least), 3)} ms" if least else ""
    text = join_names(said)
    return f"{text[:1].upper()}{text[1:]}{behind}."


def _senders(sides: Sequence[PerfEndpoint], way: _Way) -> list[str]:
    """Controllers that a direction was sent with, as far as the side that sent says so."""
    by = {side.name: side for side in sides}
    sender = by.get(OTHER.get(way.side.name, "")) if way.received else way.side
    of = sender.connections if sender is not None else []
    return list(dict.fromkeys(one.congestion for one in of if one.congestion))


def _with(controllers: Sequence[str]) -> str:
    return f" with {join_names(controllers)}" if controllers else ""


def supporting_text(sides: Sequence[PerfEndpoint]) -> str:
    """What it rests on."""
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in map(_counted, sides))


def _counted(side: PerfEndpoint) -> str:
    number = len(side.connections)
    over = list(
        dict.fromkeys(_WORDS.get(one.transport, one.transport) for one in side.connections if one.transport)
    )
    text = f"{side.name}: {number:,} connection{'s' * (number != 1)}{f' over {join_names(over)}' if over else ''}"
    streams = [stream for one in side.connections for stream in one.streams]
    if streams:
        done = sum(stream.done for stream in streams)
        text += f", {done:,} of {len(streams):,} stream{'s' * (len(streams) != 1)} done"
    sent = [one.sent_packets for one in side.connections if one.sent_packets is not None]
    lost = [one.points[-1].lost_packets for one in side.connections if one.points]
    known = [count for count in lost if count is not None]
    if sum(sent):
        share = f" ({format_significant(100 * sum(known) / sum(sent), 2)} %)" if sum(known) else ""
        text += f", {sum(known):,} of {sum(sent):,} packets lost{share}"
    if side.cpu_s is not None:
        text += f", {format_significant(side.cpu_s, 2)} CPU s"
    return text


_WORDS = {"quic": "QUIC", "tcp": "TCP", "tls": "TLS over TCP"}


def notes(sides: Sequence[PerfEndpoint]) -> list[str]:
    """What did not end as it should."""
    found = []
    for side in sides:
        if side.end is None:
            found.append(
                f"The file of the {side.name} ends before its process did: it was killed, or goes on."
            )
        elif side.end != "done":
            found.append(f"The {side.name} ended early: {side.end}.")
        found += [
            f"Connection {one.number} of the {side.name}: {one.end}."
            for one in side.connections
            if side.end is not None and one.end not in (None, "closed", "interrupted")
        ]
    return found


def figures(sides: Sequence[PerfEndpoint]) -> list[Figure]:
    """Goodput, round-trip time, window and losses over time, as far as they were measured."""
    window = window_s(sides)
    made = [
        _figure(
            "goodput", f"Goodput, windows of {format_significant(window)} s",
            "Bytes of streams that the receiving application could read in order; where only the sender was kept, "
            "those that its transport took.",
            METRICS["goodput_bit_s"].axis,
            {way.called: _steps(way, window) for way in _ways(sides)},
        ),
        _gauge(sides, "rtt", "Round-trip time", "Smoothed, as each side knows it.",
               METRICS["smoothed_rtt_ms"].axis, "rtt_ms", 1.0),
        _gauge(sides, "cwnd", "Congestion window", "What a sender's controller allows in flight.",
               METRICS["cwnd_bytes"].axis, "window_bytes", METRICS["cwnd_bytes"].scale),
        _gauge(sides, "lost", "Lost packets", "Declared lost so far; of TCP, sent again.",
               "packets", "lost_packets", 1.0),
    ]  # fmt: skip
    return [one for one in made if one is not None]


def _steps(way: _Way, window: float) -> list[tuple[float, float]]:
    """Its rate over time in the unit of the axis, the first window with its beginning."""
    found = rates(way.side.connections, RECEIVED if way.received else SENT, window)
    return [
        (at, rate * METRICS["goodput_bit_s"].scale)
        for at, rate in [(0.0, rate) for _, rate in found[:1]] + found
    ]


def _gauge(
    sides: Sequence[PerfEndpoint], key: str, title: str, caption: str, axis: str, name: str, factor: float
) -> Figure | None:
    """A value of each connection; counters that stay 0 are left out, and windows that are unlimited."""
    series: dict[str, list[tuple[float, float]]] = {}
    for side in sides:
        shown = side.connections[:MOST_LINES]
        for one in shown:
            called = side.name if len(side.connections) == 1 else f"{side.name} {one.number}"
            values = [(point.time_s, getattr(point, name)) for point in one.points]
            known = [(at, value) for at, value in values if value is not None and value < UNLIMITED_BYTES]
            found = [(at, value * factor) for at, value in known]
            if any(value for _, value in found):
                series[called] = found
        if len(shown) < len(side.connections):
            caption += f" The first {len(shown)} of {len(side.connections):,} connections of the {side.name}."
    return _figure(key, title, caption, axis, series)


def _figure(
    key: str, title: str, caption: str, axis: str, series: dict[str, list[tuple[float, float]]]
) -> Figure | None:
    rows = [(name, at, y) for name, points in series.items() for at, y in points]
    if not rows:
        return None
    frame = pl.DataFrame(
        rows, schema={"line": pl.String, "time_s": pl.Float64, "y": pl.Float64}, orient="row"
    )
    return lines(
        key, title, caption, axis, frame, list(series), "step-before" if key == "goodput" else "linear"
    )


def _connections(sides: Sequence[PerfEndpoint]) -> Iterator[PerfConnection]:
    return (one for side in sides for one in side.connections)


def connection_rows(sides: Sequence[PerfEndpoint]) -> list[dict[str, Any]]:
    """A row a connection and side."""
    return [
        {
            "side": side.name, "connection": one.number, "over": _WORDS.get(one.transport or "", one.transport),
            "controller": one.congestion,
            "sent, MB": one.points[-1].sent_bytes / 1e6 if one.points else None,
            "received, MB": one.points[-1].received_bytes / 1e6 if one.points else None,
            "time, s": one.ended_s - one.began_s,
            METRICS["least_rtt_ms"].axis: one.least_rtt_ms,
            WINDOW.axis: _window(one.largest_window_bytes),
            "packets sent": one.sent_packets, "packets lost": one.points[-1].lost_packets if one.points else None,
            "sent again, kB": None if one.retransmitted_bytes is None else one.retransmitted_bytes / 1e3,
            "end": one.end,
        }
        for side in sides for one in side.connections
    ]  # fmt: skip


def _window(size_bytes: int | None) -> float | str | None:
    """In the unit of its column."""
    if size_bytes is None or size_bytes < UNLIMITED_BYTES:
        return None if size_bytes is None else size_bytes * WINDOW.scale
    return "unlimited"


def stream_rows(sides: Sequence[PerfEndpoint]) -> list[dict[str, Any]]:
    """A row a stream and side."""
    return [
        {
            "side": side.name, "connection": one.number, "stream": stream.number,
            "sent, kB": stream.sent_bytes / 1e3, "received, kB": stream.received_bytes / 1e3,
            "opened, s": stream.opened_s,
            "took, s": None if stream.ended_s is None else stream.ended_s - stream.opened_s,
            "done": stream.done,
        }
        for side in sides for one in side.connections for stream in one.streams
    ]  # fmt: skip


def write(sides: Sequence[PerfEndpoint], out: Path, engine: str) -> Path:
    """Writes the page to ``out``: one file that needs no network."""
    page = Page("A measurement between two programs")
    return page.write(
        out, "report/perf_page.html", Headline(headline_text(sides), supporting_text(sides)), notes=notes(sides),
        figures=[page.drawing(one) for one in figures(sides)], connections=tabular(connection_rows(sides)),
        streams=tabular(stream_rows(sides)), engine=engine,
    )  # fmt: skip
