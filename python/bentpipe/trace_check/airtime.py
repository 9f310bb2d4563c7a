"""Checks of radio links by bounds: airtime of packets, causes and instants of drops, sums over users.

The trace shows when a packet arrived and when it left or was dropped, not the attempts in between. The checks are
therefore bounds, and sums of the table of users. The minimum airtime of a packet is that of its first attempt, which
every packet that leaves has.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.disciplines import discipline
from bentpipe.trace_check.handovers import InFlightEvents, Spec
from bentpipe.trace_check.trace import Direction, Finding, Rule, Trace, Visit, nanoseconds

__all__ = ["RULES", "Sum", "check_order", "check_other_drop", "check_overflow", "check_sums", "check_users"]

Sum = Callable[[Direction, Spec, int, Mapping[str, float]], Iterator[Finding]]
"""Check of the sums over users at an instant."""

SECOND = 1_000_000_000


def _airtime(layer: Spec, size: int, attempt: int) -> float:
    """Return the minimum airtime in ns of an attempt (counted from 0) at a packet of ``size`` bytes."""
    frames = -(-size // layer["frame_bytes"])
    if layer["code"]["kind"] == "given":
        coded_bits = layer["code"]["coded_bits"]
        frame_bits = coded_bits[min(attempt, len(coded_bits) - 1)]
    else:
        frame_bits = 8 * layer["frame_bytes"] if attempt == 0 else 0
    frame_bits += layer["overhead_bits"] + (layer.get("first_overhead_bits", 0) if attempt == 0 else 0)
    return float(frames * frame_bits * SECOND / layer["rate_bit_s"])


def _check_radio(direction: Direction, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    layer, in_flight = stage["link_layer"], InFlightEvents(stage)
    for visit in visits:
        earliest = visit.arrival + _airtime(layer, visit.bytes, 0)
        if visit.departure is not None and visit.departure < earliest - 1:
            text = (
                f"packet {visit.packet} of {visit.bytes} bytes left at {visit.departure} ns, expected "
                f"{earliest:.0f} ns"
            )
            yield Finding("link rate", direction.name, f"{text} or later")
        if visit.dropped is not None:
            yield from _check_drop(direction, stage, visit, in_flight)
    yield from _check_schedule(direction, layer, visits)
    yield from _check_overlap(direction, stage, visits)
    yield from _check_link_order(direction, stage, visits)
    if stage["queue"]["kind"] == "per_user":
        yield from user_queues.check_user_queues(direction, stage, visits)
    else:
        yield from check_overflow(direction, stage, visits)


def _check_drop(
    direction: Direction, stage: Spec, visit: Visit, in_flight: InFlightEvents
) -> Iterator[Finding]:
    """Check a drop: by the queue, by a handover, or by the retry limit.

    The retry limit needs all attempts, with feedback after each but the last.
    """
    layer, instant = stage["link_layer"], visit.dropped or 0
    if visit.cause == "retry_limit":
        max_attempts = layer["attempts"]
        # Go-back-N drops after as many attempts; attempts that its receiver discarded do not count.
        earliest = visit.arrival + _total_airtime(layer, visit.bytes)
        if layer["feedback"] is not None and max_attempts is not None:
            earliest += (max_attempts - 1) * layer["feedback"]["delay_ns"]
        if max_attempts is None or instant < earliest - 1:
            text = (
                f"packet {visit.packet} was dropped at {instant} ns, expected {earliest:.0f} ns or later "
                "(retry limit)"
            )
            yield Finding("drop cause", direction.name, text)
    else:
        yield from check_other_drop(direction, stage, visit, in_flight)


def check_other_drop(
    direction: Direction, stage: Spec, visit: Visit, in_flight: InFlightEvents
) -> Iterator[Finding]:
    """Check a drop by the queue or by a handover."""
    instant = visit.dropped or 0
    has_aqm = discipline(stage).manages
    if visit.cause == "outage":
        if in_flight.lost_at(visit.arrival, instant) != instant:
            text = f"packet {visit.packet} was dropped (outage) at {instant} ns without a handover loss"
            yield Finding("drop cause", direction.name, text)
    elif visit.cause != "overflow" and not (has_aqm and visit.cause == "aqm"):
        text = f"packet {visit.packet} was dropped ({visit.cause}) at {instant} ns by a radio link"
        yield Finding("drop cause", direction.name, text)


def _total_airtime(layer: Spec, size: int) -> float:
    """Return the minimum airtime in ns of a packet that the retry limit drops."""
    return sum(_airtime(layer, size, attempt) for attempt in range(layer["attempts"] or 0))


def _check_schedule(direction: Direction, layer: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check that a schedule exists: the airtime of each packet fits between arrival and departure, one user at a time.

    If any schedule exists, preemptive ones included, then the earliest deadline first is one (Horn, Naval Research
    Logistics Quarterly 21, 1974). A reordering buffer lets packets leave after they were decoded, which only relaxes
    the deadlines.
    """
    jobs = [
        (visit, _total_airtime(layer, visit.bytes) if visit.cause else _airtime(layer, visit.bytes, 0))
        for visit in visits
        if visit.departure is not None or visit.cause == "retry_limit"
    ]
    queue: list[tuple[int, int, float]] = []
    time = busy_start = 0.0
    arrived = 0
    while queue or arrived < len(jobs):
        if not queue:
            busy_start = time = max(time, float(jobs[arrived][0].arrival))
        while arrived < len(jobs) and jobs[arrived][0].arrival <= time:
            heapq.heappush(queue, (jobs[arrived][0].removal or 0, arrived, jobs[arrived][1]))
            arrived += 1
        deadline, number, airtime = queue[0]
        served = min(airtime, jobs[arrived][0].arrival - time) if arrived < len(jobs) else airtime
        time += served
        if served < airtime:
            heapq.heapreplace(queue, (deadline, number, airtime - served))
            continue
        heapq.heappop(queue)
        if time > deadline + 1:
            visit = jobs[number][0]
            text = (
                f"packet {visit.packet} of user {visit.user} was gone by {deadline} ns; its airtime ends at "
                f"{time:.0f} ns or later, after packets that arrived since {busy_start:.0f} ns and had to precede it"
            )
            yield Finding("one user at a time", direction.name, text)
            return


