"""From a scenario to what the engine reads: every default filled in, every queue in packets or bytes.

What the scenario leaves open stands with its reason where it is filled in: in ``stages``, ``quic``, ``tcp``, ``pages``,
``flows``, ``flow_control_windows``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bentpipe.plan.dtn.nodes import add_dtn
from bentpipe.plan.flow.flow_control import flow_control_windows
from bentpipe.plan.flow.flows import admission_spec, flow_spec, full_packet_bytes, group_spec, users
from bentpipe.plan.flow.quic_profiles import path_properties
from bentpipe.plan.link.nr import with_feedback_delay
from bentpipe.plan.link.scheduler import MAX_USERS, Users
from bentpipe.plan.link.stages import base_delay_ns, first_rate, stages
from bentpipe.plan.network.contact_schedule import apply_contact_plan
from bentpipe.plan.network.graph import (
    base_rtts,
    edge_key,
    is_connected,
    layout,
    next_tcp_endpoint,
    proxies_of,
    routes,
    tcp_endpoints,
)
from bentpipe.plan.network.handovers import (
    SIDES,
    DirectionState,
    links_initially_unused,
    longest_gap_ns,
    topology_changes,
    unused_links,
    updated_fields,
)
from bentpipe.plan.network.hops import direction_hops, route_hops
from bentpipe.plan.network.proxies import proxy_spec
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.input_files import Files
    from bentpipe.plan.network.graph import Edge, Hop
    from bentpipe.plan.spec.run_spec import (
        FlowSpec,
        LinkSpec,
        ProxySpec,
        RunSpec,
        TopologyChange,
        TopologySpec,
        TraceSpec,
    )
    from bentpipe.scenario.flow.proxy import Proxy
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Direction, Node

__all__ = ["Resolved", "resolve"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A run without its seed, and what it rests on."""

    spec: RunSpec
    up: dict[str, tuple[Hop, ...]]
    """Per flow: what its packets cross from client to server."""
    down: dict[str, tuple[Hop, ...]]
    ways: dict[str, tuple[tuple[tuple[Hop, ...], tuple[Hop, ...]], ...]] = field(default_factory=dict)
    """Per table of a flow, by its first: the same of every way in the course of the run, the first of them first."""


def resolve(scenario: Scenario, files: Files, schedulers: frozenset[str] = frozenset()) -> Resolved:
    """The run that ``scenario`` describes, with seed 0; ``schedulers`` are those that were given from outside.

    Raises:
        ScenarioError: what only shows when the parts are put together (a trace that is not there, a queue
        smaller than a packet...).
    """
    scenario = apply_contact_plan(scenario, files)
    files = files.with_orbit(scenario.orbit, scenario.duration.ns)
    whose = users(scenario)
    among = replace(_users(scenario, whose), schedulers=schedulers)
    nodes, edges, ends = layout(scenario)
    edges = _among(edges, among.count)
    wire = max(size for flow in scenario.flow for size in full_packet_bytes(flow, scenario))
    hosts = frozenset(node["name"] for node in nodes if node["kind"] == "host")
    # "1 BDP" is of the first way
    ways = routes(scenario, edges, ends, hosts, [links_initially_unused(scenario)])
    shared = base_rtts(edges, {name: found[0] for name, found in ways.items()}, scenario, files)
    lines = _lines(scenario, edges, shared, wire, files, among)
    links: list[LinkSpec] = [
        {
            "name": edge.name,
            "client_side": edge.client_side,
            "server_side": edge.server_side,
            "up": line.stages if (line := lines.get((edge.name, "up"))) else [],
            "down": line.stages if (line := lines.get((edge.name, "down"))) else [],
        }
        for edge in edges
    ]
    events, extremes = topology_changes(scenario, edges, lines, shared, wire, files, among.count)
    if events:
        ways = routes(scenario, edges, ends, hosts, list(unused_links(events)))
    hops = direction_hops(edges, lines, extremes, shared, wire, files)
    # of flows that share their ways once
    apart = {id(found): found[0] for found in ways.values()}
    same = {one: (route_hops(way, hops, "up"), route_hops(way, hops, "down")) for one, way in apart.items()}
    up, down = ({name: same[id(found)][way] for name, found in ways.items()} for way in (0, 1))
    firsts = [flow.names[0] for flow in scenario.flow]
    every_way = {
        name: tuple((route_hops(way, hops, "up"), route_hops(way, hops, "down")) for way in ways[name])
        for name in firsts
    }
    flows: list[FlowSpec] = []
    for flow in scenario.flow:
        first = flow.names[0]
        crossed_by = [(*there, *back) for there, back in every_way[first]]
        path = path_properties(
            every_way[first], _longest_wait(crossed_by, edges, ends[first], hosts, events, scenario)
        )
        words = flow_spec(flow, scenario, files, ends[first], crossed_by, path)
        for name in flow.names:
            own: FlowSpec = {**words, "name": name, "client": ends[name][0], "server": ends[name][1]}
            if whose[name]:
                own["user"] = whose[name]
            flows.append(own)
    every = [tuple(hop for name in firsts for hop in (*up[name], *down[name]))]
    proxies = [
        _proxy(key, proxy, scenario, edges, hops, flow_control_windows(every))
        for key, proxy in proxies_of(scenario).items()
    ]
    graph: TopologySpec = {"nodes": nodes, "links": links}
    if events:
        graph["changes"] = events
    trace: TraceSpec = {"qlog": scenario.trace.qlog, "pcapng": scenario.trace.pcapng}
    if scenario.trace.packets or scenario.trace.stages:
        trace["packets"] = True
    if scenario.trace.stages:
        trace["stages"] = True
    if scenario.trace.tcp:
        trace["tcp"] = True
    spec: RunSpec = {
        "seed": 0,
        "duration_ns": scenario.duration.ns,
        "sample_ns": scenario.sample.ns,
        "graph": graph,
        "flows": flows,
        "trace": trace,
    }
    # written only where they are asked for: what knows none of them keeps its resolved run, and so its id
    names = {edge.name for edge in edges}
    if groups := [group_spec(flow, names) for flow in scenario.flow if flow.count is not None]:
        spec["groups"] = groups
    if admissions := [kept for flow in scenario.flow if (kept := admission_spec(flow)) is not None]:
        spec["admissions"] = admissions
    if proxies:
        spec["proxies"] = proxies
    add_dtn(scenario, spec, files.folder)
    return Resolved(spec, up, down, every_way)


