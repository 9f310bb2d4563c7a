"""Resolved run of a scenario, the input of the engine: with every default, and every queue in packets or bytes.

The modules that fill in defaults give the reason of each: ``link.stages`` and ``quic``, ``tcp``, ``pages``, ``flows``
and ``flow_control`` of ``flow``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bentpipe.plan.dtn.nodes import add_dtn
from bentpipe.plan.flow.flow_control import flow_control_windows
from bentpipe.plan.flow.flows import admission_spec, flow_spec, full_packet_bytes, group_spec, number_users
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
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Node

__all__ = ["Resolved", "resolve"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A run without its seed, with the hops of its flows."""

    spec: RunSpec
    up: dict[str, tuple[Hop, ...]]
    """Hops from client to server on the first route, by flow."""
    down: dict[str, tuple[Hop, ...]]
    """Hops from server to client on the first route, by flow."""
    ways: dict[str, tuple[tuple[tuple[Hop, ...], tuple[Hop, ...]], ...]] = field(default_factory=dict)
    """Hops up and down on every route over time in order, by the first flow of each table."""


def resolve(scenario: Scenario, files: Files, schedulers: frozenset[str] = frozenset()) -> Resolved:
    """Resolve a scenario into a run with seed 0.

    Args:
        scenario: the scenario of one cell.
        files: its input files.
        schedulers: names of user-supplied schedulers.

    Raises:
        ScenarioError: a problem that only the combination of tables shows, such as a missing trace or a queue
            smaller than a packet.
    """
    scenario = apply_contact_plan(scenario, files)
    files = files.with_orbit(scenario.orbit, scenario.duration.ns)
    user_numbers = number_users(scenario)
    users = replace(_users(scenario, user_numbers), schedulers=schedulers)
    nodes, edges, ends = layout(scenario)
    edges = _divide_queues(edges, users.count)
    packet_bytes = max(size for flow in scenario.flow for size in full_packet_bytes(flow, scenario))
    hosts = frozenset(node["name"] for node in nodes if node["kind"] == "host")
    # "1 BDP" refers to the first route.
    flow_routes = routes(scenario, edges, ends, hosts, [links_initially_unused(scenario)])
    first_routes = {name: found[0] for name, found in flow_routes.items()}
    rtts = base_rtts(edges, first_routes, scenario, files)
    states = _direction_states(scenario, edges, rtts, packet_bytes, files, users)
    links: list[LinkSpec] = [
        {
            "name": edge.name,
            "client_side": edge.client_side,
            "server_side": edge.server_side,
            "up": state.stages if (state := states.get((edge.name, "up"))) else [],
            "down": state.stages if (state := states.get((edge.name, "down"))) else [],
        }
        for edge in edges
    ]
    changes, extremes = topology_changes(scenario, edges, states, rtts, packet_bytes, files, users.count)
    if changes:
        flow_routes = routes(scenario, edges, ends, hosts, list(unused_links(changes)))
    hops = direction_hops(edges, states, extremes, rtts, packet_bytes, files)
    # Flows that share one list of routes share their hops.
    distinct = {id(found): found[0] for found in flow_routes.values()}
    shared_hops = {
        key: (route_hops(route, hops, "up"), route_hops(route, hops, "down"))
        for key, route in distinct.items()
    }
    up, down = (
        {name: shared_hops[id(found)][side] for name, found in flow_routes.items()} for side in (0, 1)
    )
    first_flows = [flow.names[0] for flow in scenario.flow]
    all_hops = {
        name: tuple(
            (route_hops(route, hops, "up"), route_hops(route, hops, "down")) for route in flow_routes[name]
        )
        for name in first_flows
    }
    flows: list[FlowSpec] = []
    for flow in scenario.flow:
        first = flow.names[0]
        round_trips = [(*up_hops, *down_hops) for up_hops, down_hops in all_hops[first]]
        wait_ns = _longest_wait_ns(round_trips, edges, ends[first], hosts, changes, scenario)
        path = path_properties(all_hops[first], wait_ns)
        shared = flow_spec(flow, scenario, files, ends[first], round_trips, path)
        for name in flow.names:
            spec_of_flow: FlowSpec = {
                **shared,
                "name": name,
                "client": ends[name][0],
                "server": ends[name][1],
            }
            if user_numbers[name]:
                spec_of_flow["user"] = user_numbers[name]
            flows.append(spec_of_flow)
    every_hop = [tuple(hop for name in first_flows for hop in (*up[name], *down[name]))]
    proxies = [
        _proxy(key, proxy, scenario, edges, hops, flow_control_windows(every_hop))
        for key, proxy in proxies_of(scenario).items()
    ]
    graph: TopologySpec = {"nodes": nodes, "links": links}
    if changes:
        graph["changes"] = changes
    trace: TraceSpec = {"qlog": scenario.trace.qlog, "pcapng": scenario.trace.pcapng}
    if scenario.trace.packets or scenario.trace.packet_steps:
        trace["packets"] = True
    if scenario.trace.packet_steps:
        trace["packet_steps"] = True
    if scenario.trace.tcp:
        trace["tcp"] = True
    spec: RunSpec = {
        "seed": 0,
        "duration_ns": scenario.duration.ns,
        "sample_interval_ns": scenario.sample_interval.ns,
        "graph": graph,
        "flows": flows,
        "trace": trace,
    }
    # Members are present only if the scenario sets them, so that other scenarios keep their run ids.
    names = {edge.name for edge in edges}
    if groups := [group_spec(flow, names) for flow in scenario.flow if flow.count is not None]:
        spec["groups"] = groups
    if admissions := [rate for flow in scenario.flow if (rate := admission_spec(flow)) is not None]:
        spec["admissions"] = admissions
    if proxies:
        spec["proxies"] = proxies
    add_dtn(scenario, spec, files.folder)
    return Resolved(spec, up, down, all_hops)


