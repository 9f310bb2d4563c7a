"""Checks of bundle stores: conservation of bundles, store limits, lifetimes and fragments.

Each bundle, once for each copy and node, is stored, delivered, expired or deleted with a reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bentpipe.trace_check.bundle_trace import BundleTrace, Event, Id, bundle_id, node_of
from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Finding, nanoseconds

__all__ = ["check_stores"]

_ARRIVALS = frozenset({"generated", "received", "fragment_created", "reassembled"})
_DEPARTURES = frozenset({"forwarded", "delivered", "deleted", "fragmented", "fragment_merged"})
_DUPLICATE = "it is known here"
_DEPLETED = "depleted storage"
_STOPPED = "the node stopped"
_SPREAD = "its neighbours have it"
_REFUSAL_REASONS = frozenset(
    {
        _DEPLETED, _DUPLICATE, "hop limit exceeded", "block unsupported", "missing security operation",
        "unknown security operation", "unexpected security operation", "failed security operation",
        "conflicting security operation",
    }
)  # fmt: skip
"""Reasons why a node never stores an arriving bundle."""
_REASONS = _REFUSAL_REASONS | {
    "lifetime expired", "destination endpoint unavailable", "no known route", "transmission canceled",
    "no timely contact", "block unintelligible", _STOPPED, _SPREAD,
}  # fmt: skip

OVERHEAD = 1_000
"""Maximum bytes of a bundle beside its payload: about 60 of fields, and three names."""
REPORT_LIFETIME = 60 * 10**9
"""Minimum lifetime of a status report in ns; otherwise that of its bundle."""


def check_stores(trace: BundleTrace) -> Iterator[Finding]:
    """Check all events of bundles at nodes."""
    yield from _check_sources(trace)
    yield from _check_conservation(trace)
    yield from _check_lifetimes(trace)
    yield from _check_fragments(trace)
    for node in trace.dtn["nodes"]:
        yield from _check_stops(trace, node)
        yield from _check_limit(trace, node["name"], node["store_bytes"])


def _check_sources(trace: BundleTrace) -> Iterator[Finding]:
    """Check the source of each bundle, and that its destination delivers it once."""
    generated: dict[Id, Event] = {}
    delivered: dict[Id, Event] = {}
    latest = 0
    for event in trace.events:
        if event.action not in _ARRIVALS | _DEPARTURES | {"sent", "returned", "acknowledged"}:
            yield Finding("known events", event.node, f"{event.id}: {event.action!r} has no rule here")
        if event.instant < latest:
            yield Finding("time order", event.node, f"{event.id} at {event.instant} ns, after {latest} ns")
        latest = event.instant
        source_node, destination_node = (
            trace.nodes.get(node_of(name)) for name in (event.id.source, event.destination)
        )
        if event.action == "generated":
            if event.id in generated or event.node != source_node or event.id.offset is not None:
                yield Finding(
                    "bundle origin",
                    event.node,
                    f"{event.id} was generated twice or at another node",
                )
            created = trace.since_epoch(event.id.created_ms)
            if not created <= event.instant < created + 1_000_000:
                text = f"{event.id} was generated at {event.instant} ns with creation time {created} ns"
                yield Finding("bundle origin", event.node, text)
            generated[event.id] = event
        origin = generated.get(event.id.whole)
        if origin is None:
            text = f"{event.id} was {event.action} at {event.instant} ns, before it was generated"
            yield Finding("bundle origin", event.node, text)
        elif event.destination != origin.destination or not _is_within(event, origin):
            text = f"{event.id} with {event.bytes} B for {event.destination}, generated with {origin.bytes} B"
            yield Finding("fragmentation", event.node, text)
        if event.action == "delivered":
            if event.id in delivered:
                yield Finding(
                    "single delivery", event.node, f"{event.id} at {event.instant} ns for the second time"
                )
            if event.node != destination_node or event.id.offset is not None:
                yield Finding(
                    "single delivery", event.node, f"{event.id} for {event.destination} was delivered here"
                )
            delivered[event.id] = event


def _is_within(event: Event, origin: Event) -> bool:
    """Return whether an event has all bytes of its bundle, or a fragment of them."""
    if event.id.offset is None:
        return event.bytes == origin.bytes
    return event.id.offset + event.bytes <= origin.bytes


class _BundleState:
    """State of a bundle at a node, event by event."""

    def __init__(self, node: str, id_: Id, is_critical: bool, delivered_at: int) -> None:
        """Create the state before the first event.

        ``whole`` is when the node delivered the whole bundle of a fragment, in ns; after the end of the run: never.
        """
        self.node, self.id, self.is_critical, self.delivered_at = node, id_, is_critical, delivered_at
        self.copies = self.arrival = 0
        self.delivered = self.forwarded = False
        self.sent: Counter[str] = Counter()

    def check_arrival(self, event: Event, next_event: Event | None) -> Iterator[Finding]:
        """Check an arrival; ``after`` is the next event of the bundle."""
        is_duplicate = next_event is not None and (next_event.action, next_event.reason) == (
            "deleted",
            _DUPLICATE,
        )
        is_known = self.copies > 0 or self.delivered or self.delivered_at < event.instant
        # The order within an instant is unknown, and so is when all neighbours have a critical bundle.
        is_ambiguous = self.delivered_at == event.instant or (self.is_critical and self.forwarded)
        if event.action == "received" and is_known != is_duplicate and not is_ambiguous:
            text = f"{self.id} arrived at {event.instant} ns and was " + ("new" if is_duplicate else "there")
            yield Finding("one copy per node", self.node, text)
        if is_duplicate:
            self.copies += 1
        else:
            self.copies = 1 if self.is_critical else self.copies + 1
            self.arrival, self.forwarded = event.instant, False

    def check_departure(self, event: Event) -> Iterator[Finding]:
        """Check an end, a transmission or a return."""
        self.delivered |= event.action == "delivered"
        if event.action == "deleted" and event.reason not in _REASONS:
            yield Finding("deletion reason", self.node, f"{self.id} at {event.instant} ns: {event.reason!r}")
        if event.action in ("forwarded", "returned"):
            if not self.sent[event.peer]:
                text = f"{self.id} was {event.action} by {event.peer} at {event.instant} ns"
                yield Finding("forwarding order", self.node, text)
            self.sent[event.peer] -= 1
        if event.action == "forwarded" and self.is_critical:
            self.forwarded = True
        elif event.action in _DEPARTURES:
            self.copies -= 1
            self.forwarded |= event.reason == _SPREAD
        self.sent[event.peer] += event.action == "sent"
        if self.copies < (event.action == "sent"):
            text = f"{self.id} was {event.action} at {event.instant} ns and is not at the node"
            yield Finding("one copy per node", self.node, text)
            self.copies = 0

    def check_end(self, stored: list[int | None]) -> Iterator[Finding]:
        """Check the end of the run; ``stored`` has the arrivals of the stored copies in ns."""
        count = len(stored)
        if count != self.copies and not (self.is_critical and self.forwarded and count < self.copies):
            text = f"{count} of {self.copies} copies of {self.id} are stored at the end"
            yield Finding("bundle conservation", self.node, text)
        elif count == 1 and stored != [self.arrival]:
            text = f"{self.id} is stored since {stored[0]} ns, arrived at {self.arrival} ns"
            yield Finding("bundle conservation", self.node, text)


def _check_conservation(trace: BundleTrace) -> Iterator[Finding]:
    """Check that each bundle is at a node once, and ends there once."""
    stored: dict[tuple[str, Id], list[int | None]] = defaultdict(list)
    for row in trace.stored:
        stored[row["node"], bundle_id(row)].append(nanoseconds(row["received_s"]))
    deliveries = {
        (event.node, event.id): event.instant for event in trace.events if event.action == "delivered"
    }
    for (node, bundle), events in trace.at_node.items():
        delivered_at = (
            trace.end + 1 if bundle.offset is None else deliveries.get((node, bundle.whole), trace.end + 1)
        )
        state = _BundleState(node, bundle, trace.is_critical(events[0]), delivered_at)
        for event, next_event in zip(events, [*events[1:], None], strict=True):
            yield from (
                state.check_arrival(event, next_event)
                if event.action in _ARRIVALS
                else state.check_departure(event)
            )
        yield from state.check_end(stored.pop((node, bundle), []))
    for node, bundle in stored:
        yield Finding("bundle conservation", node, f"{bundle} is stored and never arrived")


def _check_stops(trace: BundleTrace, node: Spec) -> Iterator[Finding]:
    """Check that a stopped node has no events, and deletes what it loses at the instant of the stop."""
    name, stops = node["name"], node.get("outages", [])
    for event in trace.events:
        if event.node != name:
            continue
        stop = next(
            (stop for stop in stops if stop["at_ns"] <= event.instant < _stop_end(stop, trace.end)), None
        )
        is_lost = event.reason == _STOPPED
        if is_lost and (stop is None or event.instant != stop["at_ns"]):
            text = f"{event.id} was {event.action} at {event.instant} ns: {_STOPPED!r}, without a stop at that instant"
            yield Finding("node outage", name, text)
        elif stop is not None and event.instant > stop["at_ns"]:
            text = f"{event.id} was {event.action} at {event.instant} ns, stopped at {stop['at_ns']} ns"
            yield Finding("node outage", name, text)
    last_loss = max((stop["at_ns"] for stop in stops if not stop["keeps_store"]), default=-1)
    for row in trace.stored:
        arrival = nanoseconds(row["received_s"]) or 0
        if row["node"] == name and arrival < last_loss:
            text = f"{bundle_id(row)} is stored and arrived before the loss of its store at {last_loss} ns"
            yield Finding("node outage", name, text)


def _stop_end(stop: Spec, end: int) -> int:
    until = stop["until_ns"]
    return end + 1 if until is None else int(until)


def _expiry(trace: BundleTrace, event: Event) -> int | None:
    """Return the expiry of a bundle in ns; None: its lifetime is unknown."""
    client = trace.client_of(event)
    if client is None:
        return None
    return trace.since_epoch(event.id.created_ms) + int(client["lifetime_ns"])


def _check_lifetimes(trace: BundleTrace) -> Iterator[Finding]:
    """Check that no bundle is used after its lifetime, and none expires within it."""
    longest_lifetime = max((int(perf["lifetime_ns"]) for perf in trace.clients.values()), default=0)
    for event in trace.events:
        expiry = _expiry(trace, event)
        if event.kind == "report":
            last_use = trace.since_epoch(event.id.created_ms) + max(longest_lifetime, REPORT_LIFETIME)
        elif expiry is None:
            yield Finding("bundle origin", event.node, f"{event.id} belongs to no client")
            continue
        else:
            last_use = expiry
        if event.action in ("sent", "forwarded", "delivered", "generated") and event.instant > last_use:
            text = f"{event.id} was {event.action} at {event.instant} ns, expired at {last_use} ns"
            yield Finding("bundle lifetime", event.node, text)
        if (
            event.reason == "lifetime expired"
            and expiry is not None
            and event.kind != "report"
            and event.instant < expiry
        ):
            text = f"{event.id} expired at {event.instant} ns, and would at {expiry} ns"
            yield Finding("bundle lifetime", event.node, text)
    stopped_nodes = {
        node["name"]
        for node in trace.dtn["nodes"]
        if any(stop["at_ns"] <= trace.end < _stop_end(stop, trace.end) for stop in node.get("outages", []))
    }
    for row in trace.stored:
        if row["node"] in stopped_nodes:
            continue
        events = trace.at_node.get((row["node"], bundle_id(row)))
        expiry = _expiry(trace, events[0]) if events and events[0].kind != "report" else None
        if expiry is not None and expiry < trace.end:
            yield Finding(
                "bundle lifetime", row["node"], f"{bundle_id(row)} is stored, and expired at {expiry} ns"
            )


def _check_fragments(trace: BundleTrace) -> Iterator[Finding]:
    """Check that fragments follow each other, and that merged fragments cover the whole bundle."""
    pieces: dict[tuple[str, Id], list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.action in ("fragmented", "fragment_created", "fragment_merged", "reassembled"):
            pieces[event.node, event.id.whole].append(event)
    sizes = {event.id: event.bytes for event in trace.events if event.action == "generated"}
    for (node, whole), events in pieces.items():
        yield from _check_fragmentation(
            node, [event for event in events if event.action in ("fragmented", "fragment_created")]
        )
        yield from _check_merges(
            node,
            [event for event in events if event.action in ("fragment_merged", "reassembled")],
            sizes.get(whole),
        )


def _check_fragmentation(node: str, events: list[Event]) -> Iterator[Finding]:
    for position in range(0, len(events), 3):
        fragmented, *fragments = events[position : position + 3]
        offset = fragmented.id.offset or 0
        is_valid = fragmented.action == "fragmented" and [fragment.action for fragment in fragments] == [
            "fragment_created",
            "fragment_created",
        ]
        for fragment in fragments:
            is_valid &= (
                fragment.id.offset == offset and fragment.instant == fragmented.instant and fragment.bytes > 0
            )
            offset += fragment.bytes
        if not is_valid or offset != (fragmented.id.offset or 0) + fragmented.bytes:
            yield Finding(
                "fragmentation",
                node,
                f"{fragmented.id} of {fragmented.bytes} B was fragmented into other bytes",
            )


def _check_merges(node: str, events: list[Event], size: int | None) -> Iterator[Finding]:
    ranges: list[tuple[int, int]] = []
    for event in events:
        if event.action == "fragment_merged":
            ranges.append((event.id.offset or 0, event.bytes))
            continue
        covered = 0
        for start, length in sorted(ranges):
            covered = max(covered, start + length) if start <= covered else covered
        if covered != event.bytes or event.bytes != size:
            text = f"{event.id} of {event.bytes} B was merged from {covered} contiguous B"
            yield Finding("fragmentation", node, text)
        ranges = []
    if ranges:
        yield Finding("fragmentation", node, f"parts of {events[0].id.whole} were merged into no bundle")


def _check_limit(trace: BundleTrace, node: str, limit: int | None) -> Iterator[Finding]:
    """Check the limit of a store at each instant, and that it refuses no bundle that fits."""
    if limit is None:
        return
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    refusals: list[Event] = []
    for (other_node, _), events in trace.at_node.items():
        if other_node != node or trace.is_critical(events[0]):
            # The events do not show which neighbour is the last to have a critical bundle.
            continue
        for index, event in enumerate(events):
            next_event = events[index + 1] if index + 1 < len(events) else None
            is_deleted = (
                next_event is not None
                and next_event.action == "deleted"
                and next_event.instant == event.instant
            )
            if event.action in _ARRIVALS and event.action != "reassembled":
                if is_deleted and next_event is not None and next_event.reason in _REFUSAL_REASONS:
                    refusals += [next_event] if next_event.reason == _DEPLETED else []
                else:
                    changes[event.instant].append((event.bytes, 1))
            elif event.action in _DEPARTURES:
                previous = events[index - 1] if index else None
                is_refused = event.action == "deleted" and event.reason in _REFUSAL_REASONS
                if not is_refused and (previous is None or previous.action != "reassembled"):
                    changes[event.instant].append((-event.bytes, -1))
    occupied: dict[int, int] = {}
    stored = count = 0
    for instant in sorted(changes.keys() | {event.instant for event in refusals}):
        arrivals = [size for size, count_change in changes[instant] if count_change > 0]
        occupied[instant] = stored + sum(arrivals) + OVERHEAD * (count + len(arrivals))
        stored += sum(size for size, _ in changes[instant])
        count += sum(count_change for _, count_change in changes[instant])
        if stored > limit:
            yield Finding("storage limit", node, f"{stored} B of payload at {instant} ns, of {limit} B")
    if not any(perf["critical"] for perf in trace.clients.values()) and "epidemic" not in trace.dtn:
        yield from _check_refusals(node, limit, refusals, occupied)


def _check_refusals(
    node: str, limit: int, refusals: list[Event], occupied: dict[int, int]
) -> Iterator[Finding]:
    for event in refusals:
        occupied_bytes = occupied[event.instant]
        if occupied_bytes + event.bytes + OVERHEAD <= limit:
            text = (
                f"{event.id} of {event.bytes} B was refused at {event.instant} ns beside {occupied_bytes} "
                f"B of {limit} B"
            )
            yield Finding("unnecessary refusal", node, text)
