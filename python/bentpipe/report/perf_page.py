"""Page of a measurement of ``bentpipe perf``: goodput, RTT and congestion window of one or both endpoints."""

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

WINDOW = METRICS["cwnd_max_bytes"]

MIN_SHARE = 0.01
"""Smallest share of the larger direction's bytes of a reported direction; less are requests."""

MAX_LINES = 8
"""Largest number of connections of an endpoint in a figure: the number of colours."""


@dataclass(frozen=True)
class _Direction:
    """Direction as one endpoint counted it: the receiver, if its measurement is present."""

    endpoint: PerfEndpoint
    received: bool

    @property
    def bytes(self) -> int:
        return self.endpoint.total(RECEIVED if self.received else SENT)

    @property
    def called(self) -> str:
        """Sender and receiver."""
        name, other = self.endpoint.name, OTHER.get(self.endpoint.name)
        if other is None:
            return f"{name} received" if self.received else f"{name} sent"
        return f"{other} to {name}" if self.received else f"{name} to {other}"

    @property
    def rate_bit_s(self) -> float | None:
        return self.bytes * 8 / self.endpoint.seconds if self.endpoint.seconds > 0 else None


def _directions(endpoints: Sequence[PerfEndpoint]) -> list[_Direction]:
    """Return the reported directions, the larger one first, from the receiver if both endpoints are present."""
    both = {endpoint.name for endpoint in endpoints} >= set(OTHER)
    found = [
        _Direction(endpoint, received)
        for endpoint in endpoints
        for received in ((True,) if both else (False, True))
    ]
    most = max((direction.bytes for direction in found), default=0)
    directions = [direction for direction in found if direction.bytes and direction.bytes >= MIN_SHARE * most]
    return sorted(directions, key=lambda direction: -direction.bytes)


def headline_text(endpoints: Sequence[PerfEndpoint]) -> str:
    """Return one sentence with the bytes and rate of each direction."""
    parts = [
        f"{direction.called} {format_significant(direction.bytes / 1e6, 3)} MB at "
        f"{format_significant((direction.rate_bit_s or 0) / 1e6, 4)} Mbit/s"
        f"{_controller_text(_senders(endpoints, direction))}"
        for direction in _directions(endpoints)
    ]
    if not parts:
        return "No stream data arrived."
    least = [one.rtt_min_ms for one in _connections(endpoints) if one.rtt_min_ms is not None]
    behind = f", minimum RTT {format_significant(min(least), 3)} ms" if least else ""
    text = join_names(parts)
    return f"{text[:1].upper()}{text[1:]}{behind}."


def _senders(endpoints: Sequence[PerfEndpoint], direction: _Direction) -> list[str]:
    """Return the controllers of the sender of a direction, if known."""
    by = {endpoint.name: endpoint for endpoint in endpoints}
    sender = by.get(OTHER.get(direction.endpoint.name, "")) if direction.received else direction.endpoint
    of = sender.connections if sender is not None else []
    return list(dict.fromkeys(one.congestion for one in of if one.congestion))


def _controller_text(controllers: Sequence[str]) -> str:
    return f" with {join_names(controllers)}" if controllers else ""


def supporting_text(endpoints: Sequence[PerfEndpoint]) -> str:
    """Return the numbers of connections, streams and packets of each endpoint."""
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in map(_endpoint_text, endpoints))


def _endpoint_text(endpoint: PerfEndpoint) -> str:
    number = len(endpoint.connections)
    over = list(
        dict.fromkeys(
            _TRANSPORTS.get(one.transport, one.transport) for one in endpoint.connections if one.transport
        )
    )
    text = f"{endpoint.name}: {number:,} connection{'s' * (number != 1)}{f' over {join_names(over)}' if over else ''}"
    streams = [stream for one in endpoint.connections for stream in one.streams]
    if streams:
        done = sum(stream.done for stream in streams)
        text += f", {done:,} of {len(streams):,} stream{'s' * (len(streams) != 1)} completed"
    sent = [one.sent_packets for one in endpoint.connections if one.sent_packets is not None]
    lost = [one.points[-1].lost_packets for one in endpoint.connections if one.points]
    known = [count for count in lost if count is not None]
    if sum(sent):
        share = f" ({format_significant(100 * sum(known) / sum(sent), 2)} %)" if sum(known) else ""
        text += f", {sum(known):,} of {sum(sent):,} packets lost{share}"
    if endpoint.cpu_s is not None:
        text += f", {format_significant(endpoint.cpu_s, 2)} CPU s"
    return text


_TRANSPORTS = {"quic": "QUIC", "tcp": "TCP", "tls": "TLS over TCP"}


def notes(endpoints: Sequence[PerfEndpoint]) -> list[str]:
    """Return sentences about endpoints and connections with an abnormal end."""
    found = []
    for endpoint in endpoints:
        if endpoint.end is None:
            found.append(
                f"The file of the {endpoint.name} is incomplete: its process was killed or is still running."
            )
        elif endpoint.end != "done":
            found.append(f"The {endpoint.name} ended early: {endpoint.end}.")
        found += [
            f"Connection {one.number} of the {endpoint.name}: {one.end}."
            for one in endpoint.connections
            if endpoint.end is not None and one.end not in (None, "closed", "interrupted")
        ]
    return found


