"""The graph that a scenario describes: its nodes, links and ends, the way of each flow, and its proxies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from bentpipe.plan.cost.reordering import IN_ORDER, Reordering
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
    "key_of",
    "layout",
    "leads",
    "next_tcp_endpoint",
    "proxies_of",
    "proxy_keys",
    "routes",
    "shortest",
    "stops",
]


Route = list[tuple[str, bool]]
"""Links, each with whether it is crossed from its client's side."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One direction of a link as the planner sees it: for bounds."""

    name: str
    rate: Rate | None
    """The largest rate it ever has; None without a transmitter."""
    queue_bytes: int | None
    """The queue's bound; None for none."""
    delay_ns: int
    """At the start of the run."""
    least_delay_ns: int
    """The smallest that it ever is."""
    most_delay_ns: int
    """At the start, or after a hand-over, the largest."""
    late: Reordering = IN_ORDER
    """How packets overtake each other."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A link with its two ends."""

    name: str
    client_side: str
    server_side: str
    up: Direction | None
    down: Direction | None
    """Its directions, with everything merged in; None for a wire."""
    owner: str = ""
    """The flow of the scenario whose access it is."""


def layout(scenario: Scenario) -> tuple[list[NodeSpec], list[Edge], dict[str, tuple[str, str]]]:
    """Nodes, links and each flow's two ends. A path is a line of nodes from "client" to "server"."""
    if scenario.graph is not None:
        return _graph(scenario.graph, scenario)
    if scenario.path is None:
        raise ScenarioError([("path", "missing, expected [[path.segment]]")])
    segments = scenario.path.segment
    own = any(flow.access is not None for flow in scenario.flow)
    split = {tuple(proxy.between): proxy.name for proxy in _splitting(scenario.path.proxy)}
    inner = [split.get((a.name, b.name), f"{a.name}-{b.name}") for a, b in pairwise(segments)]
    line = ["client", *inner, "server"]
    between: list[NodeKind] = ["proxy" if name in split.values() else "router" for name in inner]
    kinds: list[NodeKind] = ["router" if own else "host", *between, "host"]
    nodes: list[NodeSpec] = [{"name": name, "kind": kind} for name, kind in zip(line, kinds, strict=True)]
    for place, node in enumerate(nodes):
        beside = [segment.hold for segment in segments[max(place - 1, 0) : place + 1]]
        held = next((hold for hold in beside if hold is not None), None)
        if held is not None:
            node["hold_bytes"] = held.bytes
    edges = [_edge(s.name, a, b, s) for s, a, b in zip(segments, line, line[1:], strict=False)]
    ends: dict[str, tuple[str, str]] = {}
    for flow in scenario.flow:
        alike = _edge("", "", "client", flow.access, flow.name)
        for name in flow.names:
            ends[name] = ("client", "server")
            if own:
                host = f"{name}.client"
                nodes.append({"name": host, "kind": "host"})
                edges.append(replace(alike, name=access_of(name), client_side=host))
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
    """Name of the link that only this flow crosses."""
    return f"{flow}.access"


def _graph(graph: Graph, scenario: Scenario) -> tuple[list[NodeSpec], list[Edge], dict[str, tuple[str, str]]]:
    nodes: list[NodeSpec] = [{"name": node.name, "kind": node.role} for node in graph.node]
    for spec, node in zip(nodes, graph.node, strict=True):
        if node.hold is not None:
            spec["hold_bytes"] = node.hold.bytes
    edges = [_edge(link.name, link.client_side, link.server_side, link) for link in graph.link]
    _check_linked(graph)
    ends = {name: (flow.client or "", flow.server or "") for flow in scenario.flow for name in flow.names}
    return nodes, edges, ends


def _check_linked(graph: Graph) -> None:
    """Raises ScenarioError for a host that no links lead to."""
    hosts = [node.name for node in graph.node if node.role == "host"]
    found, frontier = set(), set(hosts[:1])
    while frontier:
        found |= frontier
        ends = [(link.client_side, link.server_side) for link in graph.link]
        frontier = {b if a in found else a for a, b in ends if (a in found) != (b in found)}
    for host in hosts:
        if host not in found:
            raise ScenarioError([(f"graph.{host}", f'no links lead to it from "{hosts[0]}"; expected some')])


def key_of(edge: Edge, scenario: Scenario) -> str:
    """Dotted key of a link in its scenario, for errors."""
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
    """The ways of each flow while these links are not in use, each once; over all links where none ever leads there.
    Those of a group differ in their access alone."""
    found: dict[str, list[Route]] = {}
    for flow in scenario.flow:
        first, *others = flow.names
        found[first] = _ways(edges, unused, ends[first], flow.name, hosts)
        if not any(edge == access_of(first) for way in found[first] for edge, _ in way):
            found |= dict.fromkeys(others, found[first])
            continue
        for name in others:
            own = {access_of(first): access_of(name)}
            found[name] = [[(own.get(edge, edge), forward) for edge, forward in way] for way in found[first]]
    return found


def _ways(
    edges: list[Edge], unused: Sequence[set[str]], ends: tuple[str, str], flow: str, hosts: frozenset[str]
) -> list[Route]:
    found: list[Route] = []
    for without in unused if any(unused) else ():
        used = [edge for edge in edges if edge.name not in without]
        way = _reached(used, *ends, hosts).get(ends[1])
        if way is not None and way not in found:
            found.append(way)
    return found or [shortest(edges, *ends, flow, hosts)]


