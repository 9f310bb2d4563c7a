"""Events of bundles in a run, and the specification of nodes, contacts and clients.

Instants are whole nanoseconds since the start of the run.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.trace_check.handovers import Spec, merge_changes
from bentpipe.trace_check.trace import nanoseconds

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "TABLES",
    "BundleTrace",
    "Contact",
    "Event",
    "Id",
    "Links",
    "contacts",
    "node_of",
    "read_bundle_trace",
]

TABLES = ("bundles", "bundle_routes", "bundle_status_reports", "bundle_store")
"""Tables of the nodes."""


class Id(NamedTuple):
    """Identity of a bundle, or with an offset of a fragment."""

    source: str
    created_ms: int
    sequence: int
    offset: int | None

    @property
    def whole(self) -> Id:
        """Bundle itself, or the bundle that the fragment is a part of."""
        return self._replace(offset=None)

    def __str__(self) -> str:
        part = "" if self.offset is None else f" from byte {self.offset} on"
        return f"{self.source} no. {self.sequence}{part}"


@dataclass(frozen=True, slots=True)
class Event:
    """Row of the table of bundles."""

    instant: int
    node: str
    action: str
    kind: str
    id: Id
    destination: str
    bytes: int
    peer: str
    reason: str


@dataclass
class BundleTrace:
    """Tables of the bundle nodes of a run, and the specification."""

    spec: Spec
    events: list[Event]
    routes: list[dict[str, Any]]
    reports: list[dict[str, Any]]
    stored: list[dict[str, Any]]
    at_node: dict[tuple[str, Id], list[Event]] = field(default_factory=lambda: defaultdict(list))
    """Events of each bundle and fragment at each node, in order."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Names of nodes by their node ids."""
    clients: dict[str, Spec] = field(default_factory=dict)
    """Specifications of dtnperf clients by their endpoints."""

    @property
    def dtn(self) -> Spec:
        """Part of the specification about bundle nodes."""
        found: Spec = self.spec["dtn"]
        return found

    @property
    def end(self) -> int:
        """End of the run in ns."""
        return int(self.spec["duration_ns"])

    def since_epoch(self, milliseconds: int) -> int:
        """Return the instant in ns of a creation time in ms since the DTN epoch."""
        return (milliseconds - int(self.dtn["epoch_ms"])) * 1_000_000

    def client_of(self, event: Event) -> Spec | None:
        """Return the client of a bundle; for an acknowledgement, the client of the acknowledged bundle."""
        return self.clients.get(event.id.source) or self.clients.get(event.destination)

    def is_critical(self, event: Event) -> bool:
        """Return whether the bundle is sent to every neighbour, or to every neighbour with a route."""
        client = self.client_of(event)
        return "epidemic" in self.dtn or bool(client and client["critical"])


def node_of(endpoint: str) -> str:
    """Return the node id of an endpoint (RFC 9171 section 4.2.5.2)."""
    if found := re.fullmatch(r"(ipn:(?:\d+\.)?\d+)\.\d+", endpoint):
        return f"{found[1]}.0"
    found = re.match(r"dtn://[^/]+/", endpoint)
    return found[0] if found else endpoint


def bundle_id(row: Mapping[str, Any]) -> Id:
    """Return the bundle of a row."""
    offset = row.get("offset_bytes")
    return Id(
        row["source"], int(row["created_ms"]), int(row["sequence"]), None if offset is None else int(offset)
    )


def read_bundle_trace(spec: Spec, tables: Mapping[str, pl.DataFrame]) -> BundleTrace:
    """Read the bundle tables of a run; a missing table has no rows."""

    def rows(name: str) -> list[dict[str, Any]]:
        return tables[name].to_dicts() if name in tables else []

    events = [
        Event(
            nanoseconds(row["time_s"]) or 0, row["node"], row["event"], row["kind"], bundle_id(row),
            row["destination"], int(row["payload_bytes"]), row["peer"], row["reason"],
        )
        for row in rows("bundles")
    ]  # fmt: skip
    trace = BundleTrace(
        spec, events, rows("bundle_routes"), rows("bundle_status_reports"), rows("bundle_store")
    )
    for event in events:
        trace.at_node[event.node, event.id].append(event)
    eids = {node["name"]: node["eid"] for node in spec["dtn"]["nodes"]}
    trace.nodes = {eid: name for name, eid in eids.items()}
    for number, perf in enumerate(spec["dtn"].get("perf", [])):
        client_eid = eids[perf["client"]]
        # Clients have services 3000 and up, in the order of the specification.
        name = (
            f"{client_eid}dtnperf/client-{number}"
            if client_eid.startswith("dtn:")
            else f"{client_eid[:-1]}{3000 + number}"
        )
        trace.clients[name] = perf
    return trace


