"""Counters that a lab recorded, as tables of a store.

The tables are ``links``, ``link_summary``, ``users``, ``user_queues`` and ``proxies``. Times are those of the
host's CLOCK_MONOTONIC, which is common to all namespaces. A value that neither the emulator nor the kernel
counts is null, never 0.
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
"""Times in ns, each with the counters at that time."""

LINKS = "links.csv"
"""Files of a recording with the counters of the path: links, users of a radio link, queues of a scheduler."""
USERS = "radio_users.csv"
QUEUES = "user_queues.csv"
"""The files of the path's series in a record; the second where it has a radio link, the third where a scheduler."""

DIRECTIONS = ("up", "down")
SOCKETS = ("client_side", "server_side")
_KEY_COLUMNS = ("time_s", "link", "user")
_USER_COLUMNS = {table: {name: kind for name, kind in OPTIONAL_COLUMNS[table].items() if name not in _KEY_COLUMNS}
            for table in ("radio_users", "user_queues")}  # fmt: skip
CAUSES = ("loss", "overflow", "aqm", "outage", "retry_limit", "no_route")


@dataclass
class Series:
    """Counters of the link directions, the users and the sockets of the proxies over time."""

    links: dict[str, Points] = field(default_factory=dict)
    """Counters by ``SEGMENT.up`` or ``SEGMENT.down``."""
    proxies: dict[tuple[str, str], Points] = field(default_factory=dict)
    """Counters by node and socket of a proxy."""
    users: dict[tuple[str, int], Points] = field(default_factory=dict)
    """Counters of the users of a radio link, by direction and number."""
    queues: dict[tuple[str, int], Points] = field(default_factory=dict)
    """Counters of the queues of these users."""
    totals: dict[str, Row] = field(default_factory=dict)
    """Counters of each link direction at the end of the lab."""

    def link_rows(
        self, graph: TopologySpec, origin_ns: int, ticks_ns: Sequence[int]
    ) -> tuple[list[Row], list[Row]]:
        """Return the rows of ``links``, and the rows of ``link_summary`` at the last tick.

        The emulator counts at the two ends of a segment, the part of the path between two namespaces. It
        joins links in a row to one segment with the name ``A+B``.

        Args:
            graph: graph of the run.
            origin_ns: start of the run, from which times count, ns.
            ticks_ns: times of the rows, ns.
        """
        rows, summary = [], []
        for name, total in self.totals.items():
            points = self.links.get(name, [])
            rows += [
                {"time_s": _to_seconds(tick, origin_ns), "link": name, **_counters_at(points, tick)}
                for tick in ticks_ns
            ]
            last_counters = _counters_at(points, ticks_ns[-1]) if ticks_ns else {}
            summary.append({"link": name, **_configured_link(graph, name), **(last_counters or total)})
        return rows, summary

    def user_rows(self, origin_ns: int, ticks_ns: Sequence[int]) -> list[Row]:
        """Return the rows of ``users``."""
        return [
            {"time_s": _to_seconds(tick, origin_ns), "link": link, "user": user, **row}
            for tick in ticks_ns
            for (link, user), points in self.users.items()
            if (row := _counters_at(points, tick))
        ]

    def queue_rows(self, ticks_ns: Sequence[int]) -> list[Row]:
        """Return the rows of ``user_queues`` at the last tick."""
        return [
            {"link": link, "user": user, **row}
            for (link, user), points in self.queues.items()
            if ticks_ns and (row := _counters_at(points, ticks_ns[-1]))
        ]

    def proxy_rows(self, flows: Sequence[str], origin_ns: int, ticks_ns: Sequence[int]) -> list[Row]:
        """Return the rows of ``proxies``.

        A proxy has one counter for all its connections. ``flow`` is therefore null if several flows cross it.
        """
        flow = flows[0] if len(flows) == 1 else None
        return [
            {"time_s": _to_seconds(tick, origin_ns), "flow": flow, "proxy": node, "socket": socket, **row}
            for tick in ticks_ns
            for (node, socket), points in self.proxies.items()
            if (row := _counters_at(points, tick))
        ]


