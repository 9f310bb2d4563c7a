"""Cost estimate of a run before it starts: events, memory and time. It informs only; the engine enforces the limits.

The estimate assumes that flows use the whole capacity of their links. It omits packets in queues, buffers of proxies,
retransmissions, and the work of a sender for reordered packets.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.flow.datagrams import datagram_max_bytes
from bentpipe.plan.flow.groups import count_series
from bentpipe.plan.spec.queries import rate_bit_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.plan import Plan, Run
    from bentpipe.plan.resolve import Resolved
    from bentpipe.plan.spec.run_spec import CongestionSpec, DtnSpec, FlowSpec, SizeSpec

__all__ = ["CostEstimate", "PlanEstimate", "estimate_cost", "estimate_plan", "run_weight"]

START_S = 1.2
"""Wall time in seconds until the workers run."""

KEEP_S = 0.045
"""Wall time in seconds of the coordinator per run."""

EVENTS_PER_S = 2e6
"""Events per second of one processor (`python -m benchmarks simulator`)."""

PACKETS_CONNECTION, PACKETS_REQUEST = 8, 3
"""Packets without data: handshake and close of a connection, and those of a request."""

BYTES_RUN, BYTES_CONNECTION, BYTES_ROW, BYTES_TRACED = 30e6, 5e3, 650.0, 1e3
"""Memory of a run, of a connection, of a row of the time series, and of a packet in a trace."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Cost estimate of a run."""

    events: float
    """Events of links and ends."""
    memory_bytes: float
    """Peak memory of the process."""


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """Cost estimate of a plan."""

    seconds: float
    """Wall time in seconds."""
    run_events: float
    """Events of the run with the most."""
    run_memory_bytes: float
    """Peak memory of the run with the most."""


def estimate_plan(plan: Plan, jobs: int) -> PlanEstimate:
    """Return the cost estimate of a plan, with ``jobs`` workers on a host like that of the benchmark."""
    costs = [estimate_cost(cell.resolved) for cell in plan.cells]
    events = sum(len(cell.seeds) * cost.events for cell, cost in zip(plan.cells, costs, strict=True))
    runs = len(plan.runs)
    return PlanEstimate(
        START_S + max(events / EVENTS_PER_S / min(jobs, runs), KEEP_S * runs),
        max(cost.events for cost in costs),
        max(cost.memory_bytes for cost in costs),
    )


def run_weight(run: Run) -> float:
    """Return the weight of a run for the estimate of the remaining time: link time times Mbit/s."""
    stages = (stage for link in run.spec["graph"]["links"] for side in ("up", "down") for stage in link[side])
    rates = [rate for stage in stages if (rate := rate_bit_s(stage)) is not None]
    return float(run.spec["duration_ns"]) / 1e9 * max(min(rates, default=10_000_000) / 1e6, 0.1)


def estimate_cost(resolved: Resolved) -> CostEstimate:
    """Return the cost estimate of a run."""
    spec = resolved.spec
    duration_s = spec["duration_ns"] / 1e9
    loads = [_Load(flow, resolved, duration_s) for flow in spec["flows"]]
    _share_links(loads, duration_s)
    packets = sum(load.packets for load in loads)
    packet_links = sum(load.packets * load.links for load in loads)
    samples = spec["duration_ns"] / spec["sample_interval_ns"]
    flow_series, link_series = count_series(spec)
    rows = samples * 2 * (flow_series * (1 + len(spec.get("proxies", ()))) + link_series)
    trace = spec["trace"]
    traced = packets * sum(bool(trace.get(kind)) for kind in ("qlog", "pcapng", "packets"))
    traced += packet_links * bool(trace.get("packet_steps"))
    return CostEstimate(
        packets + packet_links + samples + sum(load.source_events for load in loads),
        BYTES_RUN
        + BYTES_CONNECTION * sum(load.connections for load in loads)
        + BYTES_ROW * rows
        + BYTES_TRACED * traced,
    )


