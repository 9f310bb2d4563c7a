"""What the emulator counted in a lab, as rows of the tables ``links`` and ``link_summary``."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["COUNTERS", "lab_links"]

COUNTERS = (
    "queued_packets", "queued_bytes", "sent_bytes", "arrived_packets", "arrived_bytes", "delivered_packets",
    "delivered_bytes", "dropped_loss_packets", "dropped_overflow_packets", "dropped_aqm_packets",
    "dropped_outage_packets", "dropped_link_packets", "marked_packets",
)  # fmt: skip
CAUSES = ("loss", "overflow", "aqm", "outage", "link")

Rows = list[dict[str, Any]]


def lab_links(
    graph: Mapping[str, Any], series: str, zero_s: float, ticks: Sequence[float]
) -> tuple[Rows, Rows]:
    """Rows of both tables.

    Args:
        graph: the path, as the resolved run has it.
        series: the lab's ``links.csv``; its instants count from the start of the path's schedule.
        zero_s: the unit's start on that clock.
        ticks: instants of the unit that get a row.
    """
    found: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for row in csv.DictReader(series.splitlines()):
        if None in row.values():
            continue  # cut short
        name = f"{row['segment']}.{row['direction']}"
        found.setdefault(name, []).append((float(row["time_s"]) - zero_s, _counters(row)))
    links: Rows = []
    totals: Rows = []
    for name, points in found.items():
        place = -1
        for tick in ticks:
            while place + 1 < len(points) and points[place + 1][0] <= tick + 1e-6:
                place += 1
            counters = points[place][1] if place >= 0 else dict.fromkeys(points[0][1], 0)
            links.append({"time_s": tick, "link": name, **dict.fromkeys(COUNTERS), **counters})
        segment, _, way = name.rpartition(".")
        head = {"link": name, **_promise(graph, segment, way)}
        quantiles = dict.fromkeys(f"queueing_{q}_ms" for q in ("p50", "p95", "p99", "max"))
        totals.append({**head, **dict.fromkeys(COUNTERS), **points[-1][1], **quantiles})
    return links, totals


def _counters(row: Mapping[str, str]) -> dict[str, Any]:
    counters = {
        "queued_packets": int(row["queued_packets"]),
        "queued_bytes": int(row["queued_bytes"]),
        "sent_bytes": int(row["bytes_out"]),
        "arrived_packets": int(row["packets_in"]),
        "delivered_packets": int(row["packets_out"]),
        "delivered_bytes": int(row["bytes_out"]),
    }
    return counters | {f"dropped_{cause}_packets": int(row[f"dropped_{cause}"]) for cause in CAUSES}


def _promise(graph: Mapping[str, Any], segment: str, way: str) -> dict[str, Any]:
    """Least rate and propagation of the links that a segment of the lab is made of."""
    names = segment.split("+")
    stages = [stage for link in graph["links"] if link["name"] in names for stage in link[way]]
    rates = [
        float(stage["service"]["rate_bit_s"])
        for stage in stages
        if stage["kind"] == "transmit" and stage["service"]["kind"] == "rate"
    ]
    delay = sum(stage["delay_ns"] for stage in stages if stage["kind"] == "delay")
    return {"rate_bit_s": min(rates, default=None), "propagation_ms": delay / 1e6}
