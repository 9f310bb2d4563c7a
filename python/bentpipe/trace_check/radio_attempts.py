"""Checks of the attempts of a radio link, which its table has to the nanosecond.

Attempts do not overlap, belong to packets in the stage, last as long as their coded bits, and add up to the table of
users. Stores of engines without attempts have no such table; ``airtime`` then checks bounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.handovers import Spec, step_function
from bentpipe.trace_check.trace import Attempt, Direction, Finding, Trace, Visit, nanoseconds

__all__ = ["check_attempts"]

SECOND = 1_000_000_000


def check_attempts(trace: Trace, direction: Direction) -> Iterator[Finding]:
    """Check the attempts of a link direction."""
    first_radio = next(
        (number for number, stage in enumerate(direction.stages) if stage["kind"] in ("radio", "acm", "nr")),
        None,
    )
    for number, (stage, stage_attempts) in enumerate(zip(direction.stages, direction.attempts, strict=True)):
        if stage_attempts is None or stage["kind"] not in ("radio", "acm"):
            continue
        yield from _check_overlap(direction, stage_attempts)
        yield from _check_packets(direction, stage, direction.visits[number], stage_attempts)
        if stage["kind"] == "radio":
            yield from _check_durations(direction, stage, direction.visits[number], stage_attempts)
        if stage["queue"]["kind"] == "per_user":
            begins = {one.packet: one.begin for one in stage_attempts if one.attempt == 1}
            yield from user_queues.check_service(
                direction, stage["queue"]["scheduler"], direction.visits[number], begins
            )
        if number == first_radio and "radio_users" in trace.tables:
            yield from _compare_users(trace, direction, stage_attempts)


def _check_overlap(direction: Direction, attempts: Sequence[Attempt]) -> Iterator[Finding]:
    """Check that attempts do not overlap."""
    for previous, current in pairwise(attempts):
        if current.begin < previous.end:
            text = (
                f"attempt {current.attempt} at packet {current.packet} of user {current.user} begins "
                f"at {current.begin} ns, "
                f"while "
                f"packet {previous.packet} of user {previous.user} is on the air until {previous.end} ns"
            )
            yield Finding("one user at a time", direction.name, text)


def _check_packets(
    direction: Direction, stage: Spec, visits: Sequence[Visit], attempts: Sequence[Attempt]
) -> Iterator[Finding]:
    """Check that each attempt is at a packet in the stage, or at a copy of an earlier one."""
    has_buffer = stage.get("reordering") is not None
    by_packet: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_packet[attempt.packet].append(attempt)
    for visit in visits:
        packet_attempts = by_packet.pop(visit.packet, [])
        if [attempt.attempt for attempt in packet_attempts] != list(range(1, len(packet_attempts) + 1)):
            text = f"packet {visit.packet} has attempts {[attempt.attempt for attempt in packet_attempts]}"
            yield Finding("attempt order", direction.name, text)
        if any(attempt.user != visit.user for attempt in packet_attempts):
            text = f"packet {visit.packet} of user {visit.user} has an attempt of another user"
            yield Finding("known link", direction.name, text)
        if violation := _violation(visit, packet_attempts, has_buffer=has_buffer):
            yield Finding("attempts of present packets", direction.name, f"packet {visit.packet} {violation}")
    for packet in by_packet:
        text = f"packet {packet} has an attempt on a link that it never entered"
        yield Finding("attempts of present packets", direction.name, text)


def _violation(visit: Visit, attempts: Sequence[Attempt], *, has_buffer: bool) -> str:
    """Return the violation of the attempts at a packet; empty: none.

    A packet leaves at the end of its last attempt that is not a copy, or later from a reordering buffer.
    """
    originals = [attempt for attempt in attempts if not attempt.copy]
    if not originals:
        is_expected = visit.departure is not None or visit.cause == "retry_limit" or attempts
        return "left, was dropped (retry limit) or was a copy without an attempt" if is_expected else ""
    decoded_at = originals[-1].end
    if originals[0].begin < visit.arrival:
        return f"was on the air from {originals[0].begin} ns, before its arrival at {visit.arrival} ns"
    if visit.removal is not None and decoded_at > visit.removal:
        return f"was on the air until {decoded_at} ns, after its end at {visit.removal} ns"
    if visit.departure is not None and not has_buffer and visit.departure != decoded_at:
        return f"left at {visit.departure} ns, when no attempt at it ended"
    if visit.cause in ("overflow", "aqm"):
        return f"was on the air and then dropped ({visit.cause}) by the queue"
    return (
        "was a copy before it had left"
        if any(attempt.copy and attempt.begin < decoded_at for attempt in attempts)
        else ""
    )


def _coded_bits(stage: Spec, size: int, attempt: int) -> tuple[int, bool]:
    """Return the coded bits of an attempt (from 1) at ``size`` bytes, and whether they are exact or a minimum."""
    layer = stage["link_layer"]
    has_bits = layer["code"]["kind"] == "given"
    if has_bits:
        bits = layer["code"]["coded_bits"]
        # The receiver of go-back-N discards some attempts and counts only the others.
        is_exact = layer["repeat"] != "go_back_n" or len(set(bits)) == 1
        coded_bits = bits[min(attempt, len(bits)) - 1] if is_exact else min(bits)
    else:
        is_exact, coded_bits = False, 8 * layer["frame_bytes"] if attempt == 1 else 0
    first_overhead = layer.get("first_overhead_bits", 0)
    if first_overhead and attempt > 1 and layer["repeat"] == "go_back_n":
        is_exact = False
    coded_bits += layer["overhead_bits"] + (first_overhead if attempt == 1 else 0)
    return -(-size // layer["frame_bytes"]) * coded_bits, is_exact


def _check_durations(
    direction: Direction, stage: Spec, visits: Sequence[Visit], attempts: Sequence[Attempt]
) -> Iterator[Finding]:
    """Check that each attempt lasts its bits divided by the rate."""
    sizes = {visit.packet: visit.bytes for visit in visits}
    changes = [
        (attempt["at_ns"], attempt["rate_bit_s"])
        for attempt in stage.get("changes", [])
        if "rate_bit_s" in attempt
    ]
    rate = step_function(stage["link_layer"]["rate_bit_s"], changes)
    for attempt in attempts:
        if attempt.packet not in sizes:
            continue
        bits, is_exact = _coded_bits(stage, sizes[attempt.packet], attempt.attempt)
        expected, duration = bits * SECOND / rate(attempt.begin), attempt.end - attempt.begin
        if duration < expected - 1 or (is_exact and duration > expected + 1):
            text = (
                f"attempt {attempt.attempt}, packet {attempt.packet}: lasted {duration} ns, expected "
                f"{expected:.0f} ns"
            )
            yield Finding("link rate", direction.name, text + ("" if is_exact else " or more"))


def _compare_users(trace: Trace, direction: Direction, attempts: Sequence[Attempt]) -> Iterator[Finding]:
    """Compare attempts, copies and airtime of users at every sample with the attempts that ended by then."""
    rows = trace.tables["radio_users"].filter(trace.tables["radio_users"]["link"] == direction.name)
    by_end = sorted(attempts, key=lambda attempt: attempt.end)
    totals: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    next_attempt = 0
    for (at_s,), sample in rows.group_by("time_s", maintain_order=True):
        instant = nanoseconds(at_s) or 0
        while next_attempt < len(by_end) and by_end[next_attempt].end <= instant:
            attempt = by_end[next_attempt]
            totals[attempt.user] = [
                total + increment
                for total, increment in zip(
                    totals[attempt.user], (1, attempt.copy, attempt.end - attempt.begin), strict=True
                )
            ]
            next_attempt += 1
        reported: Mapping[int, list[int]] = {
            user: [attempt_count, copies, nanoseconds(airtime) or 0]
            for user, attempt_count, copies, airtime in sample.select(
                "user", "attempts", "duplicate_attempts", "airtime_s"
            ).iter_rows()
        }
        for user in sorted({*totals, *reported}):
            if (computed := totals.get(user, [0, 0, 0])) != (
                reported_totals := reported.get(user, [0, 0, 0])
            ):
                text = (
                    f"user {user} has (attempts, copies, airtime ns) {reported_totals} by {instant} ns, expected "
                    f"{computed}"
                )
                yield Finding("counters", direction.name, text)