@dataclass(frozen=True, slots=True)
class Contact:
    """Contact, with the interval in which nodes know it."""

    start: int
    stop: int
    from_: str
    to: str
    name: str
    """Name of the contact."""
    added: int
    removed: int


def contacts(trace: BundleTrace) -> list[Contact]:
    """Return all contacts that nodes knew at any time."""
    result: list[Contact] = []

    def add(contact: Spec, since: int) -> None:
        fields = (
            int(contact["start_ns"]),
            int(contact["stop_ns"]),
            contact["from"],
            contact["to"],
            contact["declared_at"],
        )
        result.append(Contact(*fields, since, trace.end + 1))

    for contact in trace.dtn["plan"]["contacts"]:
        add(contact, 0)
    for change in sorted(trace.dtn.get("changes", []), key=lambda change: int(change["at_ns"])):
        instant = int(change["at_ns"])
        for index, contact in enumerate(result):
            if contact.name in change.get("remove", []) and contact.removed > instant:
                result[index] = Contact(
                    contact.start,
                    contact.stop,
                    contact.from_,
                    contact.to,
                    contact.name,
                    contact.added,
                    instant,
                )
        for contact in change.get("add", []):
            add(contact, instant)
    return result


class Links:
    """Minimum times in which links carry bytes from node to node, without losses and queueing."""

    def __init__(self, graph: Spec) -> None:
        self._links: dict[str, list[tuple[str, int, int | None]]] = defaultdict(list)
        for link in graph["links"]:
            ends = (link["client_side"], link["server_side"])
            for side, (start, end) in (("up", ends), ("down", ends[::-1])):
                stages = merge_changes(graph, f"{link['name']}.{side}", link[side])
                rates = [rate for rate in map(_rate, stages) if rate is not None]
                self._links[start].append((end, sum(map(_delay, stages)), min(rates, default=None)))
        self._delays: dict[str, dict[str, int]] = {}
        self._rates: dict[str, dict[str, int | None]] = {}

    def min_time(self, start: str, end: str, bytes_: int = 0) -> int:
        """Return the minimum time in ns: fastest path, plus transmission at the widest path."""
        if start not in self._delays:
            self._delays[start] = dict(self._shortest_delays(start))
            self._rates[start] = dict(self._widest(start))
        rate = self._rates[start].get(end)
        return self._delays[start].get(end, 0) + (0 if rate is None else bytes_ * 8 * 10**9 // rate)

    def _shortest_delays(self, start: str) -> Iterator[tuple[str, int]]:
        visited: set[str] = set()
        heap = [(0, start)]
        while heap:
            delay, node = heapq.heappop(heap)
            if node in visited:
                continue
            visited.add(node)
            yield node, delay
            for end, link_delay, _ in self._links[node]:
                heapq.heappush(heap, (delay + link_delay, end))

    def _widest(self, start: str) -> Iterator[tuple[str, int | None]]:
        visited: set[str] = set()
        # A path without a rate is the widest.
        heap: list[tuple[int, int, str]] = [(0, 0, start)]
        while heap:
            limited, slowness, node = heapq.heappop(heap)
            if node in visited:
                continue
            visited.add(node)
            yield node, -slowness if limited else None
            for end, _, rate in self._links[node]:
                if rate is None:
                    heapq.heappush(heap, (limited, slowness, end))
                else:
                    heapq.heappush(heap, (1, max(slowness, -rate) if limited else -rate, end))


def _delay(stage: Spec) -> int:
    """Return the minimum delay of a stage in ns; 0 for other kinds."""
    if stage["kind"] == "delay":
        return min(
            int(change["delay_ns"])
            for change in (stage, *stage.get("changes", []))
            if change.get("delay_ns") is not None
        )
    if stage["kind"] == "netem":
        return int(stage.get("delay_ns") or 0)
    if stage["kind"] == "delay_trace":
        return min(int(point[1]) for point in stage["points"])
    return 0


def _rate(stage: Spec) -> int | None:
    """Return the maximum rate of a stage in bit/s; None: it has none."""
    if stage["kind"] == "netem":
        return int(stage["rate_bit_s"]) if stage.get("rate_bit_s") and not stage.get("changes") else None
    service = stage.get("service", {})
    if stage["kind"] != "transmit" or service.get("kind") != "rate":
        return None
    changes = [one["rate_bit_s"] for one in service.get("changes", []) if one.get("rate_bit_s") is not None]
    return max(int(service["rate_bit_s"]), *map(int, changes), 1)
