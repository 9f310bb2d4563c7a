"""What a run will cost in events and memory, before it runs: what nobody can wait for, or hold, is refused.

The figures are the engine's own, measured, and right within a factor of two for the loads that the tests of this module
run; a bound of a thousand million does not turn on that. What a congestion controller leaves unused counts as used.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.analysis.slow_start import split_connections
from bentpipe.plan.cost.loss_detection import Overtaking
from bentpipe.plan.dtn.bundle_paths import bundle_shares
from bentpipe.plan.flow.datagrams import datagram_max_bytes, offered_bit_s
from bentpipe.plan.flow.groups import count_series, flow_groups
from bentpipe.plan.spec.queries import needs_tcp, rate_bit_s
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.dtn.bundle_paths import BundleShare
    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.plan import Plan, Run
    from bentpipe.plan.resolve import Resolved
    from bentpipe.plan.spec.run_spec import (
        CongestionSpec,
        FlowSpec,
        PageLoadSpec,
        RunSpec,
        SizeSpec,
        SourceSpec,
        StreamSpec,
        TopologySpec,
        TraceSpec,
    )
    from bentpipe.scenario.model import Limits

__all__ = ["CostEstimate", "CostItem", "check_limits", "estimate_cost", "estimate_seconds", "run_weight"]

ACKS = 0.5
"""Packets that acknowledge, for each that carries data (RFC 9000 section 13.2.2, RFC 9293 section 3.8.6.3)."""

EVENTS_END, EVENTS_LINE, EVENTS_WIRE = 1.0, 1.25, 0.5
"""Events of a packet at its ends, at each link it crosses, and at each without a rate, where many go at one instant."""

PACKETS_CONNECTION = 8
"""Packets of a connection that carries next to nothing: handshake, request, answer, end."""

PACKETS_REQUEST = 3

EVENTS_CPU_S = {"quic": 1.4e6, "tcp": 3.5e6, "udp": 3.5e6}
"""Events of a second of one processor: `python -m benchmarks simulator`, in packets of 2.25 events."""

CPU_FLOW_S = {"quic": 1.3e-3, "tcp": 0.2e-3, "udp": 0.1e-3}
CPU_CONNECTION_S = {"quic": 0.1e-3, "tcp": 8e-6, "udp": 0.0}
"""What it takes beside that to build a flow's two ends, to connect them and to tell of them; and for each connection
(the last two cases of `python -m benchmarks simulator`)."""

START_S = 1.2
KEEP_S = 0.045
"""Of a plan: until workers run, and for each run that the one coordinator keeps, beside the workers."""

BYTES_RUN = 30e6
BYTES_CONNECTION = {"quic": 6e3, "tcp": 4e3, "udp": 1e3}
BYTES_FLOW = {"quic": 150e3, "tcp": 0.0, "udp": 40e3}
BYTES_STREAM = {"quic": 8e3, "tcp": 35e3, "udp": 0.0}
BYTES_ROW = 0.65e3
"""Memory of a run, of each connection it ever has, of both ends of a flow, of each stream it has at once, of each row
of its series (with their files, while these are made)."""

BYTES_TRACED = {"qlog": 1.7e3, "pcapng": 1.3e3, "packets": 0.4e3}
BYTES_STEPS = 0.7e3
"""Memory of a packet in each kind of trace; of its steps over a link (``trace.stages``)."""

BYTES_ROUTE, BYTES_QUEUE = 4, 30e3
"""Memory of an entry of a table of routes, and of a queue that packets pass: the histogram of how long they wait."""

BYTES_HELD = 1.25
"""Memory of a byte that is on its way or waits in a queue."""

BYTES_SPLIT = {"page": 2.8, "perf": 0.2}
"""Memory of a byte that waits in a proxy: of TLS, whose records are kept; of others, whose bytes are zeros."""

BYTES_CALL_S = 500
"""Memory of a second of a source of datagrams: the delays of each 10 s, in some 40 bins of a jittery path."""

TICK_NS = 10_000_000
"""Interval at which an on-off source with a rate of its own hands data over."""


@dataclass(frozen=True, slots=True)
class CostItem:
    """What something in a scenario costs a run."""

    key: str
    why: str
    events: float = 0.0
    memory_bytes: float = 0.0
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a run costs."""

    parts: tuple[CostItem, ...]

    @property
    def events(self) -> float:
        """Wake-ups of links and ends."""
        return sum(part.events for part in self.parts)

    @property
    def cpu_s(self) -> float:
        """Processor time of the engine, seconds."""
        return sum(part.cpu_s for part in self.parts)

    @property
    def memory_bytes(self) -> float:
        """Of one process that makes the run, at its most."""
        return sum(part.memory_bytes for part in self.parts)


