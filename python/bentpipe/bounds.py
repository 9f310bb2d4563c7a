"""What a plan implies before it runs: bandwidth-delay product, slow-start time, bounds of goodput and RTT."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.resolve import Hop, bdp_bytes
from bentpipe.units import Rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan import Cell, Plan

__all__ = ["Bound", "bounds", "estimate_seconds"]

LINK_SECONDS_PER_CPU_SECOND = 3_000.0
"""Virtual seconds per CPU second of a flow at 1 Mbit/s: 300 at 10 Mbit/s. Only the estimate rests on it."""

QUIC_OVERHEAD_BYTES = 1 + 8 + 2 + 16 + 2
"""Of a full 1-RTT packet, the least: flags, connection id of 8, packet number of 2, tag, STREAM frame of 2
(RFC 9000 sections 17.3.1 and 19.8)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds of one flow in one cell of the sweep."""

    cell: Mapping[str, object]
    flow: str
    rate_bit_s: int | None
    """Of the narrowest link the data crosses."""
    min_rtt_ms: float
    """Propagation both ways and one full packet's serialisation on the way."""
    bdp_bytes: int | None
    queue_bytes: int | None
    queue_packets: int | None
    """Room of the narrowest link's queue, in bytes and in full packets; None: unbounded."""
    slow_start_s: float | None
    """log2(BDP / initial window) round trips: how long doubling takes to fill the pipe without loss."""
    goodput_bit_s: float | None
    """Rate times the part of a full packet that is payload."""


def bounds(plan: Plan) -> list[Bound]:
    """Bounds of every flow in every cell."""
    return [_bound(cell, flow) for cell in plan.cells for flow in cell.resolved.spec["flows"]]


def _sends_down(flow: Mapping[str, object]) -> bool:
    load = flow["load"]
    if not isinstance(load, dict):
        return False
    if load["kind"] != "perf":
        return bool(load["send"] == "down")
    amounts = [stream["amount"] for stream in load["streams"]]
    return all(
        amount.get("send") == "down" or amount.get("down_bytes", 0) > amount.get("up_bytes", 0)
        for amount in amounts
    )


def _bound(cell: Cell, flow: Mapping[str, object]) -> Bound:
    name = str(flow["name"])
    transport = flow["transport"]
    if not isinstance(transport, dict):
        raise TypeError("transport is a table in every resolved run")
    up, down = cell.resolved.up[name], cell.resolved.down[name]
    data = down if _sends_down(flow) else up
    propagation = sum(hop.delay_ns for hop in (*up, *down))
    rated: list[tuple[Rate, Hop]] = [(hop.rate, hop) for hop in data if hop.rate is not None]
    wire = int(transport["mtu_bytes"]) + int(transport["header_bytes"])
    on_the_wire = sum(wire * 8e9 / rate.bit_s for rate, _ in rated)
    rtt_ms = (propagation + on_the_wire) / 1e6
    if not rated:
        return Bound(cell.values, name, None, rtt_ms, None, None, None, None, None)
    rate, narrow = min(rated, key=lambda pair: pair[0])
    bdp = int(bdp_bytes(rate, propagation))
    window = int(transport["initial_window_bytes"])
    rounds = math.log2(max(bdp, 1) / window) if bdp > window else 0.0
    payload = int(transport["mtu_bytes"]) - QUIC_OVERHEAD_BYTES
    return Bound(
        cell.values,
        name,
        rate.bit_s,
        rtt_ms,
        bdp,
        narrow.queue_bytes,
        narrow.queue_bytes // wire if narrow.queue_bytes is not None else None,
        rounds * propagation / 1e9,
        rate.bit_s * payload / wire,
    )


def estimate_seconds(plan: Plan, jobs: int) -> float:
    """Rough wall time of the whole plan: link time times megabits, at the speed of the benchmark."""
    total = 0.0
    for cell in plan.cells:
        rates = [hop.rate.bit_s for hops in cell.resolved.up.values() for hop in hops if hop.rate is not None]
        megabits = min(rates, default=10_000_000) / 1e6
        total += len(cell.seeds) * cell.scenario.duration.seconds * max(megabits, 0.1)
    return total / LINK_SECONDS_PER_CPU_SECOND / max(jobs, 1)
