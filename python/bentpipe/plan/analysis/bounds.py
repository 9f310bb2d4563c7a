"""What a plan implies before it runs: bandwidth-delay product, slow-start time, bounds of goodput and RTT."""

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
"""Of a full 1-RTT packet, the least: flags, connection id of 8, packet number of 2, tag, STREAM frame of 2
(RFC 9000 sections 17.3.1 and 19.8)."""


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """Slow start of split TCP in one segment, from one proxy or end to the next."""

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
    """Of the narrowest link the data crosses; on the widest way, where hand-overs lead over several."""
    min_rtt_ms: float
    """Propagation both ways when it is least, and one full packet's serialisation on the way."""
    bdp_bytes: int | None
    queue_bytes: int | None
    queue_packets: int | None
    """Room of the narrowest link's queue, in bytes and in full packets; None: unbounded."""
    slow_start_s: float | None
    """log2(BDP / initial window) round trips: how long doubling takes to fill the pipe without loss, with the
    BDP of the whole round trip (two-way)."""
    goodput_bit_s: float | None
    """Rate times the part of a full packet that is payload; over a 5G link the rate that HARQ leaves."""
    slow_start_one_way_s: float | None = None
    """The same with the BDP of one way: rate times half of the round trip."""
    segments: tuple[SegmentStart, ...] = ()
    """For TCP that proxies split: the same for each segment between them."""
    first_byte_s: float | None = None
    """Loads of pages: round-trip model of responseStart - connectStart of the first load."""


def bounds(plan: Plan) -> list[Bound]:
    """Bounds of every flow in every cell; those of a group have the same."""
    return [
        _bound(cell, shown, flow)
        for cell in plan.cells
        for shown, flow in representative_flows(cell.resolved.spec)
    ]


def _sends_down(flow: FlowSpec) -> bool:
    load = flow["load"]
    if load["kind"] == "page":
        return True
    if load["kind"] == "bundles":
        return False
    if load["kind"] == "datagrams":
        return load["up"] is None
    if load["kind"] != "perf":
        return load["send"] == "down"
    amounts = [stream["amount"] for stream in load["streams"]]
    return all(
        amount["send"] == "down" if amount["mode"] == "time" else amount["down_bytes"] > amount["up_bytes"]
        for amount in amounts
    )


def _bound(cell: Cell, shown: str, flow: FlowSpec) -> Bound:
    name = flow["name"]
    up, down = cell.resolved.up[name], cell.resolved.down[name]
    propagation = sum(hop.delay_ns for hop in (*up, *down))
    window, payload, wire = _packet(flow, down=_sends_down(flow))
    # Of all ways that hand-overs lead over: the quickest bounds the round trip, the widest the goodput.
    ways = cell.resolved.ways[name]
    rtt_ms = min(_least_ns(way, wire, down=_sends_down(flow)) for way in ways) / 1e6
    every = [_rated(way, down=_sends_down(flow)) for way in ways]
    rated = max(every, key=lambda hops: min((rate for rate, _ in hops), default=_ENDLESS))
    first_byte = slow_start.first_byte_ns(cell.resolved.spec, flow, up, down)
    first_byte_s = None if first_byte is None else first_byte / 1e9
    if not rated:
        return Bound(cell.values, shown, None, rtt_ms, None, None, None, None, None, None, (), first_byte_s)
    rate, narrow = min(rated, key=lambda pair: pair[0])
    return Bound(
        cell.values,
        shown,
        rate.bit_s,
        rtt_ms,
        rate.bit_s * propagation // (8 * 10**9),
        narrow.queue_bytes,
        narrow.queue_bytes // wire if narrow.queue_bytes is not None else None,
        None if window is None else slow_start.slow_start_s(rate.bit_s, propagation, window),
        min(
            min(rate.bit_s, _blocks_bit_s(cell, ways, down=_sends_down(flow))) * payload / wire,
            offered_bit_s(flow["load"], "down" if _sends_down(flow) else "up") or math.inf,
        ),
        None if window is None else slow_start.slow_start_s(rate.bit_s, propagation, window, one_way=True),
        () if window is None else _segments(cell, flow, (up, down), rate.bit_s, window),
        first_byte_s,
    )


