"""Checks of transmitters: begins and ends of service, queue limits and causes of drops.

The check follows the link from one service to the next. The link is work-conserving and not faster than its rate. A
queue neither exceeds its limit nor drops packets below it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.disciplines import DISCIPLINES, discipline
from bentpipe.trace_check.handovers import InFlightEvents, Pauses, Spec, step_function
from bentpipe.trace_check.trace import Direction, Finding, Rule, Visit

__all__ = ["RULES"]

SECOND = 1_000_000_000


@dataclass
class _Rate:
    """Rate of a link: the end of a service follows from the bits of its busy period."""

    rate_at: Callable[[int], int]
    rate: int = 0
    start: int = 0
    bits: int = 0

    def end(self, begin: int, visit: Visit, *, busy: bool, set_at: int | None = None) -> int:
        """Return the end of a service in ns.

        Args:
            begin: begin of the service in ns.
            visit: packet in service.
            busy: the service follows the previous one without a gap.
            set_at: instant whose rate counts; None: ``begin``.
        """
        rate = self.rate_at(begin if set_at is None else set_at)
        if not busy or rate != self.rate:
            self.rate, self.start, self.bits = rate, begin, 0
        self.bits += 8 * visit.bytes
        return self.start + self.bits * SECOND // rate


@dataclass
class _Opportunities:
    """Delivery opportunities of a link: a busy period uses one after the other."""

    slots: Sequence[int]
    slot_bytes: int
    repeat: int
    first: int = 0
    bytes: int = 0

    def end(self, begin: int, visit: Visit, *, busy: bool) -> int:
        """Return the instant of the opportunity that carries the last byte of the packet."""
        if not busy:
            cycle, phase = divmod(begin, self.repeat)
            self.first, self.bytes = cycle * len(self.slots) + bisect_right(self.slots, phase), 0
        self.bytes += visit.bytes
        cycle, slot = divmod(self.first + (self.bytes - 1) // self.slot_bytes, len(self.slots))
        return cycle * self.repeat + self.slots[slot]


@dataclass
class _Occupancy:
    """Packets and bytes in a queue over time: arrivals, less begins of service and drops."""

    exits: list[tuple[int, int]] = field(default_factory=list)
    packets: int = 0
    bytes: int = 0
    next_exit: int = 0

    def advance(self, instant: int) -> None:
        """Remove the packets that are gone by ``at``."""
        while self.next_exit < len(self.exits) and self.exits[self.next_exit][0] <= instant:
            self.packets -= 1
            self.bytes -= self.exits[self.next_exit][1]
            self.next_exit += 1


@dataclass
class _IntervalRates:
    """Random rate of each reconfiguration interval: service times lie between those of the extreme rates."""

    min_rate: int
    max_rate: int

    def end(self, begin: int, visit: Visit, *, busy: bool) -> int:
        """Return the earliest end of a service that begins at ``begin``."""
        del busy
        return begin + 8 * visit.bytes * SECOND // self.max_rate

    def latest(self, begin: int, visit: Visit) -> int:
        """Return the latest end of a service that begins at ``begin``."""
        return begin + -(-8 * visit.bytes * SECOND // self.min_rate)


def _check_transmit(
    direction: Direction, stage: Spec, visits: Sequence[Visit], end: int
) -> Iterator[Finding]:
    service, queue = stage["service"], stage["queue"]
    link: _Rate | _Opportunities | _IntervalRates
    if service["kind"] == "rate":
        changes = [(change["at_ns"], change["rate_bit_s"]) for change in service.get("changes", [])]
        link = _Rate(step_function(service["rate_bit_s"], changes))
    elif service["kind"] == "reconfiguration":
        link = _IntervalRates(service["rate_bit_s"][0], service["rate_bit_s"][-1])
    else:
        link = _Opportunities(service["opportunities_ns"], service["opportunity_bytes"], service["repeat_ns"])
    begins: dict[int, int] = {}
    is_fifo = discipline(stage).in_order
    yield from _check_service(direction, link, visits, begins, end, is_fifo=is_fifo, pauses=Pauses(stage))
    if queue["kind"] == "per_user":
        yield from user_queues.check_user_queues(direction, stage, visits, begins)
        yield from _check_handover_losses(direction, InFlightEvents(stage), visits, begins, end)
        return
    yield from (_check_head_drops if discipline(stage).evicts == "head" else _check_limit)(
        direction, stage, visits, begins
    )
    yield from _check_handover_losses(direction, InFlightEvents(stage), visits, begins, end)
    if is_fifo:
        yield from _check_order(direction, visits)
    yield from _check_causes(direction, queue, [visit for visit in visits if visit.cause != "outage"], begins)


def _check_handover_losses(
    direction: Direction,
    in_flight: InFlightEvents,
    visits: Sequence[Visit],
    begins: Mapping[int, int],
    end: int,
) -> Iterator[Finding]:
    """Check that a handover drops the packets in the queue, and no others."""
    for visit in visits:
        exit_at = begins.get(visit.packet, visit.dropped if visit.dropped is not None else end)
        lost_at = in_flight.lost_at(visit.arrival, exit_at)
        if visit.cause == "outage" and lost_at is None:
            text = f"packet {visit.packet} was dropped ({visit.cause}) at {visit.dropped} ns by a queue"
            yield Finding("drop cause", direction.name, text)
        elif lost_at is not None and lost_at < end and (visit.cause != "outage" or visit.dropped != lost_at):
            text = f"packet {visit.packet} waited at {lost_at} ns during a handover loss and was not dropped"
            yield Finding("handover", direction.name, text)


def _check_service(
    direction: Direction,
    link: _Rate | _Opportunities | _IntervalRates,
    visits: Sequence[Visit],
    begins: dict[int, int],
    end: int,
    *,
    is_fifo: bool,
    pauses: Pauses,
) -> Iterator[Finding]:
    """Check the times of service: not too short, not too late, not in a pause; fill ``begins``."""
    served = sorted((v for v in visits if v.departure is not None), key=lambda v: v.departure_step)
    arrivals = [visit.arrival for visit in visits]
    drops = sorted(visit.dropped for visit in visits if visit.dropped is not None)
    free_at = -1
    for count, visit in enumerate(served):
        # Arrivals less departures by then: if packets wait, the next service begins at once.
        waiting = bisect_right(arrivals, free_at) - count - bisect_right(drops, free_at)
        ready_at = free_at if waiting > 0 else visit.arrival
        begin = pauses.next_service(ready_at)
        if begin is None:
            text = (
                f"packet {visit.packet} left at {visit.departure} ns, in a pause that began at {ready_at} ns"
            )
            yield Finding("link rate", direction.name, text)
            continue
        begins[visit.packet] = begin
        due = link.end(begin, visit, busy=begin == ready_at and (waiting > 0 or visit.arrival == free_at))
        departure = visit.departure or 0
        latest = link.latest(begin, visit) if isinstance(link, _IntervalRates) else due
        if departure < due - 1 or visit.arrival > begin:
            text = f"packet {visit.packet} of {visit.bytes} bytes left at {departure} ns, expected {due} ns or later"
            yield Finding("link rate", direction.name, text)
        elif departure > latest + 1:
            text = f"packet {visit.packet} left at {departure} ns, expected {latest} ns: the link was idle"
            yield Finding("work conservation", direction.name, text)
        free_at = departure
    waiting_visits = [visit for visit in visits if visit.removal is None]
    if waiting_visits:
        # The next packet is known for one queue only; with several it may be the largest packet.
        ready_at = max(free_at, waiting_visits[0].arrival)
        opens_at = pauses.next_service(ready_at)
        if opens_at is None or opens_at >= end:
            return
        busy = opens_at == ready_at and waiting_visits[0].arrival <= free_at
        begins[waiting_visits[0].packet] = begin = opens_at
        next_visit = waiting_visits[0] if is_fifo else max(waiting_visits, key=lambda visit: visit.bytes)
        latest = (
            link.latest(begin, next_visit)
            if isinstance(link, _IntervalRates)
            else link.end(begin, next_visit, busy=busy)
        )
        if latest + 1 < end:
            text = f"packet {waiting_visits[0].packet} and {len(waiting_visits) - 1} more were not served"
            yield Finding("byte conservation", direction.name, text)


def _check_limit(
    direction: Direction, stage: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check the limit of a queue: it is not exceeded, and overflow drops only happen at a full queue."""
    queue = stage["queue"]
    first = {"packets": queue["limit_packets"]} if "limit_packets" in queue else queue["limit"]
    limit_at = step_function(first, stage.get("limits", []))
    at_arrival = discipline(stage).evicts == "arrival"
    occupancy = _Occupancy()
    tail_drops = {id(v) for v in visits if v.dropped == v.arrival and v.cause == "overflow"}
    for visit in visits:
        exit_at = begins.get(visit.packet, visit.dropped)
        if exit_at is not None and id(visit) not in tail_drops:
            occupancy.exits.append((exit_at, visit.bytes))
    occupancy.exits.sort()
    for visit in visits:
        occupancy.advance(visit.arrival)
        limit = limit_at(visit.arrival) or {}
        max_packets, max_bytes = limit.get("packets"), limit.get("bytes")
        fits = (max_packets is None or occupancy.packets + 1 <= max_packets) and (
            max_bytes is None or occupancy.bytes + visit.bytes <= max_bytes
        )
        occupied = f"{occupancy.packets} packets of {occupancy.bytes} bytes"
        if id(visit) in tail_drops:
            if fits and at_arrival:
                text = f"packet {visit.packet} was dropped (overflow) at {visit.arrival} ns behind {occupied}"
                yield Finding("unnecessary drop", direction.name, text)
            continue
        if visit.cause == "overflow" and at_arrival:
            text = (
                f"packet {visit.packet}, enqueued at {visit.arrival} ns, was dropped (overflow) at "
                f"{visit.dropped} ns"
            )
            yield Finding("tail drop", direction.name, text)
        begins_at_arrival = begins.get(visit.packet) == visit.arrival
        if not fits and not (
            begins_at_arrival and occupancy.packets == 0 and visit.bytes <= (max_bytes or visit.bytes)
        ):
            text = f"packet {visit.packet} was enqueued at {visit.arrival} ns behind {occupied}"
            yield Finding("queue limit", direction.name, text)
        occupancy.packets += 1
        occupancy.bytes += visit.bytes