def estimate_seconds(plan: Plan, jobs: int) -> float:
    """Wall time of a whole plan with ``jobs`` workers on a machine like that of the benchmark."""
    engine_s = sum(len(cell.seeds) * estimate_cost(cell.resolved).cpu_s for cell in plan.cells)
    return START_S + max(engine_s / min(jobs, len(plan.runs)), KEEP_S * len(plan.runs))


def run_weight(run: Run) -> float:
    """Of a run, in the estimate of the time that is left: link time times megabits per second."""
    stages = (stage for link in run.spec["graph"]["links"] for side in ("up", "down") for stage in link[side])
    rates = [rate for stage in stages if (rate := rate_bit_s(stage)) is not None]
    return float(run.spec["duration_ns"]) / 1e9 * max(min(rates, default=10_000_000) / 1e6, 0.1)


def check_limits(resolved: Resolved, limits: Limits) -> None:
    """Raises ScenarioError for a run that costs more than ``limits``, by the key that costs most."""
    spec = resolved.spec
    ways: set[tuple[int, int]] = set()
    for flow in spec["flows"]:
        name = flow["name"]
        up, down = resolved.up[name], resolved.down[name]
        if (id(up), id(down)) in ways:
            continue
        ways.add((id(up), id(down)))
        if not any(hop.rate is not None or hop.delay_ns for hop in (*up, *down)):
            text = "nothing on its way has a rate or a delay, so that no time passes; expected either on a segment"
            raise ScenarioError([(f"flow.{name}", text)])
    found = estimate_cost(resolved)
    if found.events > limits.events:
        part = max(found.parts, key=lambda part: part.events)
        shown = f"about {found.events:,.0f} events"
        raise ScenarioError([(part.key, _too_much(part, shown, f"{limits.events:_}", "events"))])
    if found.memory_bytes > limits.memory.bytes:
        part = max(found.parts, key=lambda part: part.memory_bytes)
        shown = f"about {found.memory_bytes / 1e9:,.1f} GB of memory"
        raise ScenarioError([(part.key, _too_much(part, shown, str(limits.memory), "memory"))])


def _too_much(part: CostItem, shown: str, most: str, name: str) -> str:
    return f"{part.why}: a run takes {shown}, expected at most limits.{name} = {most}"


def estimate_cost(resolved: Resolved) -> CostEstimate:
    """What a run of this kind costs."""
    spec = resolved.spec
    seconds = spec["duration_ns"] / 1e9
    groups = flow_groups(spec)
    flows = _alike(resolved, groups, seconds)
    _share(flows, seconds)
    queues = {hop.name for flow in flows for way in flow.hops.values() for hop in way if hop.rate is not None}
    path = _routes(spec["graph"]) * BYTES_ROUTE + len(queues) * BYTES_QUEUE
    parts = [CostItem("duration", "a run", memory_bytes=BYTES_RUN + path)]
    alike: dict[str, list[list[CostItem]]] = defaultdict(list)
    for flow in flows:
        alike[flow.called] += [list(flow.parts(spec["trace"]))] * flow.count
    parts += [_added(same) for members in alike.values() for same in zip(*members, strict=True)]
    samples = spec["duration_ns"] / spec["sample_ns"]
    of_flows, of_links = count_series(spec)
    rows = 2 * of_flows * (1 + len(spec.get("proxies", ()))) + 2 * of_links
    why = f"{samples:,.0f} samples of {rows} rows each"
    parts.append(CostItem("sample", why, samples, samples * rows * BYTES_ROW))
    parts += [
        CostItem(f"flow.{called}", "what is on its way and in queues", memory_bytes=held * BYTES_HELD)
        for called, held in _held(flows)
    ]
    parts += [part for flow in flows if (part := flow.ahead()) is not None]
    return CostEstimate(tuple(parts))


