"""What two real programs measured of each other (``bentpipe perf``): sides, their connections, rates over time."""

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
    """A connection at an instant, s since its side's first one began; counters since the connection did."""

    time_s: float
    sent_bytes: int
    """Of streams, that the transport has taken: at most what waits and a window ahead of what has arrived."""
    received_bytes: int
    """Of streams, that the application could read in order."""
    rtt_ms: float | None
    """Smoothed."""
    window_bytes: int | None
    """None of a side that has sent nothing but requests."""
    lost_packets: int | None
    """Declared lost; of TCP, sent again."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that has ended, or its connection; s as of :class:`Point`."""

    number: int
    sent_bytes: int
    received_bytes: int
    opened_s: float
    ended_s: float | None
    done: bool


@dataclass
class PerfConnection:
    """A connection as one side saw it."""

    number: int
    points: list[Point]
    """In order of time, the last one of its end, if it came to that."""
    began_s: float
    """When its first stream opened."""
    ended_s: float
    """When its last stream had ended, with the round trip that learns of it; else its last point."""
    transport: str | None = None
    congestion: str | None = None
    """What it sent with; None where that is not known, or nothing but requests was sent."""
    least_rtt_ms: float | None = None
    largest_window_bytes: int | None = None
    sent_packets: int | None = None
    retransmitted_bytes: int | None = None
    end: str | None = None
    """How it ended; None where the file does not say."""
    streams: list[Stream] = field(default_factory=list)


@dataclass
class PerfEndpoint:
    """What one process measured."""

    name: str
    """``client``, ``server``; of a table, which does not say, its file's name."""
    connections: list[PerfConnection]
    cpu_s: float | None = None
    end: str | None = "done"
    """``done``, ``interrupted``, ``failed: ...``; None where the process was gone before it could say."""

    @property
    def seconds(self) -> float:
        """From the opening of the first stream to the end of the last."""
        return max(one.ended_s for one in self.connections) - min(one.began_s for one in self.connections)

    def total(self, counted: Callable[[Point], int]) -> int:
        """A counter at the end, of all connections."""
        return sum(counted(one.points[-1]) for one in self.connections if one.points)


LONG_S = 10.0
"""From so long a measurement on, rates are of windows of 1 s; below, of a fifth of it."""


def window_s(sides: Sequence[PerfEndpoint]) -> float:
    """The window in which rates over time are taken: no shorter than the time between two points of a side."""
    steps = [
        after.time_s - before.time_s
        for side in sides
        for one in side.connections
        for before, after in pairwise(one.points)
    ]
    least = 1.0 if max((side.seconds for side in sides), default=0.0) >= LONG_S else 0.2
    return max(least, round(median(steps), 1)) if steps else least


def rates(
    connections: Sequence[PerfConnection], counted: Callable[[Point], int], window: float
) -> list[tuple[float, float]]:
    """What a counter of all ``connections`` grew by in each window, in bit/s, at the window's end.

    Between two points a counter grows linearly, as in simulated runs: timers are milliseconds late. The last window
    ends with the last point.
    """
    end = max((one.points[-1].time_s for one in connections if one.points), default=0.0)
    if end <= 0:
        return []
    edges = [number * window for number in range(int(end / window) + 1)]
    if end - edges[-1] > window / 10:
        edges.append(end)
    sums = [sum(_at(one, counted, edge) for one in connections) for edge in edges]
    return [
        (after, (high - low) * 8 / (after - before))
        for (before, low), (after, high) in pairwise(zip(edges, sums, strict=True))
    ]


def _at(one: PerfConnection, counted: Callable[[Point], int], time_s: float) -> float:
    """Return a counter at ``time_s``: 0 until the connection's first stream opens, linear between points."""
    points = one.points
    place = bisect_right(points, time_s, key=lambda point: point.time_s)
    start_s, before = (points[place - 1].time_s, counted(points[place - 1])) if place else (one.began_s, 0)
    if place == len(points) or time_s <= start_s:
        return before
    after = points[place]
    return before + (counted(after) - before) * (time_s - start_s) / (after.time_s - start_s)
