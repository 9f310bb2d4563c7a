"""What changes at instants: stages, links in use, and ways; from the scenario alone."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

__all__ = ["Fates", "Pauses", "Spec", "Versions", "changed", "stepped"]

Spec = Mapping[str, Any]


def stepped(first: Any, changes: Sequence[tuple[int, Any]]) -> Callable[[int], Any]:
    """The value at an instant, of one that changes at instants in order."""
    at, values = [one[0] for one in changes], [first, *(one[1] for one in changes)]
    return lambda when: values[bisect_right(at, when)]


def changed(graph: Spec, line: str, stages: Sequence[Spec]) -> list[dict[str, Any]]:
    """``stages`` of ``line``, each with all its changes: those that hand-overs make are among its own, as
    ``limits`` of its queue and as ``in_flight``."""
    result = [deepcopy(dict(stage)) for stage in stages]
    for event in graph.get("changes", []):
        at = event["at_ns"]
        for one in event.get("stages", []):
            if one["line"] != line:
                continue
            stage, change = result[one["stage"]], dict(one["change"])
            kind = change.pop("kind")
            if kind == "limit":
                stage.setdefault("limits", []).append((at, change["limit"]))
            elif kind == "serves":
                stage.setdefault("serves", []).append((at, change["serves"]))
            elif kind == "in_flight":
                stage.setdefault("in_flight", []).append((at, change["fate"]))
            else:
                holder = stage.get("service", stage)
                holder.setdefault("changes", []).append({"at_ns": at, **change})
                # Of one instant the hand-over's comes last: sorting keeps their order.
                holder["changes"].sort(key=lambda change: change["at_ns"])
    return result


class Pauses:
    """When a transmitter serves nobody."""

    def __init__(self, stage: Spec) -> None:
        self.spans: list[tuple[int, int | None]] = []
        """From when to when; None: to the end of the run."""
        for at, serves in stage.get("serves", []):
            open_ = self.spans[-1] if self.spans and self.spans[-1][1] is None else None
            if not serves and open_ is None:
                self.spans.append((at, None))
            elif serves and open_ is not None:
                self.spans[-1] = (open_[0], at)
        self.starts = [start for start, _ in self.spans]

    def after(self, at: int) -> int | None:
        """The first instant from ``at`` on at which a service may begin; None: there is none."""
        found = bisect_right(self.starts, at) - 1
        if found < 0:
            return at
        end = self.spans[found][1]
        return None if end is None else max(at, end)


class Fates:
    """What became when of the packets inside a stage."""

    def __init__(self, stage: Spec) -> None:
        self.events: list[tuple[int, str]] = [(at, fate) for at, fate in stage.get("in_flight", [])]
        self.losses = [at for at, fate in self.events if fate == "lost"]
        self.next = 0
        self.floor = self.last = 0

    def lost(self, came: int, due: int) -> int | None:
        """When a packet was lost that came at ``came`` and was to go on at ``due``."""
        first = bisect_right(self.losses, came)
        return self.losses[first] if first < len(self.losses) and self.losses[first] <= due else None

    def after(self, came: int, due: int) -> int:
        """When a packet leaves in order that is asked for in order of arrival."""
        while self.next < len(self.events) and self.events[self.next][0] <= came:
            at, fate = self.events[self.next]
            self.next += 1
            if fate == "in_order":
                self.floor = max(self.floor, self.last)
            else:
                self.floor = at
                self.last = at if fate == "lost" else self.last
        self.floor = max(self.floor, due)
        self.last = max(self.last, self.floor)
        return self.floor


class Versions:
    """Who is next on the way to whom, at every instant."""

    def __init__(self, graph: Spec) -> None:
        self.kinds = {node["name"]: node["kind"] for node in graph["nodes"]}
        self.ends = {
            f"{link['name']}.{way}": (link[start], link[end])
            for link in graph["links"]
            for way, start, end in (
                ("up", "client_side", "server_side"),
                ("down", "server_side", "client_side"),
            )
        }
        self.holding = {node["name"] for node in graph["nodes"] if node.get("hold_bytes") is not None}
        self.at: list[int] = [0]
        self.unused: list[frozenset[str]] = [frozenset()]
        self.rules: list[dict[tuple[str, str], str | None]] = [{}]
        for event in graph.get("changes", []):
            self._add(event)
        self.distances: dict[tuple[frozenset[str], str], dict[str, int]] = {}
        self.allowed: dict[tuple[int, str, str], bool] = {}

    def _add(self, event: Spec) -> None:
        unused, rules = set(self.unused[-1]), dict(self.rules[-1])
        for one in event.get("links", []):
            (unused.discard if one["in_use"] else unused.add)(one["link"])
        for one in event.get("ways", []):
            place, way = (one["node"], one["to"]), one["way"]
            if way == "shortest":
                rules.pop(place, None)
            else:
                rules[place] = None if way == "none" else way["link"]
        self.at.append(event["at_ns"])
        self.unused.append(frozenset(unused))
        self.rules.append(rules)

    def leads(self, at: int, node: str, to: str) -> bool:
        """Whether a way led from ``node`` to ``to`` at ``at``."""
        version = bisect_right(self.at, at) - 1
        if (node, to) in self.rules[version]:
            return self.rules[version][node, to] is not None
        return node in self._distances(self.unused[version], to)

    def goes_on(self, at: int, node: str, to: str) -> bool:
        """Whether a packet did not stay at ``node``: a way led on, or a node further on held it."""
        return self.leads(at, node, to) or self._onward(at, node, to) is not None

    def opens(self, since: int, node: str, to: str) -> int | None:
        """The first change after ``since`` from which packets for ``to`` go on from ``node``; None: there is none."""
        later = self.at[bisect_right(self.at, since) :]
        return next((at for at in later if self.goes_on(at, node, to)), None)

    def allows(self, at: int, line: str, to: str) -> bool:
        """Whether a packet for ``to`` goes on over ``line`` that is at its start at ``at``."""
        version = bisect_right(self.at, at) - 1
        asked = (version, line, to)
        if asked not in self.allowed:
            self.allowed[asked] = self._allows(version, line, to)
        return self.allowed[asked]

    def _allows(self, version: int, line: str, to: str) -> bool:
        at = self.at[version]
        start, link = self.ends[line][0], line.rpartition(".")[0]
        if link in self.unused[version]:
            return False
        if not self.leads(at, start, to):
            return self._onward(at, start, to) == line
        if (start, to) in self.rules[version]:
            return self.rules[version][start, to] == link
        return self._nearer(line, self._distances(self.unused[version], to), to)

    def _nearer(self, line: str, far: Mapping[str, int], to: str) -> bool:
        start, end = self.ends[line]
        passes = end == to or self.kinds[end] != "host"
        return passes and start in far and end in far and far[end] + 1 == far[start]

    def _onward(self, at: int, node: str, to: str) -> str | None:
        """The line towards a node that holds: along the way over all links, in use or not, as far as they are."""
        if not self.holding:
            return None
        version = bisect_right(self.at, at) - 1
        far = self._distances(frozenset(), to)
        first = found = None
        while (node, to) not in self.rules[version]:
            out = (line for line, (start, _) in self.ends.items() if start == node)
            line = next((line for line in out if self._nearer(line, far, to)), None)
            if line is None or line.rpartition(".")[0] in self.unused[version]:
                break
            first = first or line
            node = self.ends[line][1]
            if node in self.holding and not self.leads(at, node, to):
                found = first
        return found

    def _distances(self, unused: frozenset[str], to: str) -> dict[str, int]:
        """Links from each node to ``to``, but for those that are not in use, over nodes that pass packets on."""
        known = self.distances.get((unused, to))
        if known is not None:
            return known
        near = defaultdict(list)
        for line, (start, end) in self.ends.items():
            if line.rpartition(".")[0] not in unused:
                near[end].append(start)
        far, frontier = {to: 0}, deque([to])
        while frontier:
            node = frontier.popleft()
            if node == to or self.kinds[node] != "host":
                for other in near[node]:
                    if other not in far:
                        far[other] = far[node] + 1
                        frontier.append(other)
        self.distances[unused, to] = far
        return far