def _longest_wait(
    ways: Sequence[tuple[Hop, ...]],
    edges: list[Edge],
    ends: tuple[str, str],
    hosts: frozenset[str],
    events: Sequence[TopologyChange],
    scenario: Scenario,
) -> int:
    """How long packets of a flow wait at the longest for a way, and for outages of links."""
    links = {hop.name.rpartition(".")[0] for way in ways for hop in way}
    dark = 0
    for edge in edges:
        directions = [
            way.outages for way in (edge.up, edge.down) if way is not None and way.outages is not None
        ]
        if edge.name in links and directions:
            dark += max(window.length.ns for outages in directions for window in outages.windows)
    if not events:
        return dark
    whole = scenario.duration.ns
    return dark + longest_gap_ns(
        events, links, lambda unused: is_connected(edges, ends, hosts, unused), whole
    )


def _users(scenario: Scenario, whose: Mapping[str, int]) -> Users:
    """Who the users are. Raises ScenarioError for more than can be told apart."""
    numbers: dict[str, set[int]] = {}
    for flow in scenario.flow:
        own = {whose[name] for name in flow.names}
        numbers.setdefault(flow.name, set()).update(own)
        if flow.user is not None:
            numbers.setdefault(flow.user, set()).update(own)
    if max(whose.values()) > MAX_USERS:
        most = max(scenario.flow, key=lambda flow: flow.count or 0)
        text = f"found {max(whose.values()):,} users of all flows, expected at most {MAX_USERS:,}"
        raise ScenarioError([(f"flow.{most.name}.count", text)])
    return Users(
        count=len(set(whose.values())),
        distinguished=any(flow.count is not None or flow.user is not None for flow in scenario.flow),
        numbers={name: tuple(sorted(own)) for name, own in numbers.items()},
    )


def _among(edges: list[Edge], users: int) -> list[Edge]:
    """The same, with queues that are divided by the number of users as large as that makes them."""
    made: dict[int, Direction] = {}

    def divided(direction: Direction | None) -> Direction | None:
        if direction is None or direction.queue is None or not direction.queue.shared:
            return direction
        if id(direction) not in made:
            made[id(direction)] = direction.model_copy(update={"queue": direction.queue.among(users)})
        return made[id(direction)]

    return [replace(edge, up=divided(edge.up), down=divided(edge.down)) for edge in edges]


def _lines(
    scenario: Scenario,
    edges: Sequence[Edge],
    shared: Mapping[str, int],
    wire: int,
    files: Files,
    known: Users,
) -> dict[tuple[str, str], DirectionState]:
    """The directions of all links that are not wires. Accesses of a group, which are alike, are one."""
    lines: dict[tuple[str, str], DirectionState] = {}
    made: dict[tuple[str, str], DirectionState] = {}
    for edge in edges:
        for side in SIDES:
            direction = edge.up if side == "up" else edge.down
            if direction is None:
                continue
            if (edge.owner, side) not in made or not edge.owner:
                rtt = Duration(shared[edge.name])
                key = f"{edge_key(edge, scenario)}.{side}"
                moved = set() if edge.owner else updated_fields(scenario, edge.name, side)
                direction = with_feedback_delay(direction, _there_and_back(edge))
                words = stages(direction, rtt, wire, files, key, moved, known)
                rate, delay = first_rate(direction, files, key), base_delay_ns(direction, files, key)
                made[edge.owner, side] = DirectionState(direction, words, rate, delay, key)
            lines[edge.name, side] = made[edge.owner, side]
    return lines


def _there_and_back(edge: Edge) -> int | None:
    """The constant delay of a link both ways; None: it moves."""
    delays = [way.delay for way in (edge.up, edge.down) if way is not None and way.delay is not None]
    constants = [delay.constant for delay in delays if delay.constant is not None]
    return sum(one.ns for one in constants) if len(constants) == len(delays) else None


def _proxy(
    key: str,
    proxy: Proxy | Node,
    scenario: Scenario,
    edges: list[Edge],
    hops: dict[tuple[str, str], Hop],
    buffers: tuple[int, int],
) -> ProxySpec:
    ahead = tcp_endpoints(scenario)
    sides = {
        side: next_tcp_endpoint(proxy.name, way, edges, hops, ahead)
        for side, way in (("client_side", "down"), ("server_side", "up"))
    }
    return proxy_spec(proxy.name, proxy, scenario.tcp, sides, buffers, key)
