"""Transmitters: what waits, who is served when, and what finds no room.

The link is worked through from one service to the next: it may not stand still while somebody waits, nor serve faster
than its rate, and a queue may neither hold more than its limit nor drop while there is room.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.disciplines import DISCIPLINES, discipline
from bentpipe.trace_check.handovers import Fates, Pauses, Spec, stepped
from bentpipe.trace_check.trace import Finding, Line, Rule, Visit

__all__ = ["RULES"]

SECOND = 1_000_000_000


@dataclass
class _Rate:
    """A rate: a busy period lasts its bits over the rate."""

    at: Callable[[int], int]
    rate: int = 0
    start: int = 0
    bits: int = 0

    def end(self, begin: int, visit: Visit, *, busy: bool, set_at: int | None = None) -> int:
        """When a service ends that begins at ``begin``; ``busy``: at the end of the one before. The rate is that of
        ``set_at``, or of its begin."""
        rate = self.at(begin if set_at is None else set_at)
        if not busy or rate != self.rate:
            self.rate, self.start, self.bits = rate, begin, 0
        self.bits += 8 * visit.bytes
        return self.start + self.bits * SECOND // rate


@dataclass
class _Opportunities:
    """Delivery opportunities: a busy period uses up one after the other."""

    slots: Sequence[int]
    slot_bytes: int
    repeat: int
    first: int = 0
    bytes: int = 0

    def end(self, begin: int, visit: Visit, *, busy: bool) -> int:
        """When the opportunity comes that carries the packet's last byte."""
        if not busy:
            cycle, phase = divmod(begin, self.repeat)
            self.first, self.bytes = cycle * len(self.slots) + bisect_right(self.slots, phase), 0
        self.bytes += visit.bytes
        cycle, slot = divmod(self.first + (self.bytes - 1) // self.slot_bytes, len(self.slots))
        return cycle * self.repeat + self.slots[slot]


@dataclass
class _Room:
    """What waits over time: those who come, less those whose service begins or who are dropped."""

    went: list[tuple[int, int]] = field(default_factory=list)
    packets: int = 0
    bytes: int = 0
    next_gone: int = 0

    def until(self, at: int) -> None:
        """Lets go who is gone by ``at``."""
        while self.next_gone < len(self.went) and self.went[self.next_gone][0] <= at:
            self.packets -= 1
            self.bytes -= self.went[self.next_gone][1]
            self.next_gone += 1


@dataclass
class _Slots:
    """A rate of each slot, which is drawn: a packet takes no less than at the largest and no more than at the smallest.

    What is said here is when it is due at the earliest."""

    least: int
    most: int

    def end(self, begin: int, visit: Visit, *, busy: bool) -> int:
        del busy
        return begin + 8 * visit.bytes * SECOND // self.most

    def latest(self, begin: int, visit: Visit) -> int:
        return begin + -(-8 * visit.bytes * SECOND // self.least)


def _transmit(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    service, queue = stage["service"], stage["queue"]
    link: _Rate | _Opportunities | _Slots
    if service["kind"] == "rate":
        changes = [(one["at_ns"], one["rate_bit_s"]) for one in service.get("changes", [])]
        link = _Rate(stepped(service["rate_bit_s"], changes))
    elif service["kind"] == "slots":
        link = _Slots(service["rate_bit_s"][0], service["rate_bit_s"][-1])
    else:
        link = _Opportunities(service["slots_ns"], service["slot_bytes"], service["repeat_ns"])
    begins: dict[int, int] = {}
    single = discipline(stage).in_order
    yield from _service(line, link, visits, begins, end, single=single, pauses=Pauses(stage))
    if queue["kind"] == "per_user":
        yield from user_queues.shared(line, stage, visits, begins)
        yield from _lost(line, Fates(stage), visits, begins, end)
        return
    yield from (_front if discipline(stage).evicts == "head" else _limit)(line, stage, visits, begins)
    yield from _lost(line, Fates(stage), visits, begins, end)
    if single:
        yield from _in_order(line, visits)
    yield from _managed(line, queue, [visit for visit in visits if visit.cause != "outage"], begins)


def _lost(
    line: Line, fates: Fates, visits: Sequence[Visit], begins: Mapping[int, int], end: int
) -> Iterator[Finding]:
    """Those who wait when it is lost what waits are dropped then, and nobody else for that."""
    for visit in visits:
        until = begins.get(visit.packet, visit.dropped if visit.dropped is not None else end)
        at = fates.lost(visit.came, until)
        if visit.cause == "outage" and at is None:
            text = f"packet {visit.packet} was dropped ({visit.cause}) at {visit.dropped} ns by a queue"
            yield Finding("a cause for every drop", line.name, text)
        elif at is not None and at < end and (visit.cause != "outage" or visit.dropped != at):
            text = f"packet {visit.packet} waited at {at} ns, when what waited was lost, and was not dropped"
            yield Finding("a hand-over is one event", line.name, text)


def _service(
    line: Line,
    link: _Rate | _Opportunities | _Slots,
    visits: Sequence[Visit],
    begins: dict[int, int],
    end: int,
    *,
    single: bool,
    pauses: Pauses,
) -> Iterator[Finding]:
    """No service is shorter than it has to be, none begins later than it could, or in a pause; sets ``begins``."""
    served = sorted((v for v in visits if v.left is not None), key=lambda v: v.left_step)
    arrivals = [visit.came for visit in visits]
    drops = sorted(visit.dropped for visit in visits if visit.dropped is not None)
    free = -1
    for number, visit in enumerate(served):
        # Those who had come by then less those who had gone: somebody waited, and the next service began at once.
        waiting = bisect_right(arrivals, free) - number - bisect_right(drops, free)
        asked = free if waiting > 0 else visit.came
        begin = pauses.after(asked)
        if begin is None:
            text = f"packet {visit.packet} left at {visit.left} ns, and nobody was served from {asked} ns on"
            yield Finding("no faster than the rate", line.name, text)
            continue
        begins[visit.packet] = begin
        due = link.end(begin, visit, busy=begin == asked and (waiting > 0 or visit.came == free))
        left = visit.left or 0
        latest = link.latest(begin, visit) if isinstance(link, _Slots) else due
        if left < due - 1 or visit.came > begin:
            text = (
                f"packet {visit.packet} of {visit.bytes} bytes left at {left} ns, expected {due} ns or later"
            )
            yield Finding("no faster than the rate", line.name, text)
        elif left > latest + 1:
            text = f"packet {visit.packet} left at {left} ns, expected {latest} ns: the link stood still"
            yield Finding("a link works while somebody waits", line.name, text)
        free = left
    rest = [visit for visit in visits if visit.gone is None]
    if rest:
        # Whose turn it is at the end is known of one queue only; with several it may be the largest one's.
        asked = max(free, rest[0].came)
        opens = pauses.after(asked)
        if opens is None or opens >= end:
            return
        busy = opens == asked and rest[0].came <= free
        begins[rest[0].packet] = begin = opens
        turn = rest[0] if single else max(rest, key=lambda visit: visit.bytes)
        latest = link.latest(begin, turn) if isinstance(link, _Slots) else link.end(begin, turn, busy=busy)
        if latest + 1 < end:
            text = f"packet {rest[0].packet} and {len(rest) - 1} more were to be served, and were not"
            yield Finding("bytes are conserved", line.name, text)


def _limit(line: Line, stage: Spec, visits: Sequence[Visit], begins: Mapping[int, int]) -> Iterator[Finding]:
    """No more waits than may, and what is dropped for want of room had none."""
    queue = stage["queue"]
    first = {"packets": queue["limit_packets"]} if "limit_packets" in queue else queue["limit"]
    limit_at = stepped(first, stage.get("limits", []))
    at_arrival = discipline(stage).evicts == "arrival"
    room = _Room()
    at_once = {id(v) for v in visits if v.dropped == v.came and v.cause == "overflow"}
    for visit in visits:
        until = begins.get(visit.packet, visit.dropped)
        if until is not None and id(visit) not in at_once:
            room.went.append((until, visit.bytes))
    room.went.sort()
    for visit in visits:
        room.until(visit.came)
        limit = limit_at(visit.came) or {}
        most_packets, most_bytes = limit.get("packets"), limit.get("bytes")
        fits = (most_packets is None or room.packets + 1 <= most_packets) and (
            most_bytes is None or room.bytes + visit.bytes <= most_bytes
        )
        held = f"{room.packets} packets of {room.bytes} bytes"
        if id(visit) in at_once:
            if fits and at_arrival:
                text = f"packet {visit.packet} found no room at {visit.came} ns behind {held}"
                yield Finding("no drop while there is room", line.name, text)
            continue
        if visit.cause == "overflow" and at_arrival:
            text = f"packet {visit.packet}, let in at {visit.came} ns, found no room at {visit.dropped} ns"
            yield Finding("a full queue drops who comes", line.name, text)
        starts = begins.get(visit.packet) == visit.came
        if not fits and not (starts and room.packets == 0 and visit.bytes <= (most_bytes or visit.bytes)):
            text = f"packet {visit.packet} was let in at {visit.came} ns behind {held}"
            yield Finding("no queue longer than its limit", line.name, text)
        room.packets += 1
        room.bytes += visit.bytes


def _front(line: Line, stage: Spec, visits: Sequence[Visit], begins: Mapping[int, int]) -> Iterator[Finding]:
    """Who comes to a full queue makes those leave who have waited longest, as many as it needs room for."""
    limit_at = stepped(stage["queue"]["limit"], stage.get("limits", []))
    waiting: deque[Visit] = deque()
    bytes_waiting = 0
    due: dict[int, int] = {}
    for visit in visits:
        at = visit.came
        while waiting and begins.get(waiting[0].packet, at + 1) <= at:
            bytes_waiting -= waiting.popleft().bytes
        if any(one.cause == "outage" and (one.dropped or 0) <= at for one in waiting):
            waiting = deque(one for one in waiting if one.cause != "outage" or (one.dropped or 0) > at)
            bytes_waiting = sum(one.bytes for one in waiting)
        limit = limit_at(at) or {}
        most_packets, most_bytes = limit.get("packets"), limit.get("bytes")
        if most_bytes is not None and visit.bytes > most_bytes:
            due[id(visit)] = at
            continue
        while waiting and (
            (most_packets is not None and len(waiting) >= most_packets)
            or (most_bytes is not None and bytes_waiting + visit.bytes > most_bytes)
        ):
            oldest = waiting.popleft()
            bytes_waiting -= oldest.bytes
            due[id(oldest)] = at
        waiting.append(visit)
        bytes_waiting += visit.bytes
    for visit in visits:
        dropped = visit.dropped if visit.cause == "overflow" else None
        if dropped != due.get(id(visit)):
            text = f"packet {visit.packet} was dropped at {dropped} ns, expected at {due.get(id(visit))} ns"
            yield Finding("a full queue drops from the front", line.name, text)


def _in_order(line: Line, visits: Sequence[Visit]) -> Iterator[Finding]:
    before = -1
    for visit in visits:
        if visit.left is not None:
            if visit.left_step < before:
                yield Finding(
                    "the order is kept", line.name, f"packet {visit.packet} was overtaken in the queue"
                )
            before = max(before, visit.left_step)


def _managed(
    line: Line, queue: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Causes are the queue's own; CoDel (RFC 8289 section 4) drops what has waited for its target, when all did for an
    interval."""
    promises = DISCIPLINES[queue["kind"]]
    known = {"overflow", "aqm"} if promises.manages else {"overflow"}
    above: int | None = None
    single = promises.in_order
    ordered = sorted(visits, key=lambda v: begins.get(v.packet, v.dropped if v.dropped is not None else -1))
    for visit in ordered:
        at = begins.get(visit.packet, visit.dropped)
        if at is None:
            continue
        if visit.dropped is not None and visit.cause not in known:
            text = f"packet {visit.packet} was dropped ({visit.cause}) by a {queue['kind']} queue"
            yield Finding("a cause for every drop", line.name, text)
        if "aqm" not in known or visit.cause == "overflow":
            continue
        waited = at - visit.came
        if waited < queue["target_ns"]:
            above = None
        elif above is None:
            above = at
        if visit.cause == "aqm" and (above is None or (single and at < above + queue["interval_ns"])):
            text = f"packet {visit.packet} was dropped after {waited} ns, too soon for CoDel"
            yield Finding("active queue management by its law", line.name, text)
            above = at if above is None else above


def _netem(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    changes = stage.get("changes", [])
    rates = [(one["at_ns"], one["rate_bit_s"]) for one in changes if "rate_bit_s" in one]
    delays = [(one["at_ns"], one["delay_ns"]) for one in changes if "delay_ns" in one]
    limits = [(at, limit["packets"]) for at, limit in stage.get("limits", [])]
    link = _Rate(stepped(stage["rate_bit_s"], rates))
    delay, most = stepped(stage["delay_ns"], delays), stepped(stage["limit_packets"], limits)
    inside: list[int] = []
    free = first = 0
    for visit in visits:
        while first < len(inside) and inside[first] <= visit.came:
            first += 1
        full = len(inside) - first >= most(visit.came)
        if visit.dropped is not None or full:
            if visit.dropped != visit.came or visit.cause != "overflow" or not full:
                what = "was let in" if visit.dropped is None else f"was dropped ({visit.cause})"
                text = f"packet {visit.packet} {what} behind {len(inside) - first} packets"
                yield Finding("no queue longer than its limit", line.name, text)
            continue
        ready = visit.came + delay(visit.came)
        due = link.end(max(ready, free), visit, busy=ready <= free, set_at=visit.came)
        left = visit.left
        if left is None and due + 1 < end:
            yield Finding("bytes are conserved", line.name, f"packet {visit.packet} was to leave at {due} ns")
        elif left is not None and abs(left - due) > 1:
            text = f"packet {visit.packet} left at {left} ns, expected {due} ns"
            yield Finding("no faster than the rate", line.name, text)
        free = due
        inside.append(due)


RULES: Mapping[str, Rule] = {"transmit": _transmit, "netem": _netem}
"""By the kind of the stage."""