def leads(edges: list[Edge], ends: tuple[str, str], hosts: frozenset[str], unused: set[str]) -> bool:
    """Whether a way leads from one end to the other while these links are not in use."""
    used = [edge for edge in edges if edge.name not in unused]
    return ends[1] in _reached(used, *ends, hosts)


def shortest(
    edges: list[Edge], client: str, server: str, flow: str, hosts: frozenset[str] = frozenset()
) -> list[tuple[str, bool]]:
    """Links from client to server with the fewest hops (then in the order of the scenario); no way leads through
    ``hosts``, which pass nothing on."""
    reached = _reached(edges, client, server, hosts)
    if server in reached:
        return reached[server]
    through = _reached(edges, client, server, frozenset()).get(server)
    if through is None:
        text = f'no way from "{client}" to "{server}", expected links between them'
        raise ScenarioError([(f"flow.{flow}", text)])
    ends = {end for name, _ in through for edge in edges if edge.name == name
            for end in (edge.client_side, edge.server_side)}  # fmt: skip
    between = sorted((ends & hosts) - {client, server})
    text = f'no way from "{client}" to "{server}": {", ".join(between)} between them '
    text += "is a host, which passes nothing on" if len(between) == 1 else "are hosts, which pass nothing on"
    raise ScenarioError([(f"graph.{between[0]}", f'{text}; did you mean kind = "router"?')])


def _reached(
    edges: list[Edge], client: str, server: str, hosts: frozenset[str]
) -> dict[str, list[tuple[str, bool]]]:
    leaving: dict[str, list[tuple[Edge, str, bool]]] = {}
    for edge in edges:
        leaving.setdefault(edge.client_side, []).append((edge, edge.server_side, True))
        leaving.setdefault(edge.server_side, []).append((edge, edge.client_side, False))
    reached: dict[str, list[tuple[str, bool]]] = {client: []}
    frontier = [client]
    while frontier and server not in reached:
        ahead: list[str] = []
        for node in frontier:
            if node in hosts and node != client:
                continue
            for edge, there, forward in leaving.get(node, ()):
                if there not in reached:
                    reached[there] = [*reached[node], (edge.name, forward)]
                    ahead.append(there)
        frontier = ahead
    return reached


def _round_trip(edge: Edge, files: Files, scenario: Scenario) -> int:
    key = key_of(edge, scenario)
    ways = (("up", edge.up), ("down", edge.down))
    return sum(base_delay_ns(one, files, f"{key}.{side}") for side, one in ways if one is not None)


def base_rtts(
    edges: list[Edge], ways: Mapping[str, list[tuple[str, bool]]], scenario: Scenario, files: Files
) -> dict[str, int]:
    """The round trip that "1 BDP" means at each link: propagation over the whole path, accesses left out.

    In a graph it is the longest round trip of the flows that cross the link.
    """
    same: dict[int, int] = {}  # accesses of a group are one table
    for one in edges:
        if id(one.up) not in same:
            same[id(one.up)] = _round_trip(one, files, scenario)
    trips = {one.name: same[id(one.up)] for one in edges}
    if scenario.path is not None:
        whole = sum(trips[segment.name] for segment in scenario.path.segment)
        return {one.name: whole + (trips[one.name] if one.owner else 0) for one in edges}
    longest: dict[str, int] = {}
    for way in ways.values():
        trip = sum(trips[name] for name, _ in way)
        for name, _ in way:
            longest[name] = max(trip, longest.get(name, 0))
    return trips | longest


def proxies_of(scenario: Scenario) -> dict[str, Proxy | Node]:
    """Proxies of a path or a graph, by key."""
    if scenario.path is not None:
        return {f"path.{proxy.name}": proxy for proxy in _splitting(scenario.path.proxy)}
    nodes = scenario.graph.node if scenario.graph is not None else []
    return {f"graph.{node.name}": node for node in nodes if node.role == "proxy"}


def proxy_keys(scenario: Scenario) -> dict[str, str]:
    """Keys of the proxies, by the nodes at which they stand."""
    return {proxy.name: key for key, proxy in proxies_of(scenario).items()}


def _splitting(proxies: Sequence[Proxy]) -> list[Proxy]:
    return [proxy for proxy in proxies if proxy.splits]


def stops(scenario: Scenario) -> set[str]:
    """Nodes at which a TCP connection ends: hosts, and proxies that split."""
    if scenario.graph is not None:
        return {node.name for node in scenario.graph.node if node.role != "router"}
    proxies = scenario.path.proxy if scenario.path is not None else []
    return {"client", "server", *(proxy.name for proxy in _splitting(proxies))}


def next_tcp_endpoint(
    node: str, side: str, edges: list[Edge], hops: dict[tuple[str, str], Hop], stops: set[str]
) -> NextTcpEndpoint | None:
    """What lies between a proxy and the next proxy or host; None where the way forks."""
    crossed: list[str] = []
    at = node
    while at == node or at not in stops:
        ahead = [edge for edge in edges if (edge.server_side if side == "down" else edge.client_side) == at]
        if len(ahead) != 1 or ahead[0].name in crossed:
            return None
        crossed.append(ahead[0].name)
        at = ahead[0].client_side if side == "down" else ahead[0].server_side
    rates = [rate.bit_s for name in crossed if (rate := hops[name, side].rate) is not None]
    rtt = sum(hops[name, way].delay_ns for name in crossed for way in ("up", "down"))
    return NextTcpEndpoint(min(rates, default=None), rtt)
