"""From a scenario to what the engine reads: every default filled in, every queue in packets or bytes.

The defaults that are not in the scenario, with their reasons:

==================  ===========================================================================================
queue               1 BDP (draft-kuhn-quic-4-sat-07, section 4); CoDel 1000 packets, FQ-CoDel 10240 (tc-codel(8),
                    tc-fq_codel(8)); netem 1000 packets (tc-netem(8))
start_jitter        up to 10 ms where several flows meet, which is more than one full packet takes at 1.2 Mbit/s:
                    without it drop-tail phase effects are the result (Floyd and Jacobson 1992, section 4);
                    0 for a flow alone, which has nothing to be in phase with, unless it is a group of one
mtu                 1452 B of UDP payload: 1500 B of Ethernet minus the larger (IPv6) headers, what path MTU
                    discovery of the common stacks ends at
initial_window      10 packets, no more than 14720 B (RFC 9002 section 7.2)
initial_rtt         333 ms (RFC 9002 section 6.2.2)
packet_threshold    3 (RFC 9002 section 6.1.1)
windows             4 (send) and 8 (receive) times BDP + queue of the narrowest link, at least 4 and 16 MiB, in
                    whole MiB: slow start overshoots to twice what the path holds, and what was sent before a
                    loss waits for it, so flow control never limits unless the scenario asks for it
idle_timeout        none: an outage shall be survived, or not, by the transport's own timers
==================  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bentpipe.plan.changes import SIDES, Line, changes, moved_of, unused_at_first, unused_later
from bentpipe.plan.graph import (
    Edge,
    Hop,
    access_of,
    base_rtts,
    key_of,
    layout,
    proxies_of,
    routes,
    stops,
    toward,
)
from bentpipe.plan.hops import crossed, crossings
from bentpipe.plan.proxies import proxy_words
from bentpipe.plan.stages import Files, base_delay_ns, first_rate, stages
from bentpipe.plan.transports import header_bytes, mss_bytes, tcp_words
from bentpipe.scenario import load as loads
from bentpipe.scenario import page_load
from bentpipe.scenario.problems import ScenarioError
from bentpipe.scenario.units import Duration, Rate

if TYPE_CHECKING:
    from bentpipe.scenario.model import Congestion, Flow, Load, Quic, Scenario
    from bentpipe.scenario.path import Node
    from bentpipe.scenario.proxy import Proxy
    from bentpipe.scenario.tcp import Tcp

__all__ = ["Resolved", "resolve"]

START_JITTER_NS = 10_000_000
MTU_BYTES = 1452
INITIAL_WINDOW_BYTES = 14_720
INITIAL_RTT_NS = 333_000_000
PACKET_THRESHOLD = 3
PAGE_BURST = 10
"""Packets that browsers and their servers send unpaced when nothing is in flight (Chromium's kInitialUnpacedBurst)."""
HEADER_BYTES = {4: 28, 6: 48}
MIB = 1 << 20
Hops = Sequence[tuple[Hop, ...]]
"""What packets cross there and back, by each way that a flow has."""
NARROW_UNKNOWN = 64 * MIB  # send and receive windows on a path without a rate


@dataclass(frozen=True, slots=True)
class Resolved:
    """A run without its seed, and what it rests on."""

    spec: dict[str, Any]
    up: dict[str, tuple[Hop, ...]]
    """Per flow: what its packets cross from client to server."""
    down: dict[str, tuple[Hop, ...]]
    ways: dict[str, tuple[tuple[tuple[Hop, ...], tuple[Hop, ...]], ...]] = field(default_factory=dict)
    """Per table of a flow, by its first: the same of every way in the course of the run, the first of them first."""


def resolve(scenario: Scenario, files: Files) -> Resolved:
    """The run that ``scenario`` describes, with seed 0.

    Raises:
        ScenarioError: what only shows when the parts are put together (a trace that is not there, a queue
        smaller than a packet...).
    """
    nodes, edges, ends = layout(scenario)
    wire = max(size for flow in scenario.flow for size in _wires(flow, scenario))
    hosts = frozenset(node["name"] for node in nodes if node["kind"] == "host")
    # "1 BDP" is of the first way
    ways = routes(scenario, edges, ends, hosts, [unused_at_first(scenario)])
    shared = base_rtts(edges, {name: found[0] for name, found in ways.items()}, scenario, files)
    lines = _lines(scenario, edges, shared, wire, files)
    links = [
        {
            "name": edge.name,
            "client_side": edge.client_side,
            "server_side": edge.server_side,
            **{side: line.stages if (line := lines.get((edge.name, side))) else [] for side in SIDES},
        }
        for edge in edges
    ]
    events, extremes = changes(scenario, edges, lines, shared, wire)
    if events:
        ways = routes(scenario, edges, ends, hosts, list(unused_later(events)))
    hops = crossings(edges, lines, extremes, shared, wire, files)
    up = {name: crossed(found[0], hops, "up") for name, found in ways.items()}
    down = {name: crossed(found[0], hops, "down") for name, found in ways.items()}
    firsts = [flow.names[0] for flow in scenario.flow]
    every_way = {
        name: tuple((crossed(way, hops, "up"), crossed(way, hops, "down")) for way in ways[name])
        for name in firsts
    }
    users = _users(scenario)
    flows = []
    for flow in scenario.flow:
        first = flow.names[0]
        words = _flow(flow, scenario, files, [(*there, *back) for there, back in every_way[first]])
        for name in flow.names:
            client, server = ends[name]
            whose = {"user": users[name]} if users[name] else {}
            flows.append({"name": name, "client": client, "server": server, **words, **whose})
    every = [tuple(hop for name in firsts for hop in (*up[name], *down[name]))]
    proxies = [
        _proxy(key, proxy, scenario, edges, hops, _windows(every))
        for key, proxy in proxies_of(scenario).items()
    ]
    spec: dict[str, Any] = {
        "seed": 0,
        "duration_ns": scenario.duration.ns,
        "sample_ns": scenario.sample.ns,
        "graph": {"nodes": nodes, "links": links} | ({"changes": events} if events else {}),
        "flows": flows,
        "trace": {
            "qlog": scenario.trace.qlog,
            "pcapng": scenario.trace.pcapng,
        },
    }
    # written only where they are asked for: what knows none of them keeps its resolved run, and so its id
    names = {edge.name for edge in edges}
    if groups := [_group(flow, names) for flow in scenario.flow if flow.count is not None]:
        spec["groups"] = groups
    if proxies:
        spec["proxies"] = proxies
    if scenario.trace.packets or scenario.trace.stages:
        spec["trace"]["packets"] = True
    if scenario.trace.stages:
        spec["trace"]["stages"] = True
    return Resolved(spec, up, down, every_way)


def _lines(
    scenario: Scenario, edges: Sequence[Edge], shared: Mapping[str, int], wire: int, files: Files
) -> dict[tuple[str, str], Line]:
    """The directions of all links that are not wires. Accesses of a group, which are alike, are one."""
    lines: dict[tuple[str, str], Line] = {}
    made: dict[tuple[str, str], Line] = {}
    for edge in edges:
        for side in SIDES:
            if edge.access is None:
                continue
            if (edge.owner, side) not in made or not edge.owner:
                rtt = Duration(shared[edge.name])
                direction = edge.access.toward(side)
                key = f"{key_of(edge, scenario)}.{side}"
                moved = set() if edge.owner else moved_of(scenario, edge.name, side)
                words = stages(direction, rtt, wire, files, key, moved)
                rate, delay = first_rate(direction, files, key), base_delay_ns(direction, files, key)
                made[edge.owner, side] = Line(direction, words, rate, delay, key)
            lines[edge.name, side] = made[edge.owner, side]
    return lines


# --- flows ----------------------------------------------------------------------------------------------------


def _wires(flow: Flow, scenario: Scenario) -> list[int]:
    """Bytes of full packets of the transports that a flow uses, all headers counted."""
    page = flow.load is not None and flow.load.page is not None
    sizes = []
    if page or flow.transport == "quic":
        quic = flow.quic.over(scenario.quic)
        sizes.append(_mtu(quic) + _header(quic))
    if page or flow.transport == "tcp":
        tcp = flow.tcp.over(scenario.tcp)
        sizes += [mss_bytes(end) + header_bytes(end) for end in (tcp, tcp.server_end())]
    return sizes


def _mtu(quic: Quic) -> int:
    return quic.mtu.bytes if quic.mtu is not None else MTU_BYTES


def _header(quic: Quic) -> int:
    return HEADER_BYTES[quic.ip or 4]


def _users(scenario: Scenario) -> dict[str, int]:
    """Whose packets each flow's are: 0 where nothing is said, then those that are named, then of each group without
    a name one user a flow."""
    named = list(dict.fromkeys(flow.user for flow in scenario.flow if flow.user is not None))
    numbers = {name: number for number, name in enumerate(named, 1)}
    users: dict[str, int] = {}
    apart = len(named)
    for flow in scenario.flow:
        for name in flow.names:
            if flow.user is not None:
                users[name] = numbers[flow.user]
            elif flow.count is None:
                users[name] = 0
            else:
                apart += 1
                users[name] = apart
    return users


def _group(flow: Flow, links: set[str]) -> dict[str, Any]:
    """What is measured together of the flows that ``flow`` stands for."""
    group: dict[str, Any] = {"name": flow.name, "flows": flow.names}
    own = [access for name in flow.names if (access := access_of(name)) in links]
    if own:
        group["links"] = own
    if flow.series == "each":
        group["each"] = True
    return group


def _flow(flow: Flow, scenario: Scenario, files: Files, hops: Hops) -> dict[str, Any]:
    """What the flows that ``flow`` stands for have in common."""
    if flow.start.ns >= scenario.duration.ns:
        raise ScenarioError(
            [
                (
                    f"flow.{flow.name}.start",
                    f"found {flow.start}, expected less than duration = {scenario.duration}",
                )
            ]
        )
    # Of a group also where it is one flow: in the next cell of a sweep it may be many, and that one begins as here.
    several = len(scenario.flow) > 1 or flow.count is not None
    jitter = START_JITTER_NS if several else 0
    rest = scenario.duration.ns - flow.start.ns
    server = flow.server_congestion or flow.congestion
    client_congestion, server_congestion = _congestion(flow.congestion), _congestion(server)
    page = flow.load is not None and flow.load.page is not None
    transport: dict[str, Any]
    if page:
        tcp = flow.tcp.over(scenario.tcp)
        for_tcp = _tcp_congestion(tcp, flow)
        quic = flow.quic.over(scenario.quic)
        if quic.handshake == "0-rtt":
            key = "quic" if flow.quic.handshake is None else f"flow.{flow.name}.quic"
            problem = 'found "0-rtt" for a page, whose first load has no ticket; expected early_data beside the page'
            raise ScenarioError([(f"{key}.handshake", problem)])
        transport = {
            "kind": "web",
            "quic": _quic(quic, hops) | _burst(quic, PAGE_BURST),
            "tcp": _tcp(tcp, hops, flow.name),
            "tcp_congestion": list(for_tcp) if for_tcp is not None else None,
        }
    elif flow.transport == "tcp":
        tcp = flow.tcp.over(scenario.tcp)
        client_congestion, server_congestion = _tcp_congestion(tcp, flow) or (
            client_congestion,
            server_congestion,
        )
        transport = {"kind": "tcp", **_tcp(tcp, hops, flow.name)}
    else:
        transport = {
            "kind": "quic",
            **_quic(flow.quic.over(scenario.quic), hops),
            **_burst(flow.quic.over(scenario.quic), 0),
        }
    return {
        "start_ns": flow.start.ns,
        "start_jitter_ns": flow.start_jitter.ns if flow.start_jitter is not None else jitter,
        "client_congestion": client_congestion,
        "server_congestion": server_congestion,
        "transport": transport,
        "load": _page_load(flow, scenario, files) if page else _load(flow.load, flow.send or "up", rest),
    }


def _page_load(flow: Flow, scenario: Scenario, files: Files) -> dict[str, Any]:
    load = flow.load
    if load is None or load.page is None:
        raise ScenarioError([(f"flow.{flow.name}.load", "found none, expected a page")])
    name, page = page_load.found_page(load.page, scenario.page, files, f"flow.{flow.name}.load.page")
    http = page_load.http_version(load, flow.transport)
    if load.udp_blocked and http == "3":
        key = f"flow.{flow.name}.load.udp_blocked"
        raise ScenarioError([(key, 'found true with HTTP/3, expected http = "2", "1.1" or "alt-svc"')])
    return page_load.words(load, name, page, http)


def _tcp_congestion(tcp: Tcp, flow: Flow) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Controllers of TCP connections where ``[tcp]`` or ``flow.tcp`` names one."""
    server = tcp.server_end().congestion
    if tcp.congestion is None and server is None:
        return None
    return (
        _congestion(tcp.congestion or flow.congestion),
        _congestion(server or flow.server_congestion or flow.congestion),
    )


def _tcp(tcp: Tcp, hops: Hops, flow: str) -> dict[str, Any]:
    buffers = _windows(hops)
    key = f"flow.{flow}.tcp"
    return {
        "client": tcp_words(tcp, buffers, key),
        "server": tcp_words(tcp.server_end(), buffers, f"{key}.server"),
    }


def _congestion(congestion: Congestion) -> dict[str, Any]:
    return {"name": congestion.name, "options": congestion.options}


def _round_up(value: int) -> int:
    return -(-value // MIB) * MIB


def _quic(quic: Quic, hops: Hops) -> dict[str, Any]:
    mtu = _mtu(quic)
    receive, send = _windows(hops)
    window = min(10 * mtu, max(INITIAL_WINDOW_BYTES, 2 * mtu))
    idle = quic.idle_timeout
    return {
        "crypto": quic.crypto or "modelled",
        "handshake": quic.handshake or "1-rtt",
        "mtu_bytes": mtu,
        "header_bytes": _header(quic),
        "initial_window_bytes": quic.initial_window.in_bytes(mtu)
        if quic.initial_window is not None
        else window,
        "initial_rtt_ns": quic.initial_rtt.ns if quic.initial_rtt is not None else INITIAL_RTT_NS,
        "ack_eliciting_threshold": quic.ack_every - 1 if quic.ack_every is not None else None,
        "max_ack_delay_ns": quic.max_ack_delay.ns if quic.max_ack_delay is not None else None,
        "ecn": bool(quic.ecn),
        "receive_window_bytes": quic.receive_window.bytes if quic.receive_window is not None else receive,
        "stream_receive_window_bytes": (
            quic.stream_receive_window.bytes if quic.stream_receive_window is not None else receive
        ),
        "send_window_bytes": quic.send_window.bytes if quic.send_window is not None else send,
        "idle_timeout_ns": idle.ns if isinstance(idle, Duration) else None,
        "packet_threshold": quic.packet_threshold or PACKET_THRESHOLD,
    }


def _burst(quic: Quic, usual: int) -> dict[str, int]:
    """The packets that leave unpaced; silent where there are none, as every sender of bulk is paced."""
    packets = quic.unpaced_burst if quic.unpaced_burst is not None else usual
    return {"unpaced_burst_packets": packets} if packets else {}


def _windows(ways: Hops) -> tuple[int, int]:
    """Receive and send windows that never are the limit, on none of these ways."""
    receive, send = zip(*map(_window, ways), strict=True)
    return max(receive), max(send)


def _window(hops: tuple[Hop, ...]) -> tuple[int, int]:
    rtt = sum(hop.most_delay_ns for hop in hops)
    rated = [hop for hop in hops if hop.rate is not None]
    narrowest = min((hop.rate.bit_s for hop in rated if hop.rate is not None), default=0)
    holds = max((_capacity(hop, rtt, narrowest) for hop in rated), default=None)
    if holds is None:
        return NARROW_UNKNOWN, NARROW_UNKNOWN
    return max(16 * MIB, _round_up(8 * holds)), max(4 * MIB, _round_up(4 * holds))


def _capacity(hop: Hop, rtt_ns: int, narrowest_bit_s: int) -> int:
    """What fits on the path at the narrowest rate, and in this hop's queue."""
    queue = hop.queue_bytes if hop.queue_bytes is not None else NARROW_UNKNOWN // 4
    return narrowest_bit_s * rtt_ns // (8 * 10**9) + queue


def _load(load: Load | None, send: str, rest_ns: int) -> dict[str, Any]:
    """The load in the engine's words; without one, the flow sends until the run ends."""
    if load is None:
        return _perf(_timed(rest_ns, send, 1))
    if load.pico_perf is not None:
        return _perf(loads.parse(load.pico_perf))
    if load.time is not None:
        return _perf(_timed(load.time.ns, send, load.streams))
    if load.bytes is not None:
        return _perf(_sized(load.bytes.bytes, send, load.streams))
    if load.poisson is not None:
        size = load.poisson.size
        drawn: dict[str, Any]
        if size.exponential is not None:
            drawn = {"kind": "exponential", "mean_bytes": size.exponential.bytes}
        elif size.pareto is not None:
            p = size.pareto
            drawn = {
                "kind": "pareto",
                "shape": float(p.shape),
                "least_bytes": p.least.bytes,
                "most_bytes": p.most.bytes,
            }
        else:
            drawn = {"kind": "fixed", "bytes": size.fixed.bytes if size.fixed is not None else 0}
        return {
            "kind": "poisson",
            "mean_interarrival_ns": load.poisson.every.ns,
            "size": drawn,
            "send": send,
            "duration_ns": load.poisson.time.ns if load.poisson.time is not None else rest_ns,
        }
    source = load.on_off
    if source is None:
        raise ScenarioError([("load", "found none, expected a load")])
    return {
        "kind": "on_off",
        "on_ns": source.on.ns,
        "off_ns": source.off.ns,
        "exponential": source.exponential,
        "rate_bit_s": source.rate.bit_s if source.rate is not None else None,
        "send": send,
        "duration_ns": source.time.ns if source.time is not None else rest_ns,
    }


def _perf(streams: tuple[loads.Stream, ...]) -> dict[str, Any]:
    return {"kind": "perf", "streams": loads.spec(streams)}


def _timed(duration_ns: int, send: str, count: int) -> tuple[loads.Stream, ...]:
    sides: tuple[loads.Side, ...] = (
        ("up", "down") if send == "both" else (("down",) if send == "down" else ("up",))
    )
    amounts = [loads.TimeAmount(Duration(duration_ns), side) for side in sides for _ in range(count)]
    return tuple(loads.Stream(4 * index, None, amount) for index, amount in enumerate(amounts))


def _sized(size: int, send: str, count: int) -> tuple[loads.Stream, ...]:
    """Streams of ``size`` bytes; a request of 8 bytes (the response size) asks for those downwards."""
    up = loads.DataAmount(size, 0)
    down = loads.DataAmount(loads.HEADER_BYTES, size)
    amounts = [
        amount
        for side, amount in (("up", up), ("down", down))
        if send in (side, "both")
        for _ in range(count)
    ]
    return tuple(loads.Stream(4 * index, None, amount) for index, amount in enumerate(amounts))


# --- proxies --------------------------------------------------------------------------------------------------


def _proxy(
    key: str,
    proxy: Proxy | Node,
    scenario: Scenario,
    edges: list[Edge],
    hops: dict[tuple[str, str], Hop],
    buffers: tuple[int, int],
) -> dict[str, Any]:
    ahead = stops(scenario)
    sides = {
        side: toward(proxy.name, way, edges, hops, ahead)
        for side, way in (("client_side", "down"), ("server_side", "up"))
    }
    return proxy_words(proxy.name, proxy, scenario.tcp, sides, buffers, key)


def bdp_bytes(rate: Rate, rtt_ns: int) -> Decimal:
    """Bandwidth-delay product."""
    return Decimal(rate.bit_s) * rtt_ns / (8 * 10**9)