def _check_overlap(direction: Direction, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check that the attempts that decoded packets do not overlap.

    The check needs links without a reordering buffer: departures show the ends of attempts, whose minimum length is
    known.
    """
    layer = stage["link_layer"]
    if stage["reordering"] is not None or layer["code"]["kind"] != "given":
        return
    attempt_count = len(layer["code"]["coded_bits"])
    previous_end, previous_user = -1, -1
    for visit in sorted((v for v in visits if v.departure is not None), key=lambda v: v.departure_step):
        departure = visit.departure or 0
        earliest = departure - min(
            _airtime(layer, visit.bytes, attempt) for attempt in range(attempt_count + 1)
        )
        if earliest < previous_end - 1:
            text = f"packets of users {visit.user} and {previous_user} overlap (packet {visit.packet})"
            yield Finding("one user at a time", direction.name, text)
            return
        previous_end, previous_user = departure, visit.user


def _check_link_order(direction: Direction, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check the order where one queue keeps it: one attempt, go-back-N, or a buffer without limits."""
    layer, buffer = stage["link_layer"], stage["reordering"]
    waits_for_order = (
        buffer is not None
        and buffer["numbering"] == "link"
        and buffer["time_limit_ns"] is None
        and buffer["packets"] > len(visits)
    )
    keeps_order = (
        layer["attempts"] == 1
        or layer["repeat"] == "go_back_n"
        or (waits_for_order and layer["attempts"] is None)
    )
    if not keeps_order:
        return
    if stage["queue"]["kind"] == "per_user":
        for user_visits in user_queues.group_by_user(visits).values():
            yield from check_order(direction, user_visits)
        return
    if discipline(stage).in_order:
        yield from check_order(direction, visits)


def check_order(direction: Direction, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check that no packet overtakes another."""
    latest = -1
    for visit in visits:
        if visit.departure is not None:
            if visit.departure_step < latest:
                text = f"packet {visit.packet} was overtaken"
                yield Finding("packet order", direction.name, text)
            latest = max(latest, visit.departure_step)


def check_overflow(direction: Direction, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check that a packet dropped by overflow found a full queue."""
    limit = stage["queue"].get("limit") or {}
    if discipline(stage).evicts == "longest" or not limit:
        return
    if discipline(stage).evicts == "head":
        yield from _check_head_drops(direction, limit, visits)
        return
    removals = sorted(
        (v.removal, v.bytes) for v in visits if v.removal is not None and v.removal != v.arrival
    )
    inside_packets, bytes_inside, next_removal = 0, 0, 0
    for visit in visits:
        while next_removal < len(removals) and (removals[next_removal][0] or 0) < visit.arrival:
            inside_packets, bytes_inside, next_removal = (
                inside_packets - 1,
                bytes_inside - removals[next_removal][1],
                next_removal + 1,
            )
        if visit.dropped == visit.arrival and visit.cause == "overflow":
            has_space = inside_packets < limit.get("packets", inside_packets + 1)
            if has_space and bytes_inside + visit.bytes <= limit.get("bytes", bytes_inside + visit.bytes):
                text = (
                    f"packet {visit.packet} was dropped (overflow) at {visit.arrival} ns behind "
                    f"{inside_packets} packets"
                )
                yield Finding("unnecessary drop", direction.name, text)
            continue
        inside_packets, bytes_inside = inside_packets + 1, bytes_inside + visit.bytes


def _check_head_drops(direction: Direction, limit: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check drops at the head of a full queue: each happens at an arrival that exceeds the limit."""
    arrivals = [visit.arrival for visit in visits]
    removals = sorted((v.removal, v.bytes) for v in visits if v.removal is not None)
    arrival_bytes = [0, *accumulate(visit.bytes for visit in visits)]
    removal_bytes = [0, *accumulate(size for _, size in removals)]
    for visit in visits:
        if visit.cause != "overflow" or visit.dropped is None:
            continue
        arrived, removed = bisect_right(arrivals, visit.dropped), bisect_left(removals, (visit.dropped,))
        inside, bytes_inside = arrived - removed, arrival_bytes[arrived] - removal_bytes[removed]
        is_full = inside > limit.get("packets", inside) or bytes_inside > limit.get("bytes", bytes_inside)
        if not is_full or arrivals[arrived - 1] != visit.dropped:
            text = (
                f"packet {visit.packet} was dropped (overflow) at {visit.dropped} ns among {inside} packets"
            )
            yield Finding("unnecessary drop", direction.name, text)


def check_users(trace: Trace, direction: Direction, sums: Mapping[str, Sum]) -> Iterator[Finding]:
    """Compare the users' table of a link with its packets.

    Args:
        trace: trace of the run.
        direction: direction of the link.
        sums: check of the sums over users, by the kind of the stage.
    """
    # The table describes the first stage of the direction that has users.
    number = next((n for n, stage in enumerate(direction.stages) if stage["kind"] in (*sums, "acm")), None)
    if number is None or direction.stages[number]["kind"] not in sums:
        return
    if "radio_users" not in trace.tables:
        if direction.visits[number]:
            yield Finding("counters", direction.name, "the run has no table of users")
        return
    stage, visits = direction.stages[number], direction.visits[number]
    departures = sorted(v.departure for v in visits if v.departure is not None)
    drops = sorted(v.dropped or 0 for v in visits if v.cause == "retry_limit")
    rows = trace.tables["radio_users"].filter(trace.tables["radio_users"]["link"] == direction.name)
    previous: tuple[int, float] = (0, 0.0)
    for (at_s,), sample in rows.group_by("time_s", maintain_order=True):
        instant = nanoseconds(at_s) or 0
        total = {
            name: float(sample[name].sum())
            for name in sample.columns
            if name not in ("time_s", "seed", "user")
            and sample[name].dtype.is_numeric()  # not the columns of the cell
        }
        decoded = _decoded(total)
        departed, dropped_count = bisect_right(departures, instant), bisect_right(drops, instant)
        reordering = stage["reordering"]
        buffered = len(visits) if reordering is not None else 0
        yield from sums[stage["kind"]](direction, stage, instant, total)
        if stage["kind"] == "radio":
            yield from _check_interval(
                direction, stage["link_layer"], visits, previous, (instant, total["airtime_s"] * SECOND)
            )
        previous = instant, total["airtime_s"] * SECOND
        if not departed <= decoded <= departed + buffered:
            text = f"{decoded} packets reported as decoded by {instant} ns, found {departed} departures"
            yield Finding("counters", direction.name, text)
        if total["dropped_retry_limit_packets"] != dropped_count:
            reported = total["dropped_retry_limit_packets"]
            text = f"{reported} retry-limit drops reported by {instant} ns, found {dropped_count}"
            yield Finding("counters", direction.name, text)


def check_sums(
    direction: Direction, stage: Spec, instant: int, total: Mapping[str, float]
) -> Iterator[Finding]:
    """Check the sums over users: airtime, coded bits and attempts.

    Airtime is at most the elapsed time, coded bits fit the airtime, and each packet has an attempt.
    """
    layer, decoded = stage["link_layer"], _decoded(total)
    airtime_bits = total["airtime_s"] * layer["rate_bit_s"]
    # Attempts end at whole nanoseconds.
    slack = total["attempts"] * layer["rate_bit_s"] / SECOND + 1
    violations = {
        "air": total["airtime_s"] * SECOND > instant + 1,
        "coded bits": abs(airtime_bits - total["coded_bits"]) > slack,
        "attempts": total["attempts"] - total["duplicate_attempts"]
        < decoded + total["dropped_retry_limit_packets"],
    }
    for quantity in (quantity for quantity, is_violated in violations.items() if is_violated):
        yield Finding("airtime", direction.name, f"{quantity} of the users at {instant} ns: {dict(total)}")


def _check_interval(
    direction: Direction,
    layer: Spec,
    visits: Sequence[Visit],
    previous: tuple[int, float],
    current: tuple[int, float],
) -> Iterator[Finding]:
    """Check that airtime between two samples is at most the interval and one attempt that began before it."""
    if layer["code"]["kind"] != "given":
        return
    attempts = range(len(layer["code"]["coded_bits"]) + 1)
    longest_attempt = max(
        (
            _airtime(layer, size, attempt)
            for size in {visit.bytes for visit in visits}
            for attempt in attempts
        ),
        default=0,
    )
    if current[1] - previous[1] > current[0] - previous[0] + longest_attempt + 1:
        text = f"{current[1] - previous[1]:.0f} ns of airtime for users from {previous[0]} to {current[0]} ns"
        yield Finding("one user at a time", direction.name, text)


def _decoded(total: Mapping[str, float]) -> float:
    return sum(total[name] for name in total if name.startswith("decoded_"))


RULES: Mapping[str, Rule] = {"radio": _check_radio}
"""Rules by the kind of the stage."""