def _longest_wait_ns(
    round_trips: Sequence[tuple[Hop, ...]],
    edges: list[Edge],
    ends: tuple[str, str],
    hosts: frozenset[str],
    changes: Sequence[TopologyChange],
    scenario: Scenario,
) -> int:
    """Return the longest time in ns that packets of a flow wait for a route and for outages of links."""
    links = {hop.name.rpartition(".")[0] for hops in round_trips for hop in hops}
    outage_ns = 0
    for edge in edges:
        outages = [
            direction.outages
            for direction in (edge.up, edge.down)
            if direction is not None and direction.outages is not None
        ]
        if edge.name in links and outages:
            outage_ns += max(window.duration.ns for one in outages for window in one.windows)
    if not changes:
        return outage_ns

    def reaches(unused: set[str]) -> bool:
        return is_connected(edges, ends, hosts, unused)

    return outage_ns + longest_gap_ns(changes, links, reaches, scenario.duration.ns)


def _users(scenario: Scenario, user_numbers: Mapping[str, int]) -> Users:
    """Return the users of a scenario. Raises ScenarioError for more than ``MAX_USERS``."""
    numbers: dict[str, set[int]] = {}
    for flow in scenario.flow:
        members = {user_numbers[name] for name in flow.names}
        numbers.setdefault(flow.name, set()).update(members)
        if flow.user is not None:
            numbers.setdefault(flow.user, set()).update(members)
    highest = max(user_numbers.values())
    if highest > MAX_USERS:
        largest = max(scenario.flow, key=lambda flow: flow.count or 0)
        text = f"found {highest:,} users of all flows, expected at most {MAX_USERS:,}"
        raise ScenarioError([(f"flow.{largest.name}.count", text)])
    return Users(
        count=len(set(user_numbers.values())),
        distinguished=any(flow.count is not None or flow.user is not None for flow in scenario.flow),
        numbers={name: tuple(sorted(members)) for name, members in numbers.items()},
    )


def _divide_queues(edges: list[Edge], users: int) -> list[Edge]:
    """Return the links with the size of queues that depend on the number of users."""
    divided: dict[int, Direction] = {}

    def divide(direction: Direction | None) -> Direction | None:
        if direction is None or direction.queue is None or not direction.queue.shared:
            return direction
        if id(direction) not in divided:
            divided[id(direction)] = direction.model_copy(update={"queue": direction.queue.for_users(users)})
        return divided[id(direction)]

    return [replace(edge, up=divide(edge.up), down=divide(edge.down)) for edge in edges]


def _direction_states(
    scenario: Scenario,
    edges: Sequence[Edge],
    rtts: Mapping[str, int],
    packet_bytes: int,
    files: Files,
    users: Users,
) -> dict[tuple[str, str], DirectionState]:
    """Return the directions of all links except wires; access links of a group share one state."""
    states: dict[tuple[str, str], DirectionState] = {}
    shared: dict[tuple[str, str], DirectionState] = {}
    for edge in edges:
        for side in SIDES:
            direction = edge.up if side == "up" else edge.down
            if direction is None:
                continue
            if (edge.owner, side) not in shared or not edge.owner:
                rtt = Duration(rtts[edge.name])
                key = f"{edge_key(edge, scenario)}.{side}"
                updated = set() if edge.owner else updated_fields(scenario, edge.name, side)
                direction = with_feedback_delay(direction, _constant_rtt_ns(edge))
                stage_specs = stages(direction, rtt, packet_bytes, files, key, updated, users)
                rate, delay = first_rate(direction, files, key), base_delay_ns(direction, files, key)
                shared[edge.owner, side] = DirectionState(direction, stage_specs, rate, delay, key)
            states[edge.name, side] = shared[edge.owner, side]
    return states


def _constant_rtt_ns(edge: Edge) -> int | None:
    """Return the constant delay of a link up and down; None if it varies."""
    directions = (edge.up, edge.down)
    delays = [one.delay for one in directions if one is not None and one.delay is not None]
    constants = [delay.constant for delay in delays if delay.constant is not None]
    return sum(constant.ns for constant in constants) if len(constants) == len(delays) else None


def _proxy(
    key: str,
    proxy: Proxy | Node,
    scenario: Scenario,
    edges: list[Edge],
    hops: dict[tuple[str, str], Hop],
    buffers: tuple[int, int],
) -> ProxySpec:
    endpoints = tcp_endpoints(scenario)
    sides = {
        side: next_tcp_endpoint(proxy.name, direction, edges, hops, endpoints)
        for side, direction in (("client_side", "down"), ("server_side", "up"))
    }
    return proxy_spec(proxy.name, proxy, scenario.tcp, sides, buffers, key)