class _Load:
    """Load of a flow: its bytes in each direction, its connections and requests."""

    def __init__(self, flow: FlowSpec, resolved: Resolved, duration_s: float) -> None:
        name, self.load, transport = flow["name"], flow["load"], flow["transport"]
        self.hops: Mapping[str, Sequence[Hop]] = {"up": resolved.up[name], "down": resolved.down[name]}
        self.links = len(self.hops["up"])
        self.remaining_s = max(duration_s - flow["start_ns"] / 1e9, 0.0)
        self.connections, self.requests, self.source_events, self.acks = 1.0, 0.0, 0.0, 0.5
        if transport["kind"] == "tcp":
            ends = (transport["client"], transport["server"])
            self.payload = min(end["mss_bytes"] for end in ends)
            windows = (ends[1]["receive_buffer_bytes"], ends[0]["receive_buffer_bytes"])
        elif transport["kind"] == "udp":
            self.payload, self.acks = datagram_max_bytes(transport, self.load), 0.0
            windows = (2**62, 2**62)
        else:
            quic = transport["quic"] if transport["kind"] == "web" else transport
            self.payload = quic["mtu_bytes"]
            windows = (quic["receive_window_bytes"],) * 2
        self.rtt_s = sum(hop.delay_ns for hops in self.hops.values() for hop in hops) / 1e9
        self.window = dict(zip(("up", "down"), windows, strict=True))
        congestion = (flow["client_congestion"], flow["server_congestion"])
        self.constant_bit_s = dict(zip(("up", "down"), map(_constant_bit_s, congestion), strict=True))
        self.bytes = self._bytes(resolved.spec.get("dtn"))
        if self.load["kind"] != "datagrams":
            for direction, amount in self.bytes.items():
                self.bytes[direction] = min(amount, self.rate(direction) * self.remaining_s)

    @property
    def packets(self) -> float:
        """Number of packets of the flow."""
        data = sum(self.bytes.values()) / self.payload * (1 + self.acks)
        return data + self.connections * PACKETS_CONNECTION + self.requests * PACKETS_REQUEST

    def rate(self, direction: str) -> float:
        """Return the capacity of the flow alone in bytes per second.

        Without a rate it is that of the sender, or one window per round trip.
        """
        if rates := [hop.rate.bit_s for hop in self.hops[direction] if hop.rate is not None]:
            return float(min(rates) / 8)
        return float(self.constant_bit_s[direction] / 8 or self.window[direction] / max(self.rtt_s, 1e-9))

    def _bytes(self, dtn: DtnSpec | None) -> dict[str, float]:
        """Return the bytes that the load requests in each direction."""
        load, amounts = self.load, {"up": 0.0, "down": 0.0}
        if load["kind"] == "bundles":
            return {direction: _bundle_bytes(dtn, self.rate(direction)) / 2 for direction in amounts}
        if load["kind"] == "perf":
            for stream in load["streams"]:
                amount = stream["amount"]
                if amount["mode"] == "time":
                    amounts[amount["direction"]] += (
                        self.rate(amount["direction"]) * amount["duration_ns"] / 1e9
                    )
                else:
                    amounts["up"] += amount["up_bytes"]
                    amounts["down"] += amount["down_bytes"]
            self.connections = len(load["streams"])
            return amounts
        if load["kind"] == "page":
            objects = load["page"]["objects"]
            up = float(sum(item["request_bytes"] for item in objects))
            down = float(sum(item["response_header_bytes"] + item["body_bytes"] for item in objects))
            load_s = max(self.rtt_s, down / self.rate("down"), 1e-6)
            loads = min(load["loads"], self.remaining_s / load_s + 1)
            self.requests = loads * len(objects)
            self.connections = loads * max(len(load["page"]["hosts"]), 1)
            return {"up": up * loads, "down": down * loads}
        active_s = min(load["duration_ns"] / 1e9, self.remaining_s)
        if load["kind"] == "datagrams":
            for direction, source in (("up", load["up"]), ("down", load["down"])):
                if source is not None:
                    count, periods = active_s * 1e9 / source["interval_ns"], source["periods"]
                    if periods is not None:
                        count *= periods["on_ns"] / (periods["on_ns"] + periods["off_ns"])
                    self.payload = source["payload_bytes"]
                    self.source_events += count
                    amounts[direction] = count * source["payload_bytes"]
        elif load["kind"] == "poisson":
            self.connections = 1 + active_s * 1e9 / load["mean_interarrival_ns"]
            amounts[load["direction"]] = self.connections * _mean_bytes(load["size"])
        else:
            period_ns = load["on_ns"] + load["off_ns"]
            self.source_events = 2 * active_s * 1e9 / period_ns
            rate = load["rate_bit_s"] / 8 if load["rate_bit_s"] is not None else self.rate(load["direction"])
            amounts[load["direction"]] = rate * active_s * load["on_ns"] / period_ns
        return amounts


def _share_links(loads: Sequence[_Load], duration_s: float) -> None:
    """Limit the bytes of flows to the capacity of each link; datagrams are not limited."""
    for direction in ("up", "down"):
        loads_of_link: dict[str, list[_Load]] = defaultdict(list)
        capacity: dict[str, float] = {}
        for load in loads:
            for hop in load.hops[direction]:
                if hop.rate is not None and load.load["kind"] != "datagrams":
                    loads_of_link[hop.name].append(load)
                    capacity[hop.name] = hop.rate.bit_s / 8 * duration_s
        for name in sorted(capacity, key=capacity.__getitem__):
            total = sum(load.bytes[direction] for load in loads_of_link[name])
            for load in loads_of_link[name] if total > capacity[name] else ():
                load.bytes[direction] *= capacity[name] / total


def _constant_bit_s(congestion: CongestionSpec) -> float:
    """Return the rate of a sender without congestion control in bit/s; 0 for others."""
    options = congestion.get("options") if congestion["name"] in ("fixed", "open-loop") else None
    rate = options.get("rate_bit_s") if isinstance(options, dict) else None
    return float(rate or 0)


def _bundle_bytes(dtn: DtnSpec | None, per_s: float) -> float:
    """Return the bytes of all clients; one with a window fills the capacity ``per_s``."""
    total = 0.0
    for client in dtn.get("perf", []) if dtn is not None else []:
        amount = client["amount"]
        pace = client["pace"]
        if amount["kind"] == "data":
            total += amount["bytes"]
        else:
            rate = pace["bit_s"] / 8 if pace["kind"] == "rate" else per_s
            total += rate * amount["duration_ns"] / 1e9
    return total


def _mean_bytes(size: SizeSpec) -> float:
    """Return the mean of a distribution of sizes in bytes."""
    if size["kind"] == "fixed":
        return float(size["bytes"])
    if size["kind"] == "exponential":
        return float(size["mean_bytes"])
    minimum, maximum, shape = float(size["min_bytes"]), float(size["max_bytes"]), float(size["shape"])
    return min(maximum, minimum * shape / (shape - 1)) if shape > 1 else maximum
