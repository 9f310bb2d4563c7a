"""Graph of a scenario: nodes, links, endpoints and routes of flows, and proxies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from bentpipe.plan.input_files import Files
from bentpipe.plan.link.stages import base_delay_ns
from bentpipe.plan.network.proxies import NextTcpEndpoint
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Rate

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import NodeKind, NodeSpec
    from bentpipe.scenario.flow.proxy import Proxy
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Access, Graph, Node

__all__ = [
    "Edge",
    "Hop",
    "base_rtts",
    "edge_key",
    "is_connected",
    "layout",
    "next_tcp_endpoint",
    "proxies_of",
    "proxy_keys",
    "routes",
    "shortest_route",
    "tcp_endpoints",
]


Route = list[tuple[str, bool]]
"""Links in order, each with whether packets enter it at its client side."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One direction of a link, with its extremes over a run."""

    name: str
    rate: Rate | None
    """The highest rate over the run; None without a transmitter."""
    queue_bytes: int | None
    """The limit of the queue; None for an unlimited queue or no queue."""
    delay_ns: int
    """Propagation delay at the start of the run."""
    delay_min_ns: int
    """The lowest delay over the run."""
    delay_max_ns: int
    """The highest delay at the start, after a handover, or of an orbit."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A link with its two ends."""

    name: str
    client_side: str
    server_side: str
    up: Direction | None
    down: Direction | None
    """Its directions with all defaults merged; None for a wire."""
    owner: str = ""
    """The flow table of the scenario that this access link belongs to; empty for other links."""


def layout(scenario: Scenario) -> tuple[list[NodeSpec], list[Edge], dict[str, tuple[str, str]]]:
    """Return nodes, links, and client and server of each flow.

    A path is a line of nodes from "client" to "server".

    Raises:
        ScenarioError: no path and no graph, or a host without links.
    """
    if scenario.graph is not None:
        return _graph(scenario.graph, scenario)
    if scenario.path is None:
        raise ScenarioError([("path", "missing, expected [[path.segment]]")])
    segments = scenario.path.segment
    with_access = any(flow.access is not None for flow in scenario.flow)
    split = {tuple(proxy.between): proxy.name for proxy in _splitting(scenario.path.proxy)}
    inner = [split.get((a.name, b.name), f"{a.name}-{b.name}") for a, b in pairwise(segments)]
    line = ["client", *inner, "server"]
    between: list[NodeKind] = ["proxy" if name in split.values() else "router" for name in inner]
    kinds: list[NodeKind] = ["router" if with_access else "host", *between, "host"]
    nodes: list[NodeSpec] = [{"name": name, "kind": kind} for name, kind in zip(line, kinds, strict=True)]
    for index, node in enumerate(nodes):
        limits = [segment.store_and_forward for segment in segments[max(index - 1, 0) : index + 1]]
        limit = next((size for size in limits if size is not None), None)
        if limit is not None:
            node["store_and_forward_bytes"] = limit.bytes
    edges = [_edge(s.name, a, b, s) for s, a, b in zip(segments, line, line[1:], strict=False)]
    ends: dict[str, tuple[str, str]] = {}
    for flow in scenario.flow:
        template = _edge("", "", "client", flow.access, flow.name)
        for name in flow.names:
            ends[name] = ("client", "server")
            if with_access:
                host = f"{name}.client"
                nodes.append({"name": host, "kind": "host"})
                edges.append(replace(template, name=access_of(name), client_side=host))
                ends[name] = (host, "server")
    return nodes, edges, ends


def _edge(name: str, client_side: str, server_side: str, access: Access | None, owner: str = "") -> Edge:
    if access is None:
        return Edge(name, client_side, server_side, None, None, owner)
    return Edge(
        name,
        client_side,
        server_side,
        access.resolve_direction("up"),
        access.resolve_direction("down"),
        owner,
    )


def access_of(flow: str) -> str:
    """Return the name of the access link of a flow."""
    return f"{flow}.access"


def _graph(graph: Graph, scenario: Scenario) -> tuple[list[NodeSpec], list[Edge], dict[str, tuple[str, str]]]:
    nodes: list[NodeSpec] = [{"name": node.name, "kind": node.role} for node in graph.node]
    for spec, node in zip(nodes, graph.node, strict=True):
        if node.store_and_forward is not None:
            spec["store_and_forward_bytes"] = node.store_and_forward.bytes
    edges = [_edge(link.name, link.client_side, link.server_side, link) for link in graph.link]
    _check_linked(graph)
    ends = {name: (flow.client or "", flow.server or "") for flow in scenario.flow for name in flow.names}
    return nodes, edges, ends