def figures(endpoints: Sequence[PerfEndpoint]) -> list[Figure]:
    """Return the figures of goodput, RTT, congestion window and losses over time, as far as measured."""
    window = window_s(endpoints)
    made = [
        _figure(
            "goodput", f"Goodput, windows of {format_significant(window)} s",
            "Stream bytes available in order to the receiving application. If only the sender was "
            "recorded: bytes that its transport accepted.",
            METRICS["goodput_bit_s"].axis,
            {direction.called: _rate_steps(direction, window) for direction in _directions(endpoints)},
        ),
        _gauge(endpoints, "rtt", "Round-trip time", "Smoothed RTT of each endpoint.",
               METRICS["smoothed_rtt_ms"].axis, "rtt_ms", 1.0),
        _gauge(endpoints, "cwnd", "Congestion window", "Congestion window of each sender.",
               METRICS["cwnd_bytes"].axis, "window_bytes", METRICS["cwnd_bytes"].scale),
        _gauge(endpoints, "lost", "Lost packets", "Cumulative number of packets declared lost (TCP: retransmitted).",
               "packets", "lost_packets", 1.0),
    ]  # fmt: skip
    return [one for one in made if one is not None]


def _rate_steps(direction: _Direction, window: float) -> list[tuple[float, float]]:
    """Return the rate over time in the unit of the axis; the first window also has its start."""
    found = rates(direction.endpoint.connections, RECEIVED if direction.received else SENT, window)
    return [
        (at, rate * METRICS["goodput_bit_s"].scale)
        for at, rate in [(0.0, rate) for _, rate in found[:1]] + found
    ]


def _gauge(
    endpoints: Sequence[PerfEndpoint], key: str, title: str, caption: str, axis: str, name: str, factor: float
) -> Figure | None:
    """Draw a value of each connection, without counters that stay 0 and unlimited windows."""
    series: dict[str, list[tuple[float, float]]] = {}
    for endpoint in endpoints:
        shown = endpoint.connections[:MAX_LINES]
        for one in shown:
            called = endpoint.name if len(endpoint.connections) == 1 else f"{endpoint.name} {one.number}"
            values = [(point.time_s, getattr(point, name)) for point in one.points]
            known = [(at, value) for at, value in values if value is not None and value < UNLIMITED_BYTES]
            found = [(at, value * factor) for at, value in known]
            if any(value for _, value in found):
                series[called] = found
        if len(shown) < len(endpoint.connections):
            caption += (
                f" The table shows the first {len(shown)} of {len(endpoint.connections):,} connections "
                f"of the {endpoint.name}."
            )
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


def _connections(endpoints: Sequence[PerfEndpoint]) -> Iterator[PerfConnection]:
    return (one for endpoint in endpoints for one in endpoint.connections)


def connection_rows(endpoints: Sequence[PerfEndpoint]) -> list[dict[str, Any]]:
    """Return one row for each connection and endpoint."""
    return [
        {
            "side": endpoint.name, "connection": one.number,
            "over": _TRANSPORTS.get(one.transport or "", one.transport),
            "controller": one.congestion,
            "sent, MB": one.points[-1].sent_bytes / 1e6 if one.points else None,
            "received, MB": one.points[-1].received_bytes / 1e6 if one.points else None,
            "time, s": one.ended_s - one.began_s,
            METRICS["rtt_min_ms"].axis: one.rtt_min_ms,
            WINDOW.axis: _window(one.largest_window_bytes),
            "packets sent": one.sent_packets, "packets lost": one.points[-1].lost_packets if one.points else None,
            "retransmitted, kB": None if one.retransmitted_bytes is None else one.retransmitted_bytes / 1e3,
            "end": one.end,
        }
        for endpoint in endpoints for one in endpoint.connections
    ]  # fmt: skip


def _window(size_bytes: int | None) -> float | str | None:
    """Return the window in the unit of its column."""
    if size_bytes is None or size_bytes < UNLIMITED_BYTES:
        return None if size_bytes is None else size_bytes * WINDOW.scale
    return "unlimited"


def stream_rows(endpoints: Sequence[PerfEndpoint]) -> list[dict[str, Any]]:
    """Return one row for each stream and endpoint."""
    return [
        {
            "side": endpoint.name, "connection": one.number, "stream": stream.number,
            "sent, kB": stream.sent_bytes / 1e3, "received, kB": stream.received_bytes / 1e3,
            "opened, s": stream.opened_s,
            "duration, s": None if stream.ended_s is None else stream.ended_s - stream.opened_s,
            "done": stream.done,
        }
        for endpoint in endpoints for one in endpoint.connections for stream in one.streams
    ]  # fmt: skip


def write(endpoints: Sequence[PerfEndpoint], out: Path, engine: str) -> Path:
    """Write the page to ``out``; return ``out``."""
    page = Page("Transport measurement (perf)")
    return page.write(
        out, "report/perf_page.html", Headline(headline_text(endpoints), supporting_text(endpoints)),
        notes=notes(endpoints),
        figures=[page.drawing(one) for one in figures(endpoints)], connections=tabular(connection_rows(endpoints)),
        streams=tabular(stream_rows(endpoints)), engine=engine,
    )  # fmt: skip
