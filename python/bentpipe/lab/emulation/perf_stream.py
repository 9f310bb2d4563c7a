"""Reader of the JSON streams of ``bentpipe-rt perf`` (docs/reference/perf.md).

A stream consists of JSON lines with times of CLOCK_MONOTONIC in ns.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.input_file import open_input_text, parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Connection", "ConnectionPair", "Frames", "match_connections", "read_frames"]

Frame = dict[str, Any]

VERSION = 2
"""Version of the format that ``bentpipe-rt`` writes; its samples have the times at which they were due."""


@dataclass
class Connection:
    """Connection as one process measured it."""

    opening: Frame
    samples: list[Frame] = field(default_factory=list)
    """Samples in the order of time; the last one is that of the end of the connection, if it ended."""
    streams: list[Frame] = field(default_factory=list)
    end: Frame | None = None

    def at(self, time_ns: int) -> Frame | None:
        """Return the last sample at or before a time."""
        index = bisect_right(self.samples, time_ns, key=lambda frame: int(frame["time_ns"]))
        return self.samples[index - 1] if index else None

    @property
    def port(self) -> tuple[int, int]:
        """Return the local and the remote port."""
        return _port(self.opening["local"]), _port(self.opening["remote"])


@dataclass
class Frames:
    """JSON stream of one process."""

    begin: Frame | None = None
    end: Frame | None = None
    connections: dict[int, Connection] = field(default_factory=dict)

    def late_ns(self) -> list[int]:
        """Return the lateness of the process at each tick with a connection, ns.

        A sample that was due at one tick and written after others is late for all of them.

        Raises:
            RunnerError: the samples have no due times.
        """
        if self.begin is None:
            return []
        if (version := int(self.begin["version"])) < VERSION:
            message = f"frames are of version {version}, expected {VERSION}: bentpipe-rt is older than this bentpipe"
            raise RunnerError(message)
        lateness: dict[int, int] = {}
        for connection in self.connections.values():
            for sample in connection.samples:
                if sample["due_ns"] is None:
                    continue
                time_ns = int(sample["time_ns"])
                for tick in range(int(sample["due_ns"]), time_ns + 1, int(self.begin["interval_ns"])):
                    lateness[tick] = max(lateness.get(tick, 0), time_ns - tick)
        return list(lateness.values())


@dataclass(frozen=True)
class ConnectionPair:
    """Connection from both endpoints; None if the server never had it."""

    client: Connection
    server: Connection | None


def read_frames(file: Path) -> Frames:
    """Return the frames of ``file`` up to the first incomplete line; none if the file does not exist."""
    stream = Frames()
    try:
        lines = open_input_text(file)
    except FileNotFoundError:
        return stream
    with lines:
        for line in lines:
            try:
                frame = parse_json(line)
            except ValueError:
                break  # The process was killed in the middle of a line.
            _add_frame(stream, frame)
    for connection in stream.connections.values():
        connection.samples.sort(key=lambda sample: int(sample["time_ns"]))
    return stream


def _add_frame(stream: Frames, frame: Frame) -> None:
    kind = frame["frame"]
    if kind == "begin":
        stream.begin = frame
    elif kind == "end":
        stream.end = frame
    elif kind == "connection":
        stream.connections[frame["connection"]] = Connection(frame)
    elif (connection := stream.connections.get(frame.get("connection", -1))) is not None:
        if kind == "sample":
            connection.samples.append(frame)
        elif kind == "stream":
            connection.streams.append(frame)
        elif kind == "end_connection":
            connection.end = frame
            connection.samples.append(frame)


def match_connections(clients: Sequence[Frames], server: Frames) -> list[ConnectionPair]:
    """Return the connections of a flow from both endpoints, in the order of the clients.

    A connection of the server belongs to the client with the same port, otherwise to the next one in order.
    """
    server_connections = list(server.connections.values())
    matches = []
    for frames in clients:
        for client_connection in (frames.connections[number] for number in sorted(frames.connections)):
            candidates = [
                server_connection
                for server_connection in server_connections
                if server_connection.port[1] == client_connection.port[0]
            ]
            server_connection = candidates[0] if candidates else None
            if server_connection is not None:
                server_connections.remove(server_connection)
            matches.append((client_connection, server_connection))
    remaining = iter(server_connections)
    return [
        ConnectionPair(
            client_connection, server_connection if server_connection is not None else next(remaining, None)
        )
        for client_connection, server_connection in matches
    ]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