def _check_linked(graph: Graph) -> None:
    """Reject a graph with a host that no links lead to. Raises ScenarioError."""
    hosts = [node.name for node in graph.node if node.role == "host"]
    reached, frontier = set(), set(hosts[:1])
    while frontier:
        reached |= frontier
        ends = [(link.client_side, link.server_side) for link in graph.link]
        frontier = {b if a in reached else a for a, b in ends if (a in reached) != (b in reached)}
    for host in hosts:
        if host not in reached:
            raise ScenarioError(
                [(f"graph.{host}", f'no links lead to it from "{hosts[0]}"; expected a link')]
            )


def edge_key(edge: Edge, scenario: Scenario) -> str:
    """Return the dotted key of a link in its scenario, for errors."""
    if edge.owner:
        return f"flow.{access_of(edge.owner)}"
    return f"graph.{edge.name}" if scenario.graph is not None else f"path.{edge.name}"


def routes(
    scenario: Scenario,
    edges: list[Edge],
    ends: Mapping[str, tuple[str, str]],
    hosts: frozenset[str],
    unused: Sequence[set[str]],
) -> dict[str, list[Route]]:
    """Return the distinct routes of each flow, in the order of the sets of unused links.

    A flow that never has a route gets the shortest one over all links. The flows of a group share their routes, or
    differ in their access link only.

    Args:
        scenario: the scenario.
        edges: links.
        ends: client and server of each flow.
        hosts: nodes that forward nothing.
        unused: sets of links that are out of use, each at some time of the run.

    Raises:
        ScenarioError: no links lead from a client to its server.
    """
    by_flow: dict[str, list[Route]] = {}
    for flow in scenario.flow:
        first, *others = flow.names
        by_flow[first] = _distinct_routes(edges, unused, ends[first], flow.name, hosts)
        if not any(edge == access_of(first) for route in by_flow[first] for edge, _ in route):
            by_flow |= dict.fromkeys(others, by_flow[first])
            continue
        for name in others:
            access = {access_of(first): access_of(name)}
            by_flow[name] = [
                [(access.get(edge, edge), forward) for edge, forward in route] for route in by_flow[first]
            ]
    return by_flow


def _distinct_routes(
    edges: list[Edge], unused: Sequence[set[str]], ends: tuple[str, str], flow: str, hosts: frozenset[str]
) -> list[Route]:
    found: list[Route] = []
    for links in unused if any(unused) else ():
        used = [edge for edge in edges if edge.name not in links]
        route = _shortest_routes(used, *ends, hosts).get(ends[1])
        if route is not None and route not in found:
            found.append(route)
    return found or [shortest_route(edges, *ends, flow, hosts)]


def is_connected(edges: list[Edge], ends: tuple[str, str], hosts: frozenset[str], unused: set[str]) -> bool:
    """Return whether a route leads from one end to the other while some links are out of use."""
    used = [edge for edge in edges if edge.name not in unused]
    return ends[1] in _shortest_routes(used, *ends, hosts)


def shortest_route(
    edges: list[Edge], client: str, server: str, flow: str, hosts: frozenset[str] = frozenset()
) -> Route:
    """Return the route with the fewest hops; ties go to the order of links in the scenario.

    Args:
        edges: links.
        client: first node.
        server: last node.
        flow: table of the flow, for errors.
        hosts: nodes that forward nothing.

    Raises:
        ScenarioError: no links lead from the client to the server, or only through a host.
    """
    reached = _shortest_routes(edges, client, server, hosts)
    if server in reached:
        return reached[server]
    through = _shortest_routes(edges, client, server, frozenset()).get(server)
    if through is None:
        text = f'no route from "{client}" to "{server}", expected links between them'
        raise ScenarioError([(f"flow.{flow}", text)])
    ends = {end for name, _ in through for edge in edges if edge.name == name
            for end in (edge.client_side, edge.server_side)}  # fmt: skip
    between = sorted((ends & hosts) - {client, server})
    text = f'no route from "{client}" to "{server}": {", ".join(between)} between them '
    text += "is a host, which forwards nothing" if len(between) == 1 else "are hosts, which forward nothing"
    raise ScenarioError([(f"graph.{between[0]}", f'{text}; did you mean kind = "router"?')])


