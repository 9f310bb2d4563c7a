"""Measurements of ``bentpipe perf``: endpoints, their connections and rates over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["PerfConnection", "PerfEndpoint", "Point", "Stream", "rates", "window_s"]


@dataclass(frozen=True, slots=True)
class Point:
    """Counters of a connection at an instant."""

    time_s: float
    """Seconds since the start of the endpoint's first connection."""
    sent_bytes: int
    """Stream bytes that the transport has accepted: the delivered ones, at most a window in flight, and the backlog."""
    received_bytes: int
    """Stream bytes that the application could read in order."""
    rtt_ms: float | None
    """Smoothed RTT."""
    window_bytes: int | None
    """Congestion window; None for an endpoint that has sent only requests."""
    lost_packets: int | None
    """Packets declared lost; for TCP, retransmissions."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Stream that has ended, alone or with its connection; times as in :class:`Point`."""

    number: int
    sent_bytes: int
    received_bytes: int
    opened_s: float
    ended_s: float | None
    done: bool


@dataclass
class PerfConnection:
    """Connection as one endpoint measured it."""

    number: int
    points: list[Point]
    """Samples in order of time; the last one is of the end, if the connection ended."""
    began_s: float
    """Opening of the first stream."""
    ended_s: float
    """End of the last stream, including the round trip of its acknowledgement; else the last sample."""
    transport: str | None = None
    congestion: str | None = None
    """Congestion controller; None if unknown or if the endpoint sent only requests."""
    rtt_min_ms: float | None = None
    largest_window_bytes: int | None = None
    sent_packets: int | None = None
    retransmitted_bytes: int | None = None
    end: str | None = None
    """Reason of the end; None if the file has none."""
    streams: list[Stream] = field(default_factory=list)


@dataclass
class PerfEndpoint:
    """Measurements of one process."""

    name: str
    """``client`` or ``server``; the name of the file for a table without it."""
    connections: list[PerfConnection]
    cpu_s: float | None = None
    end: str | None = "done"
    """``done``, ``interrupted`` or ``failed: ...``; None if the process ended without a report."""

    @property
    def seconds(self) -> float:
        """Time from the opening of the first stream to the end of the last, s."""
        start = min(connection.began_s for connection in self.connections)
        return max(connection.ended_s for connection in self.connections) - start

    def total(self, counter: Callable[[Point], int]) -> int:
        """Return the final value of a counter, summed over all connections."""
        return sum(counter(connection.points[-1]) for connection in self.connections if connection.points)


LONG_S = 10.0
"""Shortest measurement with windows of 1 s; shorter ones have windows of 0.2 s."""


def window_s(endpoints: Sequence[PerfEndpoint]) -> float:
    """Return the window of rates over time, s; it is at least the sampling interval of the endpoints."""
    steps = [
        after.time_s - before.time_s
        for endpoint in endpoints
        for connection in endpoint.connections
        for before, after in pairwise(connection.points)
    ]
    shortest = 1.0 if max((endpoint.seconds for endpoint in endpoints), default=0.0) >= LONG_S else 0.2
    return max(shortest, round(median(steps), 1)) if steps else shortest


def rates(
    connections: Sequence[PerfConnection], counter: Callable[[Point], int], window: float
) -> list[tuple[float, float]]:
    """Return the rate of a byte counter of all ``connections`` in each window.

    Counters are interpolated linearly between samples, as in simulated runs, because timers fire milliseconds late.
    The last window ends with the last sample.

    Args:
        connections: connections of an endpoint.
        counter: returns the counter of a sample, bytes.
        window: window, s.

    Returns:
        End of each window in s, and the rate in bit/s.
    """
    end = max((connection.points[-1].time_s for connection in connections if connection.points), default=0.0)
    if end <= 0:
        return []
    edges = [number * window for number in range(int(end / window) + 1)]
    if end - edges[-1] > window / 10:
        edges.append(end)
    sums = [sum(_counter_at(connection, counter, edge) for connection in connections) for edge in edges]
    return [
        (after, (high - low) * 8 / (after - before))
        for (before, low), (after, high) in pairwise(zip(edges, sums, strict=True))
    ]


def _counter_at(connection: PerfConnection, counter: Callable[[Point], int], time_s: float) -> float:
    """Return a counter at ``time_s``: 0 until the connection's first stream opens, linear between samples."""
    points = connection.points
    place = bisect_right(points, time_s, key=lambda point: point.time_s)
    start_s, before = connection.began_s, 0
    if place:
        start_s, before = points[place - 1].time_s, counter(points[place - 1])
    if place == len(points) or time_s <= start_s:
        return before
    after = points[place]
    return before + (counter(after) - before) * (time_s - start_s) / (after.time_s - start_s)