def _alike(resolved: Resolved, groups: Mapping[str, str], seconds: float) -> list[_Flow]:
    """What flows send, in order; those of a group that cross the same links are looked at once."""
    found: list[_Flow] = []
    last: dict[str, _Flow] = {}
    crossing = bundle_shares(resolved.spec)
    for flow in resolved.spec["flows"]:
        name = flow["name"]
        called = groups.get(name, name)
        same = last.get(called)
        if same is not None and same.hops == {"up": resolved.up[name], "down": resolved.down[name]}:
            same.count += 1
        else:
            last[called] = _Flow(flow, called, resolved, seconds, crossing.get(name, ()))
            found.append(last[called])
    return found


def _added(parts: Sequence[CostItem]) -> CostItem:
    """The same part of all flows of a group."""
    first = parts[0]
    return CostItem(
        first.key,
        first.why if len(parts) == 1 else f"{first.why}, of each of {len(parts)} flows",
        sum(part.events for part in parts),
        sum(part.memory_bytes for part in parts),
        sum(part.cpu_s for part in parts),
    )


def _routes(graph: TopologySpec) -> int:
    """Entries of the engine's tables of routes: of each node to each that packets are sent to, in every version."""
    ends = sum(node["kind"] != "router" for node in graph["nodes"])
    return ends * len(graph["nodes"]) * (1 + len(graph.get("changes", ())))


