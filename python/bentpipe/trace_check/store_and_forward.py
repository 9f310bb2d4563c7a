"""Nodes that hold packets while no way leads on: who is held, for how long, and what finds no room."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from bentpipe.trace_check.handovers import Versions
from bentpipe.trace_check.trace import Finding, Line, Trace, Visit

__all__ = ["holds"]


def holds(trace: Trace) -> Iterator[Finding]:
    """Every node holds those for whom no way leads on, as far as there is room, until the instant at which one does."""
    versions = Versions(trace.spec["graph"])
    for hold in trace.holds.values():
        yield from _hold(trace, hold, versions)


def _hold(trace: Trace, hold: Line, versions: Versions) -> Iterator[Finding]:
    limit = hold.stages[0]["bytes"]
    inside: deque[Visit] = deque()
    last: dict[str, Visit] = {}
    for visit in hold.visits[0]:
        to = trace.sent[visit.packet]["to_node"]
        if versions.goes_on(visit.came, hold.name, to):
            text = f"packet {visit.packet} for {to} was held at {visit.came} ns, when it could go on"
            yield Finding("a way that holds", hold.name, text)
        inside = deque(one for one in inside if one.gone is None or one.gone > visit.came)
        held = sum(one.bytes for one in inside)
        fits = held + visit.bytes <= limit
        if visit.dropped is not None:
            if visit.dropped != visit.came or visit.cause != "overflow":
                text = f"packet {visit.packet} was dropped ({visit.cause}) at {visit.dropped} ns, while it was held"
                yield Finding("a cause for every drop", hold.name, text)
            elif fits:
                text = (
                    f"packet {visit.packet} found no room at {visit.came} ns behind {held} bytes of {limit}"
                )
                yield Finding("no drop while there is room", hold.name, text)
            continue
        if not fits:
            text = f"packet {visit.packet} was let in at {visit.came} ns behind {held} bytes of {limit}"
            yield Finding("no queue longer than its limit", hold.name, text)
        inside.append(visit)
        yield from _released(visit, hold, versions.opens(visit.came, hold.name, to), trace.end)
        before = last.get(to)
        if before is not None and visit.left is not None and before.left_step > visit.left_step:
            text = f"packet {visit.packet} went on before packet {before.packet}, which had come before it"
            yield Finding("the order is kept", hold.name, text)
        last[to] = visit


def _released(visit: Visit, hold: Line, due: int | None, end: int) -> Iterator[Finding]:
    """It goes on when a way does, at that very instant."""
    if visit.left == due or (visit.left is None and due is not None and due >= end):
        return
    wanted = "never" if due is None else f"at {due} ns"
    text = f"packet {visit.packet} went on at {visit.left} ns, expected {wanted}, when a way leads on"
    yield Finding("held until a way leads on", hold.name, text)
