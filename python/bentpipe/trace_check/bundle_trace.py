"""Bundles as a run's tables tell of them, and what its specification says of their nodes, contacts and clients.

Instants are whole nanoseconds since the start of the run. Reading order of what looks at them: ``storing``,
``forwarding``, ``acknowledging``.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.trace_check.handovers import Spec, changed
from bentpipe.trace_check.trace import nanoseconds

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TABLES", "Contact", "Event", "Id", "Links", "Told", "contacts", "node_of", "told"]

TABLES = ("bundles", "routes", "reports", "stored")


class Id(NamedTuple):
    """A bundle, or with an offset a fragment of one."""

    source: str
    created_ms: int
    sequence: int
    offset: int | None

    @property
    def whole(self) -> Id:
        """The bundle that it is, or is a part of."""
        return self._replace(offset=None)

    def __str__(self) -> str:
        part = "" if self.offset is None else f" from byte {self.offset} on"
        return f"{self.source} no. {self.sequence}{part}"


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the table of bundles."""

    at: int
    node: str
    what: str
    kind: str
    id: Id
    destination: str
    bytes: int
    peer: str
    reason: str


@dataclass
class Told:
    """What is told of bundles in a run, and what was asked for."""

    spec: Spec
    events: list[Event]
    routes: list[dict[str, Any]]
    reports: list[dict[str, Any]]
    stored: list[dict[str, Any]]
    at_node: dict[tuple[str, Id], list[Event]] = field(default_factory=lambda: defaultdict(list))
    """Of each bundle and fragment at each node, in the order in which it happened."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Names of nodes by their node ids."""
    clients: dict[str, Spec] = field(default_factory=dict)
    """What clients were asked for, by their endpoints."""

    @property
    def dtn(self) -> Spec:
        """The part of the specification that is about bundle nodes."""
        found: Spec = self.spec["dtn"]
        return found

    @property
    def end(self) -> int:
        """The end of the run."""
        return int(self.spec["duration_ns"])

    def since_epoch(self, milliseconds: int) -> int:
        """An instant of bundles' clocks."""
        return (milliseconds - int(self.dtn["epoch_ms"])) * 1_000_000

    def client_of(self, event: Event) -> Spec | None:
        """Whose bundle it is; of an acknowledgement, whose bundle is acknowledged."""
        return self.clients.get(event.id.source) or self.clients.get(event.destination)

    def critical(self, event: Event) -> bool:
        """Whether it goes to every neighbour, or to every one with a route."""
        client = self.client_of(event)
        return "epidemic" in self.dtn or bool(client and client["critical"])


def node_of(endpoint: str) -> str:
    """The node id of an endpoint (RFC 9171 section 4.2.5.2)."""
    if found := re.fullmatch(r"(ipn:(?:\d+\.)?\d+)\.\d+", endpoint):
        return f"{found[1]}.0"
    found = re.match(r"dtn://[^/]+/", endpoint)
    return found[0] if found else endpoint


def identity(row: Mapping[str, Any]) -> Id:
    """The bundle of a row."""
    offset = row.get("offset_bytes")
    return Id(
        row["source"], int(row["created_ms"]), int(row["sequence"]), None if offset is None else int(offset)
    )


def told(spec: Spec, tables: Mapping[str, pl.DataFrame]) -> Told:
    """What ``tables`` say of the bundles of a run; a table that is not there has no rows."""

    def rows(name: str) -> list[dict[str, Any]]:
        return tables[name].to_dicts() if name in tables else []

    events = [
        Event(
            nanoseconds(row["time_s"]) or 0, row["node"], row["event"], row["kind"], identity(row),
            row["destination"], int(row["payload_bytes"]), row["peer"], row["reason"],
        )
        for row in rows("bundles")
    ]  # fmt: skip
    found = Told(spec, events, rows("routes"), rows("reports"), rows("stored"))
    for event in events:
        found.at_node[event.node, event.id].append(event)
    eids = {node["name"]: node["eid"] for node in spec["dtn"]["nodes"]}
    found.nodes = {eid: name for name, eid in eids.items()}
    for number, perf in enumerate(spec["dtn"].get("perf", [])):
        own = eids[perf["client"]]
        # Clients have services 3000 and up, in the order in which they are asked for.
        name = f"{own}dtnperf/client-{number}" if own.startswith("dtn:") else f"{own[:-1]}{3000 + number}"
        found.clients[name] = perf
    return found