class _Flow:
    """What a flow sends, both ways; and how many there are that send the same."""

    def __init__(
        self,
        flow: FlowSpec,
        called: str,
        resolved: Resolved,
        seconds: float,
        bundles: Sequence[BundleShare] = (),
    ) -> None:
        self.name = flow["name"]
        self.count = 1
        self.called = called
        self.key = f"flow.{called}"
        self.load = flow["load"]
        self.hops = {"up": resolved.up[self.name], "down": resolved.down[self.name]}
        self.rest_s = max(seconds - flow["start_ns"] / 1e9, 0.0)
        self.rtt_s = sum(hop.delay_ns for hops in self.hops.values() for hop in hops) / 1e9
        transport = flow["transport"]
        self.over = "quic" if transport["kind"] == "web" else transport["kind"]
        self.acks = ACKS
        self.overtaking: dict[str, Overtaking] = {}
        if transport["kind"] == "tcp":
            ends = (transport["client"], transport["server"])
            self.window = {"up": ends[1]["receive_buffer_bytes"], "down": ends[0]["receive_buffer_bytes"]}
            self.payload = min(end["mss_bytes"] for end in ends)
        elif transport["kind"] == "udp":
            # Nothing holds it back.
            self.window = dict.fromkeys(("up", "down"), 2**62)
            self.payload, self.acks = datagram_max_bytes(transport, self.load), 0.0
        else:
            quic = transport["quic"] if transport["kind"] == "web" else transport
            self.window = dict.fromkeys(("up", "down"), quic["receive_window_bytes"])
            self.payload = quic["mtu_bytes"]
            if self.load["kind"] != "page" or self.load["http"] in ("3", "alt-svc"):
                self.overtaking = {way: Overtaking.on(hops, quic) for way, hops in self.hops.items()}
        congestion = {"up": flow["client_congestion"], "down": flow["server_congestion"]}
        self.constant = {way: _constant_bit_s(one) for way, one in congestion.items()}
        if self.over == "udp":
            self.constant = {"up": offered_bit_s(self.load, "up"), "down": offered_bit_s(self.load, "down")}
        self.connections, self.streams, self.requests, self.ticks = 1.0, 1.0, 0.0, 0.0
        self.counted_s = 0.0
        self.active_s: float | None = None
        """In which it sends, where that is not as fast as it can."""
        self.bundles = bundles
        self.why = "what it sends"
        self.splits = _splits(resolved.spec, flow, self.hops["up"])
        self.at_once = 1.0
        """Of what it asks for: the share that is under way together."""
        self.endless: set[str] = set()
        """Ways whose source goes on as long as there is room."""
        self.asked = self._amounts()
        self.bytes = {way: min(amount, self.most(way)) for way, amount in self.asked.items()}

    def narrowest(self, way: str) -> Hop | None:
        """The narrowest link of a way; None where none has a rate."""
        rated = [hop for hop in self.hops[way] if hop.rate is not None]
        return min(rated, key=lambda hop: hop.rate.bit_s if hop.rate is not None else 0, default=None)

    def bytes_per_s(self, way: str) -> float:
        """The most that a flow alone can send: its narrowest link, its own rate, or its window in every round trip."""
        narrow = self.narrowest(way)
        if narrow is not None and narrow.rate is not None:
            return float(max(narrow.rate.bit_s, self.constant[way]) / 8)
        return float(self.constant[way] / 8 or self.window[way] / max(self.rtt_s, 1e-9))

    def most(self, way: str) -> float:
        """Bytes that it can send before the run ends."""
        return float(self.bytes_per_s(way) * self.rest_s)

    def _amounts(self) -> dict[str, float]:
        load = self.load
        if load["kind"] == "perf":
            return self._perf(load["streams"])
        if load["kind"] == "page":
            return self._page(load)
        if load["kind"] == "bundles":
            return {
                way: sum(one.bytes(self.bytes_per_s(way)) for one in self.bundles if one.direction == way)
                for way in ("up", "down")
            }
        active_s = min(load["duration_ns"] / 1e9, self.rest_s)
        if load["kind"] == "datagrams":
            return {way: self._datagrams(load[way], active_s) for way in ("up", "down")}
        amounts = {"up": 0.0, "down": 0.0}
        if load["kind"] == "poisson":
            self.connections = 1 + active_s * 1e9 / load["mean_interarrival_ns"]
            self.key += ".load.poisson.every"
            self.why = f"{self.connections:,.0f} connections"
            amounts[load["send"]] = self.connections * _mean_bytes(load["size"])
            return amounts
        period_ns = load["on_ns"] + load["off_ns"]
        self.ticks = 2 * active_s * 1e9 / period_ns
        self.key += ".load.on_off"
        if load["rate_bit_s"] is None:
            amounts[load["send"]] = self.most(load["send"])
            self.endless.add(load["send"])
        else:
            self.ticks += active_s * 1e9 / TICK_NS
            self.active_s = active_s * load["on_ns"] / period_ns
            amounts[load["send"]] = load["rate_bit_s"] / 8 * self.active_s
        self.why = f"{self.ticks:,.0f} switches and what it sends"
        return amounts

    def _datagrams(self, source: SourceSpec | None, active_s: float) -> float:
        """Bytes that a source gives; every datagram is a packet."""
        if source is None:
            return 0.0
        self.payload = source["payload_bytes"]
        self.counted_s += active_s
        self.active_s = active_s
        count, periods = active_s * 1e9 / source["interval_ns"], source["periods"]
        self.ticks += count
        if periods is not None:
            whole_ns = periods["on_ns"] + periods["off_ns"]
            switches = 2 * active_s * 1e9 / whole_ns
            count *= periods["on_ns"] / whole_ns
            self.ticks += switches - active_s * 1e9 / source["interval_ns"] + count
        self.key = f"flow.{self.called}.load"
        self.why = f"{self.ticks:,.0f} datagrams and switches"
        return count * source["payload_bytes"]

    def _perf(self, streams: Sequence[StreamSpec]) -> dict[str, float]:
        amounts = {"up": 0.0, "down": 0.0}
        for stream in streams:
            amount = stream["amount"]
            if amount["mode"] == "time":
                way = amount["send"]
                amounts[way] += self.bytes_per_s(way) * amount["duration_ns"] / 1e9
                self.endless.add(way)
            else:
                amounts["up"] += amount["up_bytes"]
                amounts["down"] += amount["down_bytes"]
        self.streams = len(streams)
        if self.over == "tcp":
            self.connections = len(streams)
        return amounts

    def _page(self, load: PageLoadSpec) -> dict[str, float]:
        objects = load["page"]["objects"]
        amounts = {
            "up": float(sum(one["request_bytes"] for one in objects)),
            "down": float(sum(one["response_header_bytes"] + one["body_bytes"] for one in objects)),
        }
        least_s = max(self.rtt_s, amounts["down"] / self.bytes_per_s("down"), 1e-6)
        loads = min(load["loads"], self.rest_s / least_s + 1)
        self.at_once = 1 / loads
        self.key += ".load.loads"
        self.requests = loads * len(objects)
        self.connections = loads * max(len(load["page"]["hosts"]), 1)
        self.why = f"{loads:,.0f} loads of {len(objects):,} objects"
        return {way: amount * loads for way, amount in amounts.items()}

    def ahead(self) -> CostItem | None:
        """What runs ahead of the narrowest link and waits in the proxies before it, of all flows that are alike."""
        waits = 0.0
        for way, hops in self.hops.items():
            narrow = self.narrowest(way)
            before = hops.index(narrow) if narrow is not None else 0
            rooms = {
                at: room[way]
                for place, room in self.splits
                if (at := place if way == "up" else len(hops) - place) <= before
            }
            if rooms:
                rates = [hop.rate.bit_s / 8 for hop in hops[: max(rooms)] if hop.rate is not None]
                share = 1.0 if way in self.endless else self.at_once
                comes = math.inf if way in self.endless else self.asked[way] * share
                if rates:
                    comes = min(comes, min(rates) * self.rest_s) * (1 - self.bytes_per_s(way) / min(rates))
                room = sum(rooms.values()) * max(self.connections * share, 1)
                waits += self.count * max(min(comes, room), 0.0)
        if not waits:
            return None
        per_byte = BYTES_SPLIT.get(self.load["kind"], BYTES_SPLIT["perf"])
        events = waits / self.payload * EVENTS_WIRE
        why = "what waits in proxies before its narrowest link"
        return CostItem(f"flow.{self.called}", why, events, waits * per_byte, events / EVENTS_CPU_S["tcp"])

    def parts(self, trace: TraceSpec) -> Iterator[CostItem]:
        """What it costs."""
        packets = sum(self.bytes.values()) / self.payload * (1 + self.acks)
        packets += self.connections * PACKETS_CONNECTION + self.requests * PACKETS_REQUEST
        crossed = sum(EVENTS_LINE if hop.rate is not None else EVENTS_WIRE for hop in self.hops["up"])
        events = packets * (EVENTS_END + crossed) + self.ticks
        memory = self.connections * BYTES_CONNECTION[self.over] + self.streams * BYTES_STREAM[self.over]
        memory += BYTES_FLOW[self.over] + self.counted_s * BYTES_CALL_S
        cpu_s = events / EVENTS_CPU_S[self.over] + CPU_FLOW_S[self.over]
        cpu_s += self.connections * CPU_CONNECTION_S[self.over]
        for way, overtaking in self.overtaking.items():
            each_s = (self.active_s or self.asked[way] / self.bytes_per_s(way)) / self.connections
            each = self.bytes[way] / self.payload / self.connections
            cpu_s += self.connections * overtaking.cpu_s(
                each, min(each_s, self.rest_s), self.rest_s, self.rtt_s
            )
        yield CostItem(self.key, self.why, events, memory, cpu_s)
        for kind, size in BYTES_TRACED.items():
            if trace.get(kind):
                text = f"{packets:,.0f} packets of {self.name}"
                yield CostItem(f"trace.{kind}", text, memory_bytes=packets * size)
        if trace.get("stages"):
            crossings = packets * len(self.hops["up"])
            text = f"{crossings:,.0f} packets of {self.name} on links"
            yield CostItem("trace.stages", text, memory_bytes=crossings * BYTES_STEPS)


