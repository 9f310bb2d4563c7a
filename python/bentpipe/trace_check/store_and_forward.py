"""Checks of store-and-forward nodes: packets without a route wait until a route exists."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from bentpipe.trace_check.handovers import Routing
from bentpipe.trace_check.trace import Direction, Finding, Trace, Visit

__all__ = ["check_node_buffers"]


def check_node_buffers(trace: Trace) -> Iterator[Finding]:
    """Check that each node stores packets without a route, within its limit, until a route exists."""
    routing = Routing(trace.spec["graph"])
    for node in trace.node_buffers.values():
        yield from _check_node(trace, node, routing)


def _check_node(trace: Trace, node: Direction, routing: Routing) -> Iterator[Finding]:
    limit = node.stages[0]["bytes"]
    stored_visits: deque[Visit] = deque()
    last_by_destination: dict[str, Visit] = {}
    for visit in node.visits[0]:
        destination = trace.sent[visit.packet]["to_node"]
        if routing.can_forward(visit.arrival, node.name, destination):
            text = f"packet {visit.packet} for {destination} was buffered at {visit.arrival} ns, when a route existed"
            yield Finding("valid route", node.name, text)
        stored_visits = deque(
            stored_visit
            for stored_visit in stored_visits
            if stored_visit.removal is None or stored_visit.removal > visit.arrival
        )
        stored = sum(stored_visit.bytes for stored_visit in stored_visits)
        fits = stored + visit.bytes <= limit
        if visit.dropped is not None:
            if visit.dropped != visit.arrival or visit.cause != "overflow":
                text = f"packet {visit.packet} was dropped ({visit.cause}) at {visit.dropped} ns while it was buffered"
                yield Finding("drop cause", node.name, text)
            elif fits:
                text = (
                    f"packet {visit.packet} was dropped (overflow) at {visit.arrival} ns behind {stored} "
                    f"bytes of {limit}"
                )
                yield Finding("unnecessary drop", node.name, text)
            continue
        if not fits:
            text = (
                f"packet {visit.packet} was buffered at {visit.arrival} ns behind {stored} bytes of {limit}"
            )
            yield Finding("queue limit", node.name, text)
        stored_visits.append(visit)
        yield from _check_release(
            visit, node, routing.next_forwarding(visit.arrival, node.name, destination), trace.end
        )
        predecessor = last_by_destination.get(destination)
        if (
            predecessor is not None
            and visit.departure is not None
            and predecessor.departure_step > visit.departure_step
        ):
            text = f"packet {visit.packet} left before packet {predecessor.packet}, which had arrived earlier"
            yield Finding("packet order", node.name, text)
        last_by_destination[destination] = visit


def _check_release(visit: Visit, node: Direction, due: int | None, end: int) -> Iterator[Finding]:
    """Check that the node forwards a packet at the instant of its next route."""
    if visit.departure == due or (visit.departure is None and due is not None and due >= end):
        return
    expected = "never" if due is None else f"at {due} ns"
    text = f"packet {visit.packet} left at {visit.departure} ns, expected {expected} (next route)"
    yield Finding("store and forward", node.name, text)