def _shortest_routes(edges: list[Edge], client: str, server: str, hosts: frozenset[str]) -> dict[str, Route]:
    """Return the shortest route to each node that is no farther than the server (breadth-first search)."""
    outgoing: dict[str, list[tuple[Edge, str, bool]]] = {}
    for edge in edges:
        outgoing.setdefault(edge.client_side, []).append((edge, edge.server_side, True))
        outgoing.setdefault(edge.server_side, []).append((edge, edge.client_side, False))
    reached: dict[str, Route] = {client: []}
    frontier = [client]
    while frontier and server not in reached:
        following: list[str] = []
        for node in frontier:
            if node in hosts and node != client:
                continue
            for edge, neighbour, forward in outgoing.get(node, ()):
                if neighbour not in reached:
                    reached[neighbour] = [*reached[node], (edge.name, forward)]
                    following.append(neighbour)
        frontier = following
    return reached


def _round_trip_ns(edge: Edge, files: Files, scenario: Scenario) -> int:
    key = edge_key(edge, scenario)
    directions = (("up", edge.up), ("down", edge.down))
    return sum(base_delay_ns(one, files, f"{key}.{side}") for side, one in directions if one is not None)


def base_rtts(
    edges: list[Edge], first_routes: Mapping[str, Route], scenario: Scenario, files: Files
) -> dict[str, int]:
    """Return the round-trip time in ns that "1 BDP" refers to at each link.

    On a path it is the propagation over all segments; an access link adds its own. In a graph it is the longest
    round-trip time of the flows that cross the link.
    """
    shared: dict[int, int] = {}  # access links of a group have the same table
    for edge in edges:
        if id(edge.up) not in shared:
            shared[id(edge.up)] = _round_trip_ns(edge, files, scenario)
    link_rtts = {edge.name: shared[id(edge.up)] for edge in edges}
    if scenario.path is not None:
        path_rtt = sum(link_rtts[segment.name] for segment in scenario.path.segment)
        return {edge.name: path_rtt + (link_rtts[edge.name] if edge.owner else 0) for edge in edges}
    longest: dict[str, int] = {}
    for route in first_routes.values():
        route_rtt = sum(link_rtts[name] for name, _ in route)
        for name, _ in route:
            longest[name] = max(route_rtt, longest.get(name, 0))
    return link_rtts | longest


def proxies_of(scenario: Scenario) -> dict[str, Proxy | Node]:
    """Return the splitting proxies of a path or a graph, by key."""
    if scenario.path is not None:
        return {f"path.{proxy.name}": proxy for proxy in _splitting(scenario.path.proxy)}
    nodes = scenario.graph.node if scenario.graph is not None else []
    return {f"graph.{node.name}": node for node in nodes if node.role == "proxy"}


def proxy_keys(scenario: Scenario) -> dict[str, str]:
    """Return the keys of the proxies, by node."""
    return {proxy.name: key for key, proxy in proxies_of(scenario).items()}


def _splitting(proxies: Sequence[Proxy]) -> list[Proxy]:
    return [proxy for proxy in proxies if proxy.splits]


def tcp_endpoints(scenario: Scenario) -> set[str]:
    """Return the nodes at which TCP connections end: hosts and splitting proxies."""
    if scenario.graph is not None:
        return {node.name for node in scenario.graph.node if node.role != "router"}
    proxies = scenario.path.proxy if scenario.path is not None else []
    return {"client", "server", *(proxy.name for proxy in _splitting(proxies))}


def next_tcp_endpoint(
    node: str, side: str, edges: list[Edge], hops: dict[tuple[str, str], Hop], endpoints: set[str]
) -> NextTcpEndpoint | None:
    """Return the path from a proxy to the next proxy or host; None if it branches.

    Args:
        node: node of the proxy.
        side: direction of the proxy's data: "down" to the client side, "up" to the server side.
        edges: links.
        hops: hop of each direction of a link.
        endpoints: nodes at which TCP connections end.
    """
    links: list[str] = []
    position = node
    while position == node or position not in endpoints:
        next_edges = [
            edge for edge in edges if (edge.server_side if side == "down" else edge.client_side) == position
        ]
        if len(next_edges) != 1 or next_edges[0].name in links:
            return None
        links.append(next_edges[0].name)
        position = next_edges[0].client_side if side == "down" else next_edges[0].server_side
    rates = [rate.bit_s for name in links if (rate := hops[name, side].rate) is not None]
    rtt = sum(hops[name, direction].delay_ns for name in links for direction in ("up", "down"))
    return NextTcpEndpoint(min(rates, default=None), rtt)