def _splits(spec: RunSpec, flow: FlowSpec, up: Sequence[Hop]) -> list[tuple[int, dict[str, int]]]:
    """Proxies that split a flow: links before each, seen from the client; by way, bytes that it holds of a connection,
    in its buffer and in those of its sockets."""
    load = flow["load"]
    over_tcp = needs_tcp(load) if load["kind"] == "page" else flow["transport"]["kind"] == "tcp"
    if not over_tcp:
        return []
    found, place = [], 0
    for leg in split_connections(spec, up, up[::-1]):
        place += leg.links
        if (proxy := leg.server_side) is not None:
            near, far = proxy["client_side"]["tcp"], proxy["server_side"]["tcp"]
            rooms = {"up": (near, far), "down": (far, near)}
            found.append(
                (
                    place,
                    {
                        way: proxy["buffer_bytes"] + hears["receive_buffer_bytes"] + says["send_buffer_bytes"]
                        for way, (hears, says) in rooms.items()
                    },
                )
            )
    return found


def _share(flows: Sequence[_Flow], seconds: float) -> None:
    """What flows send together is no more than each link carries; what is constant goes on beside it."""
    for way in ("up", "down"):
        crossing: dict[str, list[_Flow]] = defaultdict(list)
        room: dict[str, float] = {}
        for flow in flows:
            for hop in flow.hops[way]:
                if hop.rate is not None and not flow.constant[way]:
                    crossing[hop.name].append(flow)
                    room[hop.name] = hop.rate.bit_s / 8 * seconds
        for name in sorted(room, key=room.__getitem__):
            together = sum(flow.bytes[way] for flow in crossing[name] for _ in range(flow.count))
            for flow in crossing[name] if together > room[name] else ():
                flow.bytes[way] *= room[name] / together