def read_series(record: Path, result: Mapping[str, Any]) -> Series:
    """Return the counters that a lab recorded; incomplete lines are skipped.

    Args:
        record: directory of the recording.
        result: content of the lab's ``result.json``.
    """
    series = Series()
    for segment in result.get("links", ()):
        for direction in DIRECTIONS:
            series.totals[f"{segment['name']}.{direction}"] = _convert_totals(segment[direction])
    started = int(result.get("started_ns", 0))
    for time_ns, row in _read_rows(record / LINKS, started):
        series.links.setdefault(f"{row['segment']}.{row['direction']}", []).append(
            (time_ns, _convert_link_row(row))
        )
    for file, table, points_of_user in (
        (USERS, "radio_users", series.users),
        (QUEUES, "user_queues", series.queues),
    ):
        for time_ns, row in _read_rows(record / file, started):
            user = (f"{row['segment']}.{row['direction']}", int(row["user"]))
            points_of_user.setdefault(user, []).append((time_ns, _convert_user_row(table, row)))
    for lines in sorted(record.glob("proxy-*.jsonl")):
        node = lines.stem.removeprefix("proxy-")
        with open_input_text(lines) as rows:
            for line in rows:
                try:
                    counters = parse_json(line)
                except ValueError:
                    continue
                for socket in SOCKETS:
                    points = series.proxies.setdefault((node, socket), [])
                    points.append((int(counters["time_ns"]), counters[socket]))
    return series


def _read_rows(file: Path, started_ns: int) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the complete rows of a file with their times in ns; nothing if the file does not exist."""
    if file.is_file():
        with open_input_text(file) as lines:
            for row in csv.DictReader(lines):
                if None not in row.values():
                    yield started_ns + round(float(row["time_s"]) * 1e9), row


def _to_seconds(time_ns: int, origin_ns: int) -> float:
    return round((time_ns - origin_ns) / 1e9, 9)


def _counters_at(points: Points, time_ns: int) -> Row:
    """Return the last known counters at a time."""
    place = bisect_right(points, time_ns, key=lambda point: point[0])
    return points[place - 1][1] if place else {}


def _convert_totals(counters: Mapping[str, Any]) -> Row:
    dropped = counters.get("dropped") or {}
    return _convert_counters(counters, {cause: dropped.get(cause, 0) for cause in CAUSES})


def _convert_link_row(row: Mapping[str, str]) -> Row:
    queue = {name: int(row[name]) for name in ("queued_packets", "queued_bytes")}
    return queue | _convert_counters(row, {cause: row[f"dropped_{cause}"] for cause in CAUSES})


def _convert_user_row(table: str, row: Mapping[str, str]) -> Row:
    """Return the counters of a user by the columns of ``table``; an empty value is unknown."""
    return {
        column: None if row[column] == "" else float(row[column]) if kind == "f64" else int(row[column])
        for column, kind in _USER_COLUMNS[table].items()
    }


def _convert_counters(counters: Mapping[str, Any], dropped: Mapping[str, Any]) -> Row:
    """Return the counters of the emulator by the column names of the tables."""
    return {
        "arrived_packets": int(counters["packets_in"]),
        "delivered_packets": int(counters["packets_out"]),
        "delivered_bytes": int(counters["bytes_out"]),
        **{f"dropped_{cause}_packets": int(count) for cause, count in dropped.items()},
    }


def _configured_link(graph: TopologySpec, name: str) -> Row:
    """Return the minimum rate and the propagation delay of a direction, as the simulator does.

    The rate is None without a transmitter.
    """
    segment, _, direction = name.rpartition(".")
    links = segment.split("+")
    stages = [
        stage
        for link in graph["links"]
        if link["name"] in links
        for stage in link["up" if direction == "up" else "down"]
    ]
    rates = [rate for stage in stages if (rate := rate_bit_s(stage)) is not None]
    delay = sum(sum(delays_ns(stage)[:1]) for stage in stages)
    return {"rate_bit_s": min(rates, default=None), "propagation_ms": delay / 1e6}