@dataclass(frozen=True, slots=True)
class Contact:
    """A contact for as long as nodes know of it."""

    start: int
    stop: int
    from_: str
    to: str
    at: str
    """Where it is said."""
    known: int
    forgotten: int


def contacts(told: Told) -> list[Contact]:
    """All that nodes knew at any time."""
    found: list[Contact] = []

    def add(one: Spec, since: int) -> None:
        ends = int(one["start_ns"]), int(one["stop_ns"]), one["from"], one["to"], one["at"]
        found.append(Contact(*ends, since, told.end + 1))

    for one in told.dtn["plan"]["contacts"]:
        add(one, 0)
    for change in sorted(told.dtn.get("changes", []), key=lambda change: int(change["at_ns"])):
        at = int(change["at_ns"])
        for place, one in enumerate(found):
            if one.at in change.get("remove", []) and one.forgotten > at:
                found[place] = Contact(one.start, one.stop, one.from_, one.to, one.at, one.known, at)
        for one in change.get("add", []):
            add(one, at)
    return found


class Links:
    """The least time in which links can carry something from node to node, whatever they lose and whoever waits."""

    def __init__(self, graph: Spec) -> None:
        self._ways: dict[str, list[tuple[str, int, int | None]]] = defaultdict(list)
        for link in graph["links"]:
            ends = (link["client_side"], link["server_side"])
            for way, (start, end) in (("up", ends), ("down", ends[::-1])):
                stages = changed(graph, f"{link['name']}.{way}", link[way])
                rates = [rate for rate in map(_rate, stages) if rate is not None]
                self._ways[start].append((end, sum(map(_delay, stages)), min(rates, default=None)))
        self._delays: dict[str, dict[str, int]] = {}
        self._rates: dict[str, dict[str, int | None]] = {}

    def least(self, start: str, end: str, bytes_: int = 0) -> int:
        """So many bytes take that long at least: the quickest way's delay, and their time at the best way's rate."""
        if start not in self._delays:
            self._delays[start] = dict(self._quickest(start))
            self._rates[start] = dict(self._widest(start))
        rate = self._rates[start].get(end)
        return self._delays[start].get(end, 0) + (0 if rate is None else bytes_ * 8 * 10**9 // rate)

    def _quickest(self, start: str) -> Iterator[tuple[str, int]]:
        done: set[str] = set()
        heap = [(0, start)]
        while heap:
            delay, node = heapq.heappop(heap)
            if node in done:
                continue
            done.add(node)
            yield node, delay
            for end, more, _ in self._ways[node]:
                heapq.heappush(heap, (delay + more, end))

    def _widest(self, start: str) -> Iterator[tuple[str, int | None]]:
        done: set[str] = set()
        # No rate is the greatest.
        heap: list[tuple[int, int, str]] = [(0, 0, start)]
        while heap:
            limited, slowness, node = heapq.heappop(heap)
            if node in done:
                continue
            done.add(node)
            yield node, -slowness if limited else None
            for end, _, rate in self._ways[node]:
                if rate is None:
                    heapq.heappush(heap, (limited, slowness, end))
                else:
                    heapq.heappush(heap, (1, max(slowness, -rate) if limited else -rate, end))


def _delay(stage: Spec) -> int:
    """The least delay of a stage; 0 where it is not said here."""
    if stage["kind"] == "delay":
        return min(
            int(one["delay_ns"])
            for one in (stage, *stage.get("changes", []))
            if one.get("delay_ns") is not None
        )
    if stage["kind"] == "netem":
        return int(stage.get("delay_ns") or 0)
    if stage["kind"] == "delay_trace":
        return min(int(point[1]) for point in stage["points"])
    return 0


def _rate(stage: Spec) -> int | None:
    """The greatest rate of a stage that has one."""
    if stage["kind"] == "netem":
        return int(stage["rate_bit_s"]) if stage.get("rate_bit_s") and not stage.get("changes") else None
    service = stage.get("service", {})
    if stage["kind"] != "transmit" or service.get("kind") != "rate":
        return None
    changes = [one["rate_bit_s"] for one in service.get("changes", []) if one.get("rate_bit_s") is not None]
    return max(int(service["rate_bit_s"]), *map(int, changes), 1)
