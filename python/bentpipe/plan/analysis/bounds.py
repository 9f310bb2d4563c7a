"""Bounds of a plan before it runs: bandwidth-delay product, slow-start time, goodput and round-trip time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.analysis import slow_start
from bentpipe.plan.flow.datagrams import datagram_max_bytes, offered_bit_s
from bentpipe.plan.flow.groups import representative_flows
from bentpipe.plan.flow.tcp import TIMESTAMPS_BYTES
from bentpipe.plan.link import nr
from bentpipe.plan.network.graph import Hop
from bentpipe.plan.spec.queries import data_transport
from bentpipe.scenario.quantities import Rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.plan import Cell, Plan
    from bentpipe.plan.spec.run_spec import FlowSpec

__all__ = ["Bound", "SegmentStart", "bounds"]

QUIC_OVERHEAD_BYTES = 1 + 8 + 2 + 16 + 2
"""Smallest overhead of a full 1-RTT packet (RFC 9000 sections 17.3.1 and 19.8).

Flags, connection id of 8 bytes, packet number of 2, tag, and STREAM frame header of 2.
"""


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """Slow start of split TCP in one segment, between two proxies or ends."""

    segment: str
    rtt_ms: float
    one_way_s: float
    two_way_s: float
    longest: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds of one flow in one cell of the sweep."""

    cell: Mapping[str, object]
    flow: str
    rate_bit_s: int | None
    """Rate of the bottleneck; the largest over all routes if there are handovers."""
    min_rtt_ms: float
    """Smallest round-trip propagation delay, and the serialisation of one full packet."""
    bdp_bytes: int | None
    queue_bytes: int | None
    queue_packets: int | None
    """Bound of the queue of the bottleneck, in bytes and in full packets; None for no bound."""
    slow_start_s: float | None
    """Duration of slow start without loss, with the BDP of the round trip: log2(BDP / initial window) round trips."""
    goodput_bit_s: float | None
    """Rate times the payload share of a full packet; over a 5G link at most the rate with HARQ stalls."""
    slow_start_one_way_s: float | None = None
    """Duration of slow start with the BDP of one direction: rate times half of the round-trip time."""
    segments: tuple[SegmentStart, ...] = ()
    """Slow start of each segment of split TCP."""
    first_byte_s: float | None = None
    """Page loads: round-trip model of responseStart - connectStart of the first load."""


def bounds(plan: Plan) -> list[Bound]:
    """Return the bounds of every flow or group of flows in every cell."""
    return [
        _bound(cell, name, flow)
        for cell in plan.cells
        for name, flow in representative_flows(cell.resolved.spec)
    ]


def _sends_down(flow: FlowSpec) -> bool:
    """Return whether the main direction of the data is from server to client."""
    load = flow["load"]
    if load["kind"] == "page":
        return True
    if load["kind"] == "bundles":
        return False
    if load["kind"] == "datagrams":
        return load["up"] is None
    if load["kind"] != "perf":
        return load["direction"] == "down"
    amounts = [stream["amount"] for stream in load["streams"]]
    return all(
        amount["direction"] == "down"
        if amount["mode"] == "time"
        else amount["down_bytes"] > amount["up_bytes"]
        for amount in amounts
    )


def _bound(cell: Cell, title: str, flow: FlowSpec) -> Bound:
    name = flow["name"]
    up, down = cell.resolved.up[name], cell.resolved.down[name]
    propagation = sum(hop.delay_ns for hop in (*up, *down))
    window, payload, wire = _packet_sizes(flow, down=_sends_down(flow))
    # With handovers there are several routes: the shortest bounds the RTT, the fastest the goodput.
    routes = cell.resolved.ways[name]
    rtt_ms = min(_min_rtt_ns(route, wire, down=_sends_down(flow)) for route in routes) / 1e6
    candidates = [_rated_hops(route, down=_sends_down(flow)) for route in routes]
    rated = max(candidates, key=lambda hops: min((rate for rate, _ in hops), default=_UNLIMITED_RATE))
    first_byte = slow_start.first_byte_ns(cell.resolved.spec, flow, up, down)
    first_byte_s = None if first_byte is None else first_byte / 1e9
    if not rated:
        return Bound(cell.values, title, None, rtt_ms, None, None, None, None, None, None, (), first_byte_s)
    rate, bottleneck = min(rated, key=lambda pair: pair[0])
    return Bound(
        cell.values,
        title,
        rate.bit_s,
        rtt_ms,
        rate.bit_s * propagation // (8 * 10**9),
        bottleneck.queue_bytes,
        bottleneck.queue_bytes // wire if bottleneck.queue_bytes is not None else None,
        None if window is None else slow_start.slow_start_s(rate.bit_s, propagation, window),
        min(
            min(rate.bit_s, _nr_rate_bit_s(cell, routes, down=_sends_down(flow))) * payload / wire,
            offered_bit_s(flow["load"], "down" if _sends_down(flow) else "up") or math.inf,
        ),
        None if window is None else slow_start.slow_start_s(rate.bit_s, propagation, window, one_way=True),
        () if window is None else _segments(cell, flow, (up, down), rate.bit_s, window),
        first_byte_s,
    )