def _held(flows: Sequence[_Flow]) -> Iterator[tuple[str, float]]:
    """Bytes on their way and in queues, by narrowest link; each with a flow that crosses it."""
    for way in ("up", "down"):
        groups: dict[str, list[_Flow]] = defaultdict(list)
        for flow in flows:
            narrow = flow.narrowest(way)
            groups[narrow.name if narrow is not None else f"{flow.name} alone"].append(flow)
        for group in groups.values():
            held = sum(
                min(flow.window[way] * flow.connections, flow.bytes[way]) * flow.count for flow in group
            )
            narrow = group[0].narrowest(way)
            if narrow is not None and narrow.rate is not None and narrow.queue_bytes is not None:
                pipe = narrow.rate.bit_s / 8 * max(flow.rtt_s for flow in group)
                held = min(held, pipe + narrow.queue_bytes)
            yield group[0].called, held


def _constant_bit_s(congestion: CongestionSpec) -> float:
    """The rate of a source without congestion control; 0 for others."""
    options = congestion.get("options") if congestion["name"] in ("fixed", "open-loop") else None
    rate = options.get("rate_bit_s") if isinstance(options, dict) else None
    return float(rate or 0)


def _mean_bytes(size: SizeSpec) -> float:
    if size["kind"] == "fixed":
        return float(size["bytes"])
    if size["kind"] == "exponential":
        return float(size["mean_bytes"])
    least, most, shape = float(size["least_bytes"]), float(size["most_bytes"]), float(size["shape"])
    return min(most, least * shape / (shape - 1)) if shape > 1 else most
