"""Changes at given instants: stages, links in use and routes, computed from the scenario alone."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

__all__ = ["InFlightEvents", "Pauses", "Routing", "Spec", "merge_changes", "step_function"]

Spec = Mapping[str, Any]


def step_function(first: Any, changes: Sequence[tuple[int, Any]]) -> Callable[[int], Any]:
    """Return a function of time: ``first``, then the value of each change from its instant on.

    Args:
        first: value before the first change.
        changes: instants in ns, in order, each with the value that begins there.
    """
    instants, values = [change[0] for change in changes], [first, *(change[1] for change in changes)]
    return lambda instant: values[bisect_right(instants, instant)]


def merge_changes(graph: Spec, direction: str, stages: Sequence[Spec]) -> list[dict[str, Any]]:
    """Return copies of ``stages`` of one link direction, each with all its changes.

    Changes of handovers join the changes of the stage, ``limits`` of its queue, ``serves`` and ``in_flight``.
    """
    result = [deepcopy(dict(stage)) for stage in stages]
    for event in graph.get("changes", []):
        at = event["at_ns"]
        for stage_change in event.get("stages", []):
            if stage_change["simplex_link"] != direction:
                continue
            stage, change = result[stage_change["stage"]], dict(stage_change["update"])
            kind = change.pop("kind")
            if kind == "limit":
                stage.setdefault("limits", []).append((at, change["limit"]))
            elif kind == "enabled":
                stage.setdefault("serves", []).append((at, change["enabled"]))
            elif kind == "in_flight":
                stage.setdefault("in_flight", []).append((at, change["policy"]))
            else:
                owner = stage.get("service", stage)
                owner.setdefault("changes", []).append({"at_ns": at, **change})
                # The sort is stable: at one instant the change of the handover comes last.
                owner["changes"].sort(key=lambda change: change["at_ns"])
    return result


class Pauses:
    """Intervals in which a transmitter serves no packet."""

    def __init__(self, stage: Spec) -> None:
        self.spans: list[tuple[int, int | None]] = []
        """Start and end of each pause in ns; end None: to the end of the run."""
        for instant, serves in stage.get("serves", []):
            open_ = self.spans[-1] if self.spans and self.spans[-1][1] is None else None
            if not serves and open_ is None:
                self.spans.append((instant, None))
            elif serves and open_ is not None:
                self.spans[-1] = (open_[0], instant)
        self.starts = [start for start, _ in self.spans]

    def next_service(self, instant: int) -> int | None:
        """Return the first instant from ``instant`` on at which a service may begin; None: no such instant."""
        index = bisect_right(self.starts, instant) - 1
        if index < 0:
            return instant
        end = self.spans[index][1]
        return None if end is None else max(instant, end)


class InFlightEvents:
    """Events of handovers that delay or drop the packets inside a stage."""

    def __init__(self, stage: Spec) -> None:
        self.events: list[tuple[int, str]] = [(at, policy) for at, policy in stage.get("in_flight", [])]
        self.losses = [at for at, policy in self.events if policy == "drop"]
        self.next = 0
        self.floor = self.last = 0

    def lost_at(self, arrival: int, due: int) -> int | None:
        """Return the instant at which a packet was lost; None: it was not.

        Args:
            arrival: arrival of the packet in ns.
            due: departure of the packet without a loss in ns.
        """
        first = bisect_right(self.losses, arrival)
        return self.losses[first] if first < len(self.losses) and self.losses[first] <= due else None

    def ordered_departure(self, arrival: int, due: int) -> int:
        """Return the departure of a packet that keeps the order; call in order of arrival."""
        while self.next < len(self.events) and self.events[self.next][0] <= arrival:
            at, policy = self.events[self.next]
            self.next += 1
            if policy == "in_order":
                self.floor = max(self.floor, self.last)
            else:
                self.floor = at
                self.last = at if policy == "drop" else self.last
        self.floor = max(self.floor, due)
        self.last = max(self.last, self.floor)
        return self.floor


class Routing:
    """Next hops at every instant."""

    def __init__(self, graph: Spec) -> None:
        self.kinds = {node["name"]: node["kind"] for node in graph["nodes"]}
        self.ends = {
            f"{link['name']}.{side}": (link[start], link[end])
            for link in graph["links"]
            for side, start, end in (
                ("up", "client_side", "server_side"),
                ("down", "server_side", "client_side"),
            )
        }
        self.buffer_nodes = {
            node["name"] for node in graph["nodes"] if node.get("store_and_forward_bytes") is not None
        }
        self.instants: list[int] = [0]
        self.unused: list[frozenset[str]] = [frozenset()]
        self.rules: list[dict[tuple[str, str], str | None]] = [{}]
        for event in graph.get("changes", []):
            self._add(event)
        self.distances: dict[tuple[frozenset[str], str], dict[str, int]] = {}
        self.allowed: dict[tuple[int, str, str], bool] = {}

    def _add(self, event: Spec) -> None:
        unused, rules = set(self.unused[-1]), dict(self.rules[-1])
        for change in event.get("links", []):
            (unused.discard if change["enabled"] else unused.add)(change["link"])
        for change in event.get("routes", []):
            key, route = (change["node"], change["to"]), change["route"]
            if route == "shortest":
                rules.pop(key, None)
            else:
                rules[key] = None if route == "no_route" else route["link"]
        self.instants.append(event["at_ns"])
        self.unused.append(frozenset(unused))
        self.rules.append(rules)

    def has_route(self, instant: int, node: str, to: str) -> bool:
        """Return whether ``node`` had a route to ``to``."""
        version = bisect_right(self.instants, instant) - 1
        if (node, to) in self.rules[version]:
            return self.rules[version][node, to] is not None
        return node in self._distances(self.unused[version], to)

    def can_forward(self, instant: int, node: str, to: str) -> bool:
        """Return whether ``node`` forwarded packets: it had a route, or a later node with a buffer stored them."""
        return self.has_route(instant, node, to) or self._hop_to_buffer(instant, node, to) is not None

    def next_forwarding(self, since: int, node: str, to: str) -> int | None:
        """Return the first change after ``since`` from which ``node`` forwards packets; None: no such change."""
        later = self.instants[bisect_right(self.instants, since) :]
        return next((instant for instant in later if self.can_forward(instant, node, to)), None)

    def allows(self, instant: int, direction: str, to: str) -> bool:
        """Return whether a packet for ``to`` at the start of ``direction`` may cross it."""
        version = bisect_right(self.instants, instant) - 1
        key = (version, direction, to)
        if key not in self.allowed:
            self.allowed[key] = self._allows(version, direction, to)
        return self.allowed[key]

    def _allows(self, version: int, direction: str, to: str) -> bool:
        instant = self.instants[version]
        start, link = self.ends[direction][0], direction.rpartition(".")[0]
        if link in self.unused[version]:
            return False
        if not self.has_route(instant, start, to):
            return self._hop_to_buffer(instant, start, to) == direction
        if (start, to) in self.rules[version]:
            return self.rules[version][start, to] == link
        return self._is_shorter(direction, self._distances(self.unused[version], to), to)

    def _is_shorter(self, direction: str, distances: Mapping[str, int], to: str) -> bool:
        start, end = self.ends[direction]
        is_forwarder = end == to or self.kinds[end] != "host"
        return (
            is_forwarder
            and start in distances
            and end in distances
            and distances[end] + 1 == distances[start]
        )

    def _hop_to_buffer(self, instant: int, node: str, to: str) -> str | None:
        """Return the direction towards the last reachable store-and-forward node on the shortest path.

        The path counts all links, in use or not, and ends at the first link that is not in use.
        """
        if not self.buffer_nodes:
            return None
        version = bisect_right(self.instants, instant) - 1
        distances = self._distances(frozenset(), to)
        first_hop = last = None
        while (node, to) not in self.rules[version]:
            directions = (direction for direction, (start, _) in self.ends.items() if start == node)
            direction = next(
                (direction for direction in directions if self._is_shorter(direction, distances, to)), None
            )
            if direction is None or direction.rpartition(".")[0] in self.unused[version]:
                break
            first_hop = first_hop or direction
            node = self.ends[direction][1]
            if node in self.buffer_nodes and not self.has_route(instant, node, to):
                last = first_hop
        return last

    def _distances(self, unused: frozenset[str], to: str) -> dict[str, int]:
        """Return the links from each node to ``to``.

        Links that are not in use do not count. Hosts do not forward.
        """
        cached = self.distances.get((unused, to))
        if cached is not None:
            return cached
        predecessors = defaultdict(list)
        for direction, (start, end) in self.ends.items():
            if direction.rpartition(".")[0] not in unused:
                predecessors[end].append(start)
        distances, frontier = {to: 0}, deque([to])
        while frontier:
            node = frontier.popleft()
            if node == to or self.kinds[node] != "host":
                for predecessor in predecessors[node]:
                    if predecessor not in distances:
                        distances[predecessor] = distances[node] + 1
                        frontier.append(predecessor)
        self.distances[unused, to] = distances
        return distances
