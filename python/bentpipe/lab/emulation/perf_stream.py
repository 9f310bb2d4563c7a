"""Frames of ``bentpipe-rt perf`` read back (docs/manual/perf.md): JSON lines, instants of CLOCK_MONOTONIC in ns."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.input_file import open_input_text, parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Connection", "Frames", "Pair", "pairs", "read_frames"]

Frame = dict[str, Any]

VERSION = 2
"""Of the frames that ``bentpipe-rt`` writes: samples tell when they were due."""


@dataclass
class Connection:
    """One connection as one process saw it."""

    opening: Frame
    samples: list[Frame] = field(default_factory=list)
    """In order of time; the last one is of its end, if it came to that."""
    streams: list[Frame] = field(default_factory=list)
    end: Frame | None = None

    def at(self, time_ns: int) -> Frame | None:
        """The last sample at or before an instant."""
        place = bisect_right(self.samples, time_ns, key=lambda frame: int(frame["time_ns"]))
        return self.samples[place - 1] if place else None

    @property
    def port(self) -> tuple[int, int]:
        """Ports: its own, and the other side's."""
        return _port(self.opening["local"]), _port(self.opening["remote"])


@dataclass
class Frames:
    """What one process wrote."""

    begin: Frame | None = None
    end: Frame | None = None
    connections: dict[int, Connection] = field(default_factory=dict)

    def late_ns(self) -> list[int]:
        """How late the process was for each of its ticks while it had a connection.

        A frame that was due at one tick and was written after others is late for all of them.

        Raises:
            RunnerError: frames that do not tell when they were due.
        """
        if self.begin is None:
            return []
        if (version := int(self.begin["version"])) < VERSION:
            said = f"frames are of version {version}, expected {VERSION}: bentpipe-rt is older than this bentpipe"
            raise RunnerError(said)
        late: dict[int, int] = {}
        for connection in self.connections.values():
            for sample in connection.samples:
                if sample["due_ns"] is None:
                    continue
                time_ns = int(sample["time_ns"])
                for tick in range(int(sample["due_ns"]), time_ns + 1, int(self.begin["interval_ns"])):
                    late[tick] = max(late.get(tick, 0), time_ns - tick)
        return list(late.values())


@dataclass(frozen=True)
class Pair:
    """A connection from both sides; None where a side never had it."""

    client: Connection
    server: Connection | None


def read_frames(file: Path) -> Frames:
    """Frames of ``file``, as far as they are whole; none when there is no file."""
    found = Frames()
    try:
        lines = open_input_text(file)
    except FileNotFoundError:
        return found
    with lines:
        for line in lines:
            try:
                frame = parse_json(line)
            except ValueError:
                break  # the process was killed in the middle of a line
            _take(found, frame)
    for connection in found.connections.values():
        connection.samples.sort(key=lambda sample: int(sample["time_ns"]))
    return found


def _take(found: Frames, frame: Frame) -> None:
    kind = frame["frame"]
    if kind == "begin":
        found.begin = frame
    elif kind == "end":
        found.end = frame
    elif kind == "connection":
        found.connections[frame["connection"]] = Connection(frame)
    elif (connection := found.connections.get(frame.get("connection", -1))) is not None:
        if kind == "sample":
            connection.samples.append(frame)
        elif kind == "stream":
            connection.streams.append(frame)
        elif kind == "end_connection":
            connection.end = frame
            connection.samples.append(frame)


def pairs(clients: Sequence[Frames], server: Frames) -> list[Pair]:
    """Connections of a flow from both sides, in order of the clients: by the client's port, else by order."""
    theirs = list(server.connections.values())
    found = []
    for frames in clients:
        for ours in (frames.connections[number] for number in sorted(frames.connections)):
            same = [other for other in theirs if other.port[1] == ours.port[0]]
            other = same[0] if same else None
            if other is not None:
                theirs.remove(other)
            found.append((ours, other))
    left = iter(theirs)
    return [Pair(ours, other if other is not None else next(left, None)) for ours, other in found]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
