"""What a lab recorded of its path and proxies, as the tables ``links``, ``link_summary``, ``users``,
``user_queues`` and ``proxies``.

Instants are of the machine's CLOCK_MONOTONIC, which is the same in every namespace. What the emulator or the kernel
does not count is null, never 0.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.plan.spec.queries import delays_ns, rate_bit_s
from bentpipe.plan.spec.result_columns import OPTIONAL_COLUMNS
from bentpipe.scenario.input_file import open_input_text, parse_json
from bentpipe.store.schema import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import TopologySpec

__all__ = ["LINKS", "Series", "read_series"]

Points = list[tuple[int, Row]]
"""Instants, ns, and the counters then."""

LINKS = "links.csv"
USERS = "users.csv"
QUEUES = "user_queues.csv"
"""The files of the path's series in a record; the second where it has a radio link, the third where a scheduler."""

WAYS = ("up", "down")
SOCKETS = ("client_side", "server_side")
_NAMES = ("time_s", "link", "user")
_TALLIES = {table: {name: kind for name, kind in OPTIONAL_COLUMNS[table].items() if name not in _NAMES}
            for table in ("users", "user_queues")}  # fmt: skip
CAUSES = ("loss", "overflow", "aqm", "outage", "link", "route")


@dataclass
class Series:
    """Counters of every direction of every segment, and of every proxy's sockets."""

    links: dict[str, Points] = field(default_factory=dict)
    """By ``SEGMENT.up`` or ``SEGMENT.down``."""
    proxies: dict[tuple[str, str], Points] = field(default_factory=dict)
    """By node and socket."""
    users: dict[tuple[str, int], Points] = field(default_factory=dict)
    """Of a radio link's users, by direction and number."""
    queues: dict[tuple[str, int], Points] = field(default_factory=dict)
    """Of these users' queues."""
    totals: dict[str, Row] = field(default_factory=dict)
    """Of each direction at the end of the lab."""

    def link_rows(
        self, graph: TopologySpec, origin_ns: int, ticks_ns: Sequence[int]
    ) -> tuple[list[Row], list[Row]]:
        """Rows of ``links``, and of ``link_summary`` at the last tick; instants count from ``origin_ns``.

        The emulator counts at the two ends of a segment, the part of the path between two namespaces: links in a row
        are one there, by the name ``A+B``.
        """
        rows, summary = [], []
        for name, total in self.totals.items():
            points = self.links.get(name, [])
            rows += [
                {"time_s": _seconds(tick, origin_ns), "link": name, **_at(points, tick)} for tick in ticks_ns
            ]
            last = _at(points, ticks_ns[-1]) if ticks_ns else {}
            summary.append({"link": name, **_promise(graph, name), **(last or total)})
        return rows, summary

    def user_rows(self, origin_ns: int, ticks_ns: Sequence[int]) -> list[Row]:
        """Rows of ``users``."""
        return [
            {"time_s": _seconds(tick, origin_ns), "link": link, "user": user, **row}
            for tick in ticks_ns
            for (link, user), points in self.users.items()
            if (row := _at(points, tick))
        ]

    def queue_rows(self, ticks_ns: Sequence[int]) -> list[Row]:
        """Rows of ``user_queues``, at the last tick."""
        return [
            {"link": link, "user": user, **row}
            for (link, user), points in self.queues.items()
            if ticks_ns and (row := _at(points, ticks_ns[-1]))
        ]

    def proxy_rows(self, flows: Sequence[str], origin_ns: int, ticks_ns: Sequence[int]) -> list[Row]:
        """Rows of ``proxies``. A proxy counts all its connections together: ``flow`` is null where several flows
        cross it."""
        flow = flows[0] if len(flows) == 1 else None
        return [
            {"time_s": _seconds(tick, origin_ns), "flow": flow, "proxy": node, "socket": socket, **row}
            for tick in ticks_ns
            for (node, socket), points in self.proxies.items()
            if (row := _at(points, tick))
        ]


def read_series(record: Path, result: Mapping[str, Any]) -> Series:
    """What the lab of ``result`` (its ``result.json``) has recorded in the folder ``record``; lines that were cut
    short are left out."""
    series = Series()
    for segment in result.get("segments", ()):
        for way in WAYS:
            series.totals[f"{segment['name']}.{way}"] = _totals(segment[way])
    started = int(result.get("started_ns", 0))
    for at, row in _recorded(record / LINKS, started):
        series.links.setdefault(f"{row['segment']}.{row['direction']}", []).append((at, _link(row)))
    for file, table, found in ((USERS, "users", series.users), (QUEUES, "user_queues", series.queues)):
        for at, row in _recorded(record / file, started):
            name = (f"{row['segment']}.{row['direction']}", int(row["user"]))
            found.setdefault(name, []).append((at, _tally(table, row)))
    for lines in sorted(record.glob("proxy-*.jsonl")):
        node = lines.stem.removeprefix("proxy-")
        with open_input_text(lines) as rows:
            for line in rows:
                try:
                    found = parse_json(line)
                except ValueError:
                    continue
                for socket in SOCKETS:
                    points = series.proxies.setdefault((node, socket), [])
                    points.append((int(found["time_ns"]), found[socket]))
    return series


def _recorded(file: Path, started_ns: int) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The whole rows of a file of the path's series, each with its instant; none if there is no such file."""
    if file.is_file():
        with open_input_text(file) as lines:
            for row in csv.DictReader(lines):
                if None not in row.values():
                    yield started_ns + round(float(row["time_s"]) * 1e9), row


def _seconds(time_ns: int, origin_ns: int) -> float:
    return round((time_ns - origin_ns) / 1e9, 9)


def _at(points: Points, time_ns: int) -> Row:
    """The last known counters at an instant."""
    place = bisect_right(points, time_ns, key=lambda point: point[0])
    return points[place - 1][1] if place else {}


def _totals(found: Mapping[str, Any]) -> Row:
    dropped = found.get("dropped") or {}
    return _counted(found, {cause: dropped.get(cause, 0) for cause in CAUSES})


def _link(row: Mapping[str, str]) -> Row:
    waiting = {name: int(row[name]) for name in ("queued_packets", "queued_bytes")}
    return waiting | _counted(row, {cause: row[f"dropped_{cause}"] for cause in CAUSES})


def _tally(table: str, row: Mapping[str, str]) -> Row:
    """Counters of a user by the columns of ``table``; what is empty is not known."""
    return {
        column: None if row[column] == "" else float(row[column]) if kind == "f64" else int(row[column])
        for column, kind in _TALLIES[table].items()
    }


def _counted(found: Mapping[str, Any], dropped: Mapping[str, Any]) -> Row:
    """The emulator's counters by the names of the tables."""
    return {
        "arrived_packets": int(found["packets_in"]),
        "delivered_packets": int(found["packets_out"]),
        "delivered_bytes": int(found["bytes_out"]),
        **{f"dropped_{cause}_packets": int(count) for cause, count in dropped.items()},
    }


def _promise(graph: TopologySpec, name: str) -> Row:
    """Least rate (None without a transmitter) and propagation of one direction, as the simulator says them."""
    segment, _, way = name.rpartition(".")
    names = segment.split("+")
    stages = [
        stage
        for link in graph["links"]
        if link["name"] in names
        for stage in link["up" if way == "up" else "down"]
    ]
    rates = [rate for stage in stages if (rate := rate_bit_s(stage)) is not None]
    delay = sum(sum(delays_ns(stage)[:1]) for stage in stages)
    return {"rate_bit_s": min(rates, default=None), "propagation_ms": delay / 1e6}
