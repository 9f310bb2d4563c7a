"""What the emulator counted, as the tables ``links`` and ``link_summary``."""

from __future__ import annotations

import csv
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Columns", "Links", "read_links"]

Columns = dict[str, list[Any]]
"""A table: a list a column. None is null."""

WAYS = ("up", "down")
CAUSES = ("loss", "overflow", "aqm", "outage", "link")


@dataclass
class Links:
    """Counters of every direction of every link."""

    spec: Mapping[str, Any]
    sample_ns: int
    series: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    """By ``LINK.up`` or ``LINK.down``: instants of CLOCK_MONOTONIC, and the counters then."""
    totals: dict[str, dict[str, Any]] = field(default_factory=dict)
    """At the end of the lab."""

    def at(self, link: str, time_ns: int) -> dict[str, Any]:
        """The last known counters at an instant."""
        series = self.series.get(link, [])
        place = bisect_right(series, time_ns, key=lambda entry: entry[0])
        return series[place - 1][1] if place else {}

    def fill(self, links: Columns, summary: Columns, origin_ns: int, end_ns: int) -> None:
        """Adds the rows of a run that lasts from ``origin_ns`` to ``end_ns``."""
        for edge in self.spec["graph"]["links"]:
            for way in WAYS:
                name = f"{edge['name']}.{way}"
                for time_ns in _ticks(origin_ns, end_ns, self.sample_ns):
                    row = {"time_s": round((time_ns - origin_ns) / 1e9, 9), "link": name}
                    _append(links, row | self.at(name, time_ns))
                rate, delay_ns = _promise(edge[way])
                last = self.at(name, end_ns) or self.totals.get(name, {})
                head = {"link": name, "rate_bit_s": rate, "propagation_ms": delay_ns / 1e6}
                _append(summary, head | self.totals.get(name, {}) | last)


def _append(columns: Columns, row: Mapping[str, Any]) -> None:
    for name, values in columns.items():
        values.append(row.get(name))


def _ticks(origin_ns: int, end_ns: int, sample_ns: int) -> list[int]:
    return [*range(origin_ns + sample_ns, end_ns, sample_ns), end_ns]


def _promise(stages: list[Mapping[str, Any]]) -> tuple[float | None, int]:
    """Least rate (None without a transmitter) and propagation of one direction, as the simulator says them."""
    rates, delay = [], 0
    for stage in stages:
        if stage["kind"] == "transmit" and stage["service"]["kind"] == "rate":
            rates.append(float(stage["service"]["rate_bit_s"]))
        if stage["kind"] == "netem":
            rates.append(float(stage["rate_bit_s"]))
        if stage["kind"] in ("delay", "netem"):
            delay += int(stage["delay_ns"])
        if stage["kind"] == "delay_trace":
            delay += int(stage["points"][0][1])
    return min(rates, default=None), delay


def read_links(spec: Mapping[str, Any], result: Mapping[str, Any], record: Path) -> Links:
    """Counters of a lab: its recorded series, and its result's totals.

    The emulator counts at the two ends of a segment, the part of the path between two namespaces. Where that is one
    link they are its; of several links in a row nothing can be said of each, and their columns are null.
    """
    links = Links(spec, int(spec["sample_ns"]))
    for segment in result.get("segments", ()):
        for way in WAYS:
            links.totals[f"{segment['name']}.{way}"] = _totals(segment[way])
    file = record / "links.csv"
    if file.is_file():
        started = int(result.get("started_ns", 0))
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                at = started + round(float(row["time_s"]) * 1e9)
                links.series.setdefault(f"{row['segment']}.{row['direction']}", []).append((at, _row(row)))
    return links


def _totals(found: Mapping[str, Any]) -> dict[str, Any]:
    dropped = found.get("dropped") or {}
    return {
        "arrived_packets": found["packets_in"],
        "delivered_packets": found["packets_out"],
        "delivered_bytes": found["bytes_out"],
        **{f"dropped_{cause}_packets": int(dropped.get(cause, 0)) for cause in CAUSES},
    }


def _row(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        "queued_packets": int(row["queued_packets"]),
        "queued_bytes": int(row["queued_bytes"]),
        "arrived_packets": int(row["packets_in"]),
        "delivered_packets": int(row["packets_out"]),
        "delivered_bytes": int(row["bytes_out"]),
        **{f"dropped_{cause}_packets": int(row[f"dropped_{cause}"]) for cause in CAUSES},
    }
