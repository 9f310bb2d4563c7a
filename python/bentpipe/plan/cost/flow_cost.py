"""Cost of one flow: packets, events, memory and processor time.

The constants are measurements of the engine. They are within a factor of two for the loads that the tests run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.analysis.slow_start import split_connections
from bentpipe.plan.cost.loss_detection import LossDetectionCost
from bentpipe.plan.flow.datagrams import datagram_max_bytes, offered_bit_s
from bentpipe.plan.spec.queries import needs_tcp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.plan.dtn.bundle_paths import BundleShare
    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.resolve import Resolved
    from bentpipe.plan.spec.run_spec import (
        CongestionSpec,
        FlowSpec,
        PageLoadSpec,
        RunSpec,
        SizeSpec,
        SourceSpec,
        StreamSpec,
        TraceSpec,
    )

__all__ = ["BYTES_TRACED", "CostItem", "FlowCost"]

ACKS = 0.5
"""Packets with only acknowledgements per packet with data (RFC 9000 section 13.2.2, RFC 9293 section 3.8.6.3)."""

EVENTS_END, EVENTS_LINE, EVENTS_WIRE = 1.0, 1.25, 0.5
"""Events of a packet at its ends, at each link, and at each link without a rate, which forwards many at one instant."""

PACKETS_CONNECTION = 8
"""Packets of a connection with almost no data: handshake, request, response, close."""

PACKETS_REQUEST = 3
"""Packets of a request beside its data."""

EVENTS_CPU_S = {"quic": 1.4e6, "tcp": 3.5e6, "udp": 3.5e6}
"""Events per second of one processor: `python -m benchmarks simulator`, in packets of 2.25 events."""

CPU_FLOW_S = {"quic": 1.3e-3, "tcp": 0.2e-3, "udp": 0.1e-3}
"""Further processor time in seconds to create the two ends of a flow, connect them and report them."""

CPU_CONNECTION_S = {"quic": 0.1e-3, "tcp": 8e-6, "udp": 0.0}
"""Further processor time in seconds per connection (last two cases of `python -m benchmarks simulator`)."""

BYTES_CONNECTION = {"quic": 6e3, "tcp": 4e3, "udp": 1e3}
"""Memory of each connection of a run, open or closed."""

BYTES_FLOW = {"quic": 150e3, "tcp": 0.0, "udp": 40e3}
"""Memory of both ends of a flow."""

BYTES_STREAM = {"quic": 8e3, "tcp": 35e3, "udp": 0.0}
"""Memory of each concurrent stream."""

BYTES_TRACED = {"qlog": 1.7e3, "pcapng": 1.3e3, "packets": 0.4e3}
"""Memory of a packet in each kind of trace."""

BYTES_STEPS = 0.7e3
"""Memory of the steps of a packet over a link (``trace.stages``)."""

BYTES_SPLIT = {"page": 2.8, "perf": 0.2}
"""Memory of a byte in a proxy: with TLS, whose records are stored; without, as the bytes are zeros."""

BYTES_CALL_S = 500
"""Memory of a second of a datagram source: delays of each 10 s, in some 40 bins on a path with jitter."""

TICK_NS = 10_000_000
"""Interval at which an on-off source with a rate writes data."""


@dataclass(frozen=True, slots=True)
class CostItem:
    """Cost of one part of a scenario."""

    key: str
    """Key of the scenario."""
    reason: str
    """Cause of the cost, for messages."""
    events: float = 0.0
    memory_bytes: float = 0.0
    cpu_s: float = 0.0


class FlowCost:
    """Traffic of a flow in both directions, its cost, and the number of equal flows of its group."""

    def __init__(
        self,
        flow: FlowSpec,
        group: str,
        resolved: Resolved,
        duration_s: float,
        bundles: Sequence[BundleShare] = (),
    ) -> None:
        """Compute the traffic of a flow.

        Args:
            flow: the flow.
            group: the name of its group, or of the flow.
            resolved: the resolved run.
            duration_s: the duration of the run in seconds.
            bundles: the bundles that cross the flow, if it connects two bundle nodes.
        """
        self.name = flow["name"]
        self.count = 1
        self.group = group
        self.key = f"flow.{group}"
        self.load = flow["load"]
        self.hops = {"up": resolved.up[self.name], "down": resolved.down[self.name]}
        self.remaining_s = max(duration_s - flow["start_ns"] / 1e9, 0.0)
        self.rtt_s = sum(hop.delay_ns for hops in self.hops.values() for hop in hops) / 1e9
        transport = flow["transport"]
        self.protocol = "quic" if transport["kind"] == "web" else transport["kind"]
        self.acks_per_packet = ACKS
        self.loss_detection: dict[str, LossDetectionCost] = {}
        if transport["kind"] == "tcp":
            ends = (transport["client"], transport["server"])
            self.window = {"up": ends[1]["receive_buffer_bytes"], "down": ends[0]["receive_buffer_bytes"]}
            self.payload = min(end["mss_bytes"] for end in ends)
        elif transport["kind"] == "udp":
            # no flow control
            self.window = dict.fromkeys(("up", "down"), 2**62)
            self.payload, self.acks_per_packet = datagram_max_bytes(transport, self.load), 0.0
        else:
            quic = transport["quic"] if transport["kind"] == "web" else transport
            self.window = dict.fromkeys(("up", "down"), quic["receive_window_bytes"])
            self.payload = quic["mtu_bytes"]
            if self.load["kind"] != "page" or self.load["http"] in ("3", "alt-svc"):
                self.loss_detection = {
                    direction: LossDetectionCost.from_hops(hops, quic)
                    for direction, hops in self.hops.items()
                }
        congestion = {"up": flow["client_congestion"], "down": flow["server_congestion"]}
        self.constant_bit_s = {direction: _constant_bit_s(spec) for direction, spec in congestion.items()}
        if self.protocol == "udp":
            self.constant_bit_s = {
                "up": offered_bit_s(self.load, "up"),
                "down": offered_bit_s(self.load, "down"),
            }
        self.connections, self.streams, self.requests, self.source_events = 1.0, 1.0, 0.0, 0.0
        self.datagrams_s = 0.0
        self.active_s: float | None = None
        """Time in which the flow sends, in seconds; None if it sends as fast as it can."""
        self.bundles = bundles
        self.reason = "data of the flow"
        self.proxies = _splitting_proxies(resolved.spec, flow, self.hops["up"])
        self.concurrent_share = 1.0
        """Share of the requested data that is transferred concurrently."""
        self.unlimited: set[str] = set()
        """Directions whose source always has data."""
        self.requested = self._amounts()
        self.bytes = {
            direction: min(amount, self.max_bytes(direction)) for direction, amount in self.requested.items()
        }

    def bottleneck(self, direction: str) -> Hop | None:
        """Return the link with the lowest rate; None if no link has a rate."""
        rated = [hop for hop in self.hops[direction] if hop.rate is not None]
        return min(rated, key=lambda hop: hop.rate.bit_s if hop.rate is not None else 0, default=None)

    def bytes_per_s(self, direction: str) -> float:
        """Return the largest throughput of the flow alone: bottleneck, constant rate, or one window per round trip."""
        bottleneck_hop = self.bottleneck(direction)
        if bottleneck_hop is not None and bottleneck_hop.rate is not None:
            return float(max(bottleneck_hop.rate.bit_s, self.constant_bit_s[direction]) / 8)
        return float(self.constant_bit_s[direction] / 8 or self.window[direction] / max(self.rtt_s, 1e-9))

    def max_bytes(self, direction: str) -> float:
        """Return the bytes that the flow can send before the end of the run."""
        return float(self.bytes_per_s(direction) * self.remaining_s)

    def _amounts(self) -> dict[str, float]:
        """Return the bytes that the load requests in each direction."""
        load = self.load
        if load["kind"] == "perf":
            return self._perf(load["streams"])
        if load["kind"] == "page":
            return self._page(load)
        if load["kind"] == "bundles":
            return {
                direction: sum(
                    part.bytes(self.bytes_per_s(direction))
                    for part in self.bundles
                    if part.direction == direction
                )
                for direction in ("up", "down")
            }
        active_s = min(load["duration_ns"] / 1e9, self.remaining_s)
        if load["kind"] == "datagrams":
            return {direction: self._datagrams(load[direction], active_s) for direction in ("up", "down")}
        amounts = {"up": 0.0, "down": 0.0}
        if load["kind"] == "poisson":
            self.connections = 1 + active_s * 1e9 / load["mean_interarrival_ns"]
            self.key += ".load.poisson.every"
            self.reason = f"{self.connections:,.0f} connections"
            amounts[load["direction"]] = self.connections * _mean_bytes(load["size"])
            return amounts
        period_ns = load["on_ns"] + load["off_ns"]
        self.source_events = 2 * active_s * 1e9 / period_ns
        self.key += ".load.on_off"
        if load["rate_bit_s"] is None:
            amounts[load["direction"]] = self.max_bytes(load["direction"])
            self.unlimited.add(load["direction"])
        else:
            self.source_events += active_s * 1e9 / TICK_NS
            self.active_s = active_s * load["on_ns"] / period_ns
            amounts[load["direction"]] = load["rate_bit_s"] / 8 * self.active_s
        self.reason = f"{self.source_events:,.0f} switches and the data of the source"
        return amounts

    def _datagrams(self, source: SourceSpec | None, active_s: float) -> float:
        """Return the bytes of a source of datagrams; every datagram is a packet."""
        if source is None:
            return 0.0
        self.payload = source["payload_bytes"]
        self.datagrams_s += active_s
        self.active_s = active_s
        count, periods = active_s * 1e9 / source["interval_ns"], source["periods"]
        self.source_events += count
        if periods is not None:
            period_ns = periods["on_ns"] + periods["off_ns"]
            switches = 2 * active_s * 1e9 / period_ns
            count *= periods["on_ns"] / period_ns
            self.source_events += switches - active_s * 1e9 / source["interval_ns"] + count
        self.key = f"flow.{self.group}.load"
        self.reason = f"{self.source_events:,.0f} datagrams and switches"
        return count * source["payload_bytes"]

    def _perf(self, streams: Sequence[StreamSpec]) -> dict[str, float]:
        amounts = {"up": 0.0, "down": 0.0}
        for stream in streams:
            amount = stream["amount"]
            if amount["mode"] == "time":
                direction = amount["direction"]
                amounts[direction] += self.bytes_per_s(direction) * amount["duration_ns"] / 1e9
                self.unlimited.add(direction)
            else:
                amounts["up"] += amount["up_bytes"]
                amounts["down"] += amount["down_bytes"]
        self.streams = len(streams)
        if self.protocol == "tcp":
            self.connections = len(streams)
        return amounts

    def _page(self, load: PageLoadSpec) -> dict[str, float]:
        objects = load["page"]["objects"]
        amounts = {
            "up": float(sum(item["request_bytes"] for item in objects)),
            "down": float(sum(item["response_header_bytes"] + item["body_bytes"] for item in objects)),
        }
        load_s = max(self.rtt_s, amounts["down"] / self.bytes_per_s("down"), 1e-6)
        loads = min(load["loads"], self.remaining_s / load_s + 1)
        self.concurrent_share = 1 / loads
        self.key += ".load.loads"
        self.requests = loads * len(objects)
        self.connections = loads * max(len(load["page"]["hosts"]), 1)
        self.reason = f"{loads:,.0f} loads of {len(objects):,} objects"
        return {direction: amount * loads for direction, amount in amounts.items()}

    def proxy_buffers(self) -> CostItem | None:
        """Return the cost of data in the proxies before the bottleneck, of all equal flows; None without data."""
        buffered = 0.0
        for direction, hops in self.hops.items():
            bottleneck_hop = self.bottleneck(direction)
            links_before = hops.index(bottleneck_hop) if bottleneck_hop is not None else 0
            buffers = {
                position: capacity[direction]
                for place, capacity in self.proxies
                if (position := place if direction == "up" else len(hops) - place) <= links_before
            }
            if buffers:
                rates = [hop.rate.bit_s / 8 for hop in hops[: max(buffers)] if hop.rate is not None]
                share = 1.0 if direction in self.unlimited else self.concurrent_share
                arriving = math.inf if direction in self.unlimited else self.requested[direction] * share
                if rates:
                    arriving = min(arriving, min(rates) * self.remaining_s)
                    arriving *= 1 - self.bytes_per_s(direction) / min(rates)
                capacity_bytes = sum(buffers.values()) * max(self.connections * share, 1)
                buffered += self.count * max(min(arriving, capacity_bytes), 0.0)
        if not buffered:
            return None
        per_byte = BYTES_SPLIT.get(self.load["kind"], BYTES_SPLIT["perf"])
        events = buffered / self.payload * EVENTS_WIRE
        reason = "data in proxies before the bottleneck"
        return CostItem(
            f"flow.{self.group}", reason, events, buffered * per_byte, events / EVENTS_CPU_S["tcp"]
        )

    def parts(self, trace: TraceSpec) -> Iterator[CostItem]:
        """Yield the costs of one flow."""
        packets = sum(self.bytes.values()) / self.payload * (1 + self.acks_per_packet)
        packets += self.connections * PACKETS_CONNECTION + self.requests * PACKETS_REQUEST
        crossed = sum(EVENTS_LINE if hop.rate is not None else EVENTS_WIRE for hop in self.hops["up"])
        events = packets * (EVENTS_END + crossed) + self.source_events
        memory = (
            self.connections * BYTES_CONNECTION[self.protocol] + self.streams * BYTES_STREAM[self.protocol]
        )
        memory += BYTES_FLOW[self.protocol] + self.datagrams_s * BYTES_CALL_S
        cpu_s = events / EVENTS_CPU_S[self.protocol] + CPU_FLOW_S[self.protocol]
        cpu_s += self.connections * CPU_CONNECTION_S[self.protocol]
        for direction, detection in self.loss_detection.items():
            sending_s = (
                self.active_s or self.requested[direction] / self.bytes_per_s(direction)
            ) / self.connections
            packets_each = self.bytes[direction] / self.payload / self.connections
            cpu_s += self.connections * detection.cpu_s(
                packets_each, min(sending_s, self.remaining_s), self.remaining_s, self.rtt_s
            )
        yield CostItem(self.key, self.reason, events, memory, cpu_s)
        for kind, size in BYTES_TRACED.items():
            if trace.get(kind):
                text = f"{packets:,.0f} packets of {self.name}"
                yield CostItem(f"trace.{kind}", text, memory_bytes=packets * size)
        if trace.get("packet_steps"):
            packet_links = packets * len(self.hops["up"])
            text = f"{packet_links:,.0f} packets of {self.name} on links"
            yield CostItem("trace.stages", text, memory_bytes=packet_links * BYTES_STEPS)


def _splitting_proxies(spec: RunSpec, flow: FlowSpec, up: Sequence[Hop]) -> list[tuple[int, dict[str, int]]]:
    """Return the proxies that split a flow: links before each from the client, and its capacity by direction.

    The capacity is in bytes of a connection, in the buffer of the proxy and in those of its sockets.
    """
    load = flow["load"]
    over_tcp = needs_tcp(load) if load["kind"] == "page" else flow["transport"]["kind"] == "tcp"
    if not over_tcp:
        return []
    proxies, place = [], 0
    for connection in split_connections(spec, up, up[::-1]):
        place += connection.links
        if (proxy := connection.server_side) is not None:
            client_side, server_side = proxy["client_side"]["tcp"], proxy["server_side"]["tcp"]
            sockets = {"up": (client_side, server_side), "down": (server_side, client_side)}
            proxies.append(
                (
                    place,
                    {
                        direction: proxy["buffer_bytes"]
                        + receiver["receive_buffer_bytes"]
                        + sender["send_buffer_bytes"]
                        for direction, (receiver, sender) in sockets.items()
                    },
                )
            )
    return proxies


def _constant_bit_s(congestion: CongestionSpec) -> float:
    """Return the rate of a sender without congestion control in bit/s; 0 for others."""
    options = congestion.get("options") if congestion["name"] in ("fixed", "open-loop") else None
    rate = options.get("rate_bit_s") if isinstance(options, dict) else None
    return float(rate or 0)


def _mean_bytes(size: SizeSpec) -> float:
    """Return the mean of a distribution of sizes in bytes."""
    if size["kind"] == "fixed":
        return float(size["bytes"])
    if size["kind"] == "exponential":
        return float(size["mean_bytes"])
    minimum, maximum, shape = float(size["min_bytes"]), float(size["max_bytes"]), float(size["shape"])
    return min(maximum, minimum * shape / (shape - 1)) if shape > 1 else maximum