_ENDLESS = Rate(2**63 - 1)


def _rated(way: tuple[tuple[Hop, ...], tuple[Hop, ...]], *, down: bool) -> list[tuple[Rate, Hop]]:
    """The links with a rate that the data crosses."""
    return [(hop.rate, hop) for hop in way[down] if hop.rate is not None]


def _blocks_bit_s(
    cell: Cell, ways: Sequence[tuple[tuple[Hop, ...], tuple[Hop, ...]]], *, down: bool
) -> float:
    """What the narrowest 5G link carries of transport blocks, on the way on which that is most."""
    spec = cell.resolved.spec
    most = {
        f"{link['name']}.{side}": nr.rate_max_bit_s(stage, spec["duration_ns"])
        for link in spec["graph"]["links"]
        for side, stages in (("up", link["up"]), ("down", link["down"]))
        for stage in stages
        if stage["kind"] == "nr"
    }
    return max(min((most.get(hop.name, math.inf) for hop in way[down]), default=math.inf) for way in ways)


def _least_ns(way: tuple[tuple[Hop, ...], tuple[Hop, ...]], wire: int, *, down: bool) -> float:
    """Propagation both ways when it is least, and one full packet's serialisation."""
    propagation = sum(hop.delay_min_ns for hops in way for hop in hops)
    return propagation + sum(wire * 8e9 / rate.bit_s for rate, _ in _rated(way, down=down))


def _packet(flow: FlowSpec, *, down: bool) -> tuple[int | None, int, int]:
    """Initial window (None: there is none), payload and whole size of a full packet of the sender."""
    way, load = data_transport(flow), flow["load"]
    if way["kind"] == "udp":
        payload = datagram_max_bytes(way, load)
        return None, payload, payload + way["header_bytes"]
    if way["kind"] == "quic":
        mtu = way["mtu_bytes"]
        return way["initial_window_bytes"], mtu - QUIC_OVERHEAD_BYTES, mtu + way["header_bytes"]
    end = way["server" if down else "client"]
    both = way["client"]["timestamps"] and way["server"]["timestamps"]
    payload = end["mss_bytes"] - (TIMESTAMPS_BYTES if both else 0)
    return end["initial_window_bytes"], payload, end["mss_bytes"] + end["header_bytes"]


def _segments(
    cell: Cell,
    flow: FlowSpec,
    ways: tuple[tuple[Hop, ...], tuple[Hop, ...]],
    rate_bit_s: int,
    window: int,
) -> tuple[SegmentStart, ...]:
    """Slow start of each segment of split TCP; none where nothing splits it."""
    spec = cell.resolved.spec
    if data_transport(flow)["kind"] != "tcp":
        return ()
    found = slow_start.split_connections(spec, *ways)
    if len(found) < 2:
        return ()
    down = _sends_down(flow)
    rows = []
    for leg in found:
        # towards the client the node on the server's side sends, and the other way round
        sender = leg.server_side if down else leg.client_side
        socket = None if sender is None else sender["client_side" if down else "server_side"]
        known = socket is not None and socket["congestion"] == "fixed"
        own = window if socket is None else socket["tcp"]["initial_window_bytes"]
        rows.append(
            (
                leg,
                0.0 if known else slow_start.slow_start_s(rate_bit_s, leg.rtt_ns, own, one_way=True),
                0.0 if known else slow_start.slow_start_s(rate_bit_s, leg.rtt_ns, own),
            )
        )
    longest = max(range(len(rows)), key=lambda index: rows[index][2])
    return tuple(
        SegmentStart(leg.name, leg.rtt_ns / 1e6, one, two, index == longest)
        for index, (leg, one, two) in enumerate(rows)
    )