_UNLIMITED_RATE = Rate(2**63 - 1)


def _rated_hops(route: tuple[tuple[Hop, ...], tuple[Hop, ...]], *, down: bool) -> list[tuple[Rate, Hop]]:
    """Return the links with a rate in the direction of the data."""
    return [(hop.rate, hop) for hop in route[down] if hop.rate is not None]


def _nr_rate_bit_s(
    cell: Cell, routes: Sequence[tuple[tuple[Hop, ...], tuple[Hop, ...]]], *, down: bool
) -> float:
    """Return the rate of transport blocks of the slowest 5G link, on the route where it is largest."""
    spec = cell.resolved.spec
    rates = {
        f"{link['name']}.{side}": nr.rate_max_bit_s(stage, spec["duration_ns"])
        for link in spec["graph"]["links"]
        for side, stages in (("up", link["up"]), ("down", link["down"]))
        for stage in stages
        if stage["kind"] == "nr"
    }
    return max(
        min((rates.get(hop.name, math.inf) for hop in route[down]), default=math.inf) for route in routes
    )


def _min_rtt_ns(route: tuple[tuple[Hop, ...], tuple[Hop, ...]], wire: int, *, down: bool) -> float:
    """Return the smallest round-trip propagation delay plus the serialisation of one full packet, in ns."""
    propagation = sum(hop.delay_min_ns for hops in route for hop in hops)
    return propagation + sum(wire * 8e9 / rate.bit_s for rate, _ in _rated_hops(route, down=down))


def _packet_sizes(flow: FlowSpec, *, down: bool) -> tuple[int | None, int, int]:
    """Return initial window (None over UDP), payload and total size of a full packet of the sender, in bytes."""
    transport, load = data_transport(flow), flow["load"]
    if transport["kind"] == "udp":
        payload = datagram_max_bytes(transport, load)
        return None, payload, payload + transport["header_bytes"]
    if transport["kind"] == "quic":
        mtu = transport["mtu_bytes"]
        return transport["initial_window_bytes"], mtu - QUIC_OVERHEAD_BYTES, mtu + transport["header_bytes"]
    end = transport["server" if down else "client"]
    has_timestamps = transport["client"]["timestamps"] and transport["server"]["timestamps"]
    payload = end["mss_bytes"] - (TIMESTAMPS_BYTES if has_timestamps else 0)
    return end["initial_window_bytes"], payload, end["mss_bytes"] + end["header_bytes"]


def _segments(
    cell: Cell,
    flow: FlowSpec,
    route: tuple[tuple[Hop, ...], tuple[Hop, ...]],
    rate_bit_s: int,
    window: int,
) -> tuple[SegmentStart, ...]:
    """Return the slow start of each segment of split TCP; empty without proxies."""
    spec = cell.resolved.spec
    if data_transport(flow)["kind"] != "tcp":
        return ()
    connections = slow_start.split_connections(spec, *route)
    if len(connections) < 2:
        return ()
    down = _sends_down(flow)
    rows = []
    for connection in connections:
        # in the direction to the client the node on the server side sends
        sender = connection.server_side if down else connection.client_side
        socket = None if sender is None else sender["client_side" if down else "server_side"]
        is_line_rate = socket is not None and socket["congestion"] == "fixed"
        initial_window = window if socket is None else socket["tcp"]["initial_window_bytes"]
        one_way_s, two_way_s = (
            0.0
            if is_line_rate
            else slow_start.slow_start_s(rate_bit_s, connection.rtt_ns, initial_window, one_way=one_way)
            for one_way in (True, False)
        )
        rows.append((connection, one_way_s, two_way_s))
    longest = max(range(len(rows)), key=lambda index: rows[index][2])
    return tuple(
        SegmentStart(connection.name, connection.rtt_ns / 1e6, one_way_s, two_way_s, index == longest)
        for index, (connection, one_way_s, two_way_s) in enumerate(rows)
    )
