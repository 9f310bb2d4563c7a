"""What nodes have: each bundle, once per copy and node, is stored, delivered, expired or deleted with a reason; stores
have their limits, lifetimes their ends, and fragments make the whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bentpipe.trace_check.bundle_trace import Event, Id, Told, identity, node_of
from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Finding, nanoseconds

__all__ = ["stores"]

_IN = frozenset({"generated", "received", "part", "reassembled"})
_OUT = frozenset({"forwarded", "delivered", "deleted", "cut", "joined"})
_KNOWN = "it is known here"
_NO_ROOM = "depleted storage"
_STOPPED = "the node stopped"
_SPREAD = "its neighbours have it"
_UNTAKEN = frozenset(
    {
        _NO_ROOM, _KNOWN, "hop limit exceeded", "block unsupported", "missing security operation",
        "unknown security operation", "unexpected security operation", "failed security operation",
        "conflicting security operation",
    }
)  # fmt: skip
"""Why a bundle that comes is never stored."""
_REASONS = _UNTAKEN | {
    "lifetime expired", "destination endpoint unavailable", "no known route", "transmission canceled",
    "no timely contact", "block unintelligible", _STOPPED, _SPREAD,
}  # fmt: skip

OVERHEAD = 1_000
"""Most bytes that a bundle of a client or a node has beside its payload: some 60 of fields, and three names."""
REPORT_LIFETIME = 60 * 10**9
"""Reports live as long as their bundle, at least so long."""


def stores(told: Told) -> Iterator[Finding]:
    """Everything that is told of the bundles at nodes."""
    yield from _once(told)
    yield from _kept(told)
    yield from _lifetimes(told)
    yield from _fragments(told)
    for node in told.dtn["nodes"]:
        yield from _stopped(told, node)
        yield from _room(told, node["name"], node["store_bytes"])


def _once(told: Told) -> Iterator[Finding]:
    """Where a bundle came from, and that a destination delivers it once."""
    generated: dict[Id, Event] = {}
    delivered: dict[Id, Event] = {}
    before = 0
    for event in told.events:
        if event.what not in _IN | _OUT | {"sent", "returned", "acknowledged"}:
            yield Finding("known events", event.node, f"{event.id}: {event.what!r} has no rule here")
        if event.at < before:
            yield Finding("time passes", event.node, f"{event.id} at {event.at} ns, after {before} ns")
        before = event.at
        home, goal = (told.nodes.get(node_of(name)) for name in (event.id.source, event.destination))
        if event.what == "generated":
            if event.id in generated or event.node != home or event.id.offset is not None:
                yield Finding(
                    "bundles come from their source", event.node, f"{event.id} was generated again or there"
                )
            created = told.since_epoch(event.id.created_ms)
            if not created <= event.at < created + 1_000_000:
                text = f"{event.id} was generated at {event.at} ns, and says {created} ns"
                yield Finding("bundles come from their source", event.node, text)
            generated[event.id] = event
        first = generated.get(event.id.whole)
        if first is None:
            text = f"{event.id} was {event.what} at {event.at} ns, before it was generated"
            yield Finding("bundles come from their source", event.node, text)
        elif event.destination != first.destination or not _within(event, first):
            text = f"{event.id} with {event.bytes} B for {event.destination}, generated with {first.bytes} B"
            yield Finding("fragments add up", event.node, text)
        if event.what == "delivered":
            if event.id in delivered:
                yield Finding("delivered once", event.node, f"{event.id} at {event.at} ns again")
            if event.node != goal or event.id.offset is not None:
                yield Finding(
                    "delivered once", event.node, f"{event.id} for {event.destination} was delivered here"
                )
            delivered[event.id] = event


def _within(event: Event, first: Event) -> bool:
    """Whether a bundle has its bytes, or a fragment bytes of it."""
    if event.id.offset is None:
        return event.bytes == first.bytes
    return event.id.offset + event.bytes <= first.bytes


class _Place:
    """A bundle at a node, event by event."""

    def __init__(self, node: str, id_: Id, critical: bool, whole: int) -> None:
        """``whole`` is when the node delivered the bundle that this is a fragment of, or after the run."""
        self.node, self.id, self.critical, self.whole = node, id_, critical, whole
        self.inside = self.since = 0
        self.delivered = self.forwarded = False
        self.sent: Counter[str] = Counter()

    def comes(self, event: Event, after: Event | None) -> Iterator[Finding]:
        """It comes, and ``after`` is what is told of it then."""
        again = after is not None and (after.what, after.reason) == ("deleted", _KNOWN)
        known = self.inside > 0 or self.delivered or self.whole < event.at
        # Of one instant it is not told who was first, nor when all neighbours have a critical bundle.
        unsure = self.whole == event.at or (self.critical and self.forwarded)
        if event.what == "received" and known != again and not unsure:
            text = f"{self.id} came at {event.at} ns and was " + ("new" if again else "there")
            yield Finding("a bundle is at a node once", self.node, text)
        if again:
            self.inside += 1
        else:
            self.inside = 1 if self.critical else self.inside + 1
            self.since, self.forwarded = event.at, False

    def goes(self, event: Event) -> Iterator[Finding]:
        """It ends here, is sent, or comes back."""
        self.delivered |= event.what == "delivered"
        if event.what == "deleted" and event.reason not in _REASONS:
            yield Finding("gone for a reason", self.node, f"{self.id} at {event.at} ns: {event.reason!r}")
        if event.what in ("forwarded", "returned"):
            if not self.sent[event.peer]:
                text = f"{self.id} was {event.what} by {event.peer} at {event.at} ns"
                yield Finding("forwarded after it was sent", self.node, text)
            self.sent[event.peer] -= 1
        if event.what == "forwarded" and self.critical:
            self.forwarded = True
        elif event.what in _OUT:
            self.inside -= 1
            self.forwarded |= event.reason == _SPREAD
        self.sent[event.peer] += event.what == "sent"
        if self.inside < (event.what == "sent"):
            text = f"{self.id} was {event.what} at {event.at} ns, and is not there"
            yield Finding("a bundle is at a node once", self.node, text)
            self.inside = 0

    def ends(self, stored: list[int | None]) -> Iterator[Finding]:
        """The run is over, and it is stored since these instants."""
        there = len(stored)
        if there != self.inside and not (self.critical and self.forwarded and there < self.inside):
            text = f"{self.id} came, was not delivered, forwarded nor deleted, and {there} of {self.inside} are stored"
            yield Finding("bundles are conserved", self.node, text)
        elif there == 1 and stored != [self.since]:
            text = f"{self.id} is stored since {stored[0]} ns, came at {self.since} ns"
            yield Finding("bundles are conserved", self.node, text)


def _kept(told: Told) -> Iterator[Finding]:
    """Each bundle that is at a node is there once, and ends there once."""
    stored: dict[tuple[str, Id], list[int | None]] = defaultdict(list)
    for row in told.stored:
        stored[row["node"], identity(row)].append(nanoseconds(row["came_s"]))
    ends = {(event.node, event.id): event.at for event in told.events if event.what == "delivered"}
    for (node, id_), events in told.at_node.items():
        whole = told.end + 1 if id_.offset is None else ends.get((node, id_.whole), told.end + 1)
        place = _Place(node, id_, told.critical(events[0]), whole)
        for event, after in zip(events, [*events[1:], None], strict=True):
            yield from place.comes(event, after) if event.what in _IN else place.goes(event)
        yield from place.ends(stored.pop((node, id_), []))
    for node, id_ in stored:
        yield Finding("bundles are conserved", node, f"{id_} is stored, and never came")


def _stopped(told: Told, node: Spec) -> Iterator[Finding]:
    """While a node is stopped nothing happens there, and what it loses by that is told of as it stops."""
    name, stops = node["name"], node.get("stops", [])
    for event in told.events:
        if event.node != name:
            continue
        halt = next((stop for stop in stops if stop["at_ns"] <= event.at < _until(stop, told.end)), None)
        lost = event.reason == _STOPPED
        if lost and (halt is None or event.at != halt["at_ns"]):
            text = f"{event.id} was {event.what} at {event.at} ns: {_STOPPED!r}, and it did not stop then"
            yield Finding("a node that stops rests", name, text)
        elif halt is not None and event.at > halt["at_ns"]:
            text = f"{event.id} was {event.what} at {event.at} ns, stopped at {halt['at_ns']} ns"
            yield Finding("a node that stops rests", name, text)
    emptied = max((stop["at_ns"] for stop in stops if not stop["keeps"]), default=-1)
    for row in told.stored:
        came = nanoseconds(row["came_s"]) or 0
        if row["node"] == name and came < emptied:
            text = f"{identity(row)} is stored, and came before its store was lost at {emptied} ns"
            yield Finding("a node that stops rests", name, text)


def _until(stop: Spec, end: int) -> int:
    until = stop["until_ns"]
    return end + 1 if until is None else int(until)


def _deadline(told: Told, event: Event) -> int | None:
    """When a bundle is of no use any more; None where its lifetime is not known."""
    client = told.client_of(event)
    if client is None:
        return None
    return told.since_epoch(event.id.created_ms) + int(client["lifetime_ns"])


def _lifetimes(told: Told) -> Iterator[Finding]:
    """Nothing goes on after its lifetime, and nothing expires within it."""
    longest = max((int(perf["lifetime_ns"]) for perf in told.clients.values()), default=0)
    for event in told.events:
        end = _deadline(told, event)
        if event.kind == "report":
            latest = told.since_epoch(event.id.created_ms) + max(longest, REPORT_LIFETIME)
        elif end is None:
            yield Finding("bundles come from their source", event.node, f"{event.id} is of no client")
            continue
        else:
            latest = end
        if event.what in ("sent", "forwarded", "delivered", "generated") and event.at > latest:
            text = f"{event.id} was {event.what} at {event.at} ns, and expires at {latest} ns"
            yield Finding("bundles expire", event.node, text)
        if (
            event.reason == "lifetime expired"
            and end is not None
            and event.kind != "report"
            and event.at < end
        ):
            text = f"{event.id} expired at {event.at} ns, and would at {end} ns"
            yield Finding("bundles expire", event.node, text)
    gone = {
        node["name"]
        for node in told.dtn["nodes"]
        if any(stop["at_ns"] <= told.end < _until(stop, told.end) for stop in node.get("stops", []))
    }
    for row in told.stored:
        if row["node"] in gone:
            continue
        events = told.at_node.get((row["node"], identity(row)))
        end = _deadline(told, events[0]) if events and events[0].kind != "report" else None
        if end is not None and end < told.end:
            yield Finding(
                "bundles expire", row["node"], f"{identity(row)} is stored, and expired at {end} ns"
            )


def _fragments(told: Told) -> Iterator[Finding]:
    """A cut gives two parts that follow each other; parts that are joined cover the whole."""
    pieces: dict[tuple[str, Id], list[Event]] = defaultdict(list)
    for event in told.events:
        if event.what in ("cut", "part", "joined", "reassembled"):
            pieces[event.node, event.id.whole].append(event)
    sizes = {event.id: event.bytes for event in told.events if event.what == "generated"}
    for (node, whole), events in pieces.items():
        yield from _cut(node, [event for event in events if event.what in ("cut", "part")])
        yield from _joined(
            node, [event for event in events if event.what in ("joined", "reassembled")], sizes.get(whole)
        )


def _cut(node: str, events: list[Event]) -> Iterator[Finding]:
    for place in range(0, len(events), 3):
        one, *parts = events[place : place + 3]
        at = one.id.offset or 0
        good = one.what == "cut" and [part.what for part in parts] == ["part", "part"]
        for part in parts:
            good &= part.id.offset == at and part.at == one.at and part.bytes > 0
            at += part.bytes
        if not good or at != (one.id.offset or 0) + one.bytes:
            yield Finding("fragments add up", node, f"{one.id} of {one.bytes} B was cut into other bytes")


def _joined(node: str, events: list[Event], size: int | None) -> Iterator[Finding]:
    parts: list[tuple[int, int]] = []
    for event in events:
        if event.what == "joined":
            parts.append((event.id.offset or 0, event.bytes))
            continue
        covered = 0
        for start, length in sorted(parts):
            covered = max(covered, start + length) if start <= covered else covered
        if covered != event.bytes or event.bytes != size:
            text = f"{event.id} of {event.bytes} B was put together of {covered} B in a row"
            yield Finding("fragments add up", node, text)
        parts = []
    if parts:
        yield Finding("fragments add up", node, f"parts of {events[0].id.whole} were joined to nothing")


def _room(told: Told, node: str, limit: int | None) -> Iterator[Finding]:
    """What is stored after each instant is within the limit, and nothing is refused room that there was."""
    if limit is None:
        return
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    refused: list[Event] = []
    for (place, _), events in told.at_node.items():
        if place != node or told.critical(events[0]):
            # Of a bundle that goes to all neighbours the last one to have it is not told.
            continue
        for number, event in enumerate(events):
            after = events[number + 1] if number + 1 < len(events) else None
            gone = after is not None and after.what == "deleted" and after.at == event.at
            if event.what in _IN and event.what != "reassembled":
                if gone and after is not None and after.reason in _UNTAKEN:
                    refused += [after] if after.reason == _NO_ROOM else []
                else:
                    changes[event.at].append((event.bytes, 1))
            elif event.what in _OUT:
                before = events[number - 1] if number else None
                never = event.what == "deleted" and event.reason in _UNTAKEN
                if not never and (before is None or before.what != "reassembled"):
                    changes[event.at].append((-event.bytes, -1))
    most: dict[int, int] = {}
    stored = count = 0
    for at in sorted(changes.keys() | {event.at for event in refused}):
        comes = [size for size, many in changes[at] if many > 0]
        most[at] = stored + sum(comes) + OVERHEAD * (count + len(comes))
        stored += sum(size for size, _ in changes[at])
        count += sum(many for _, many in changes[at])
        if stored > limit:
            yield Finding("no store above its limit", node, f"{stored} B of payload at {at} ns, of {limit} B")
    if not any(perf["critical"] for perf in told.clients.values()) and "epidemic" not in told.dtn:
        yield from _refused(node, limit, refused, most)


def _refused(node: str, limit: int, refused: list[Event], most: dict[int, int]) -> Iterator[Finding]:
    for event in refused:
        beside = most[event.at]
        if beside + event.bytes + OVERHEAD <= limit:
            text = f"{event.id} of {event.bytes} B found no room at {event.at} ns beside {beside} B, of {limit} B"
            yield Finding("no bundle refused while there is room", node, text)