def _check_head_drops(
    direction: Direction, stage: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check drops at the head: an arrival at a full queue drops the oldest packets that it replaces."""
    limit_at = step_function(stage["queue"]["limit"], stage.get("limits", []))
    waiting: deque[Visit] = deque()
    waiting_bytes = 0
    expected: dict[int, int] = {}
    for visit in visits:
        instant = visit.arrival
        while waiting and begins.get(waiting[0].packet, instant + 1) <= instant:
            waiting_bytes -= waiting.popleft().bytes
        if any(
            waiting_visit.cause == "outage" and (waiting_visit.dropped or 0) <= instant
            for waiting_visit in waiting
        ):
            waiting = deque(
                waiting_visit
                for waiting_visit in waiting
                if waiting_visit.cause != "outage" or (waiting_visit.dropped or 0) > instant
            )
            waiting_bytes = sum(waiting_visit.bytes for waiting_visit in waiting)
        limit = limit_at(instant) or {}
        max_packets, max_bytes = limit.get("packets"), limit.get("bytes")
        if max_bytes is not None and visit.bytes > max_bytes:
            expected[id(visit)] = instant
            continue
        while waiting and (
            (max_packets is not None and len(waiting) >= max_packets)
            or (max_bytes is not None and waiting_bytes + visit.bytes > max_bytes)
        ):
            oldest = waiting.popleft()
            waiting_bytes -= oldest.bytes
            expected[id(oldest)] = instant
        waiting.append(visit)
        waiting_bytes += visit.bytes
    for visit in visits:
        dropped = visit.dropped if visit.cause == "overflow" else None
        if dropped != expected.get(id(visit)):
            text = (
                f"packet {visit.packet} was dropped at {dropped} ns, expected at {expected.get(id(visit))} ns"
            )
            yield Finding("a full queue drops from the front", direction.name, text)


def _check_order(direction: Direction, visits: Sequence[Visit]) -> Iterator[Finding]:
    latest = -1
    for visit in visits:
        if visit.departure is not None:
            if visit.departure_step < latest:
                yield Finding(
                    "packet order", direction.name, f"packet {visit.packet} was overtaken in the queue"
                )
            latest = max(latest, visit.departure_step)


def _check_causes(
    direction: Direction, queue: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check that the discipline has the causes of its drops, and the law of its AQM."""
    properties = DISCIPLINES[queue["kind"]]
    causes = {"overflow", "aqm"} if properties.manages else {"overflow"}
    ordered = sorted(visits, key=lambda v: begins.get(v.packet, v.dropped if v.dropped is not None else -1))
    for visit in ordered:
        if visit.dropped is not None and visit.cause not in causes:
            text = f"packet {visit.packet} was dropped ({visit.cause}) by a {queue['kind']} queue"
            yield Finding("drop cause", direction.name, text)
    if properties.check_aqm is not None:
        yield from properties.check_aqm(direction, queue, ordered, begins)


def _check_netem(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    changes = stage.get("changes", [])
    rates = [(change["at_ns"], change["rate_bit_s"]) for change in changes if "rate_bit_s" in change]
    delays = [(change["at_ns"], change["delay_ns"]) for change in changes if "delay_ns" in change]
    limits = [(at, limit["packets"]) for at, limit in stage.get("limits", [])]
    link = _Rate(step_function(stage["rate_bit_s"], rates))
    delay, limit_at = step_function(stage["delay_ns"], delays), step_function(stage["limit_packets"], limits)
    departures: list[int] = []
    free_at = first_inside = 0
    for visit in visits:
        while first_inside < len(departures) and departures[first_inside] <= visit.arrival:
            first_inside += 1
        is_full = len(departures) - first_inside >= limit_at(visit.arrival)
        if visit.dropped is not None or is_full:
            if visit.dropped != visit.arrival or visit.cause != "overflow" or not is_full:
                event = "was enqueued" if visit.dropped is None else f"was dropped ({visit.cause})"
                text = f"packet {visit.packet} {event} behind {len(departures) - first_inside} packets"
                yield Finding("queue limit", direction.name, text)
            continue
        ready_at = visit.arrival + delay(visit.arrival)
        expected = link.end(max(ready_at, free_at), visit, busy=ready_at <= free_at, set_at=visit.arrival)
        departure = visit.departure
        if departure is None and expected + 1 < end:
            yield Finding(
                "byte conservation", direction.name, f"packet {visit.packet} was to leave at {expected} ns"
            )
        elif departure is not None and abs(departure - expected) > 1:
            text = f"packet {visit.packet} left at {departure} ns, expected {expected} ns"
            yield Finding("link rate", direction.name, text)
        free_at = expected
        departures.append(expected)


RULES: Mapping[str, Rule] = {"transmit": _check_transmit, "netem": _check_netem}
"""Rules by the kind of the stage."""
