"""Attempts on the air of a radio link, which the table of attempts has to the nanosecond: one after the other, at
packets that are there, as long as their coded bits, and as many and as much as users are said to have had.

Stores of engines that kept no attempts have no such table; of them ``radiating`` finds what bounds can show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.handovers import Spec, stepped
from bentpipe.trace_check.trace import Attempt, Finding, Line, Trace, Visit, nanoseconds

__all__ = ["attempts"]

SECOND = 1_000_000_000


def attempts(trace: Trace, line: Line) -> Iterator[Finding]:
    """What cannot be of the attempts of a line."""
    counted = next(
        (n for n, stage in enumerate(line.stages) if stage["kind"] in ("radio", "acm", "nr")), None
    )
    for place, (stage, tried) in enumerate(zip(line.stages, line.attempts, strict=True)):
        if tried is None or stage["kind"] not in ("radio", "acm"):
            continue
        yield from _one_at_a_time(line, tried)
        yield from _at_packets(line, stage, line.visits[place], tried)
        if stage["kind"] == "radio":
            yield from _long_enough(line, stage, line.visits[place], tried)
        if stage["queue"]["kind"] == "per_user":
            begins = {one.packet: one.begin for one in tried if one.attempt == 1}
            yield from user_queues.in_turn(line, stage["queue"]["scheduler"], line.visits[place], begins)
        if place == counted and "users" in trace.tables:
            yield from _sums(trace, line, tried)


def _one_at_a_time(line: Line, tried: Sequence[Attempt]) -> Iterator[Finding]:
    """Nobody is on the air while another is."""
    for before, one in pairwise(tried):
        if one.begin < before.end:
            text = (
                f"attempt {one.attempt} at packet {one.packet} of user {one.user} begins at {one.begin} ns, while "
                f"packet {before.packet} of user {before.user} is on the air until {before.end} ns"
            )
            yield Finding("one user at a time", line.name, text)


def _at_packets(
    line: Line, stage: Spec, visits: Sequence[Visit], tried: Sequence[Attempt]
) -> Iterator[Finding]:
    """Each is at a packet that is in the stage, or at a copy of one that was."""
    buffered = stage.get("reordering") is not None
    own: dict[int, list[Attempt]] = defaultdict(list)
    for one in tried:
        own[one.packet].append(one)
    for visit in visits:
        mine = own.pop(visit.packet, [])
        if [one.attempt for one in mine] != list(range(1, len(mine) + 1)):
            text = f"packet {visit.packet} has attempts {[one.attempt for one in mine]}"
            yield Finding("attempts follow each other", line.name, text)
        if any(one.user != visit.user for one in mine):
            text = f"packet {visit.packet} is of user {visit.user}, and on the air for another"
            yield Finding("a place for everything", line.name, text)
        if wrong := _wrong(visit, mine, buffered=buffered):
            yield Finding("only what is there is on the air", line.name, f"packet {visit.packet} {wrong}")
    for packet in own:
        text = f"packet {packet} was on the air of a link that it never came to"
        yield Finding("only what is there is on the air", line.name, text)


def _wrong(visit: Visit, mine: Sequence[Attempt], *, buffered: bool) -> str:
    """What cannot be of the attempts at a packet: who leaves does so as the last attempt ends that is not at a copy, or
    later from a buffer."""
    first = [one for one in mine if not one.copy]
    if not first:
        on_air = visit.left is not None or visit.cause == "link" or mine
        return "left, was given up or was a copy without an attempt" if on_air else ""
    ended = first[-1].end
    if first[0].begin < visit.came:
        return f"was on the air from {first[0].begin} ns, and came at {visit.came} ns"
    if visit.gone is not None and ended > visit.gone:
        return f"was on the air until {ended} ns, and gone by {visit.gone} ns"
    if visit.left is not None and not buffered and visit.left != ended:
        return f"left at {visit.left} ns, when no attempt at it ended"
    if visit.cause in ("overflow", "aqm"):
        return f"was on the air, and dropped ({visit.cause}) by the queue"
    return "was a copy before it had left" if any(one.copy and one.begin < ended for one in mine) else ""


def _length(stage: Spec, size: int, attempt: int) -> tuple[int, bool]:
    """Bits that an attempt at a packet of ``size`` bytes, counted from 1, puts on the air, or at least puts there; and
    whether it is just these."""
    layer = stage["link_layer"]
    given = layer["code"]["kind"] == "given"
    if given:
        bits = layer["code"]["coded_bits"]
        # Of go-back-N the receiver takes not every attempt, and counts those that it takes.
        exact = layer["repeat"] != "go_back_n" or len(set(bits)) == 1
        coded = bits[min(attempt, len(bits)) - 1] if exact else min(bits)
    else:
        exact, coded = False, 8 * layer["frame_bytes"] if attempt == 1 else 0
    once = layer.get("first_overhead_bits", 0)
    if once and attempt > 1 and layer["repeat"] == "go_back_n":
        exact = False
    coded += layer["overhead_bits"] + (once if attempt == 1 else 0)
    return -(-size // layer["frame_bytes"]) * coded, exact


def _long_enough(
    line: Line, stage: Spec, visits: Sequence[Visit], tried: Sequence[Attempt]
) -> Iterator[Finding]:
    """Each lasts its bits over the rate."""
    sizes = {visit.packet: visit.bytes for visit in visits}
    changes = [(one["at_ns"], one["rate_bit_s"]) for one in stage.get("changes", []) if "rate_bit_s" in one]
    rate = stepped(stage["link_layer"]["rate_bit_s"], changes)
    for one in tried:
        if one.packet not in sizes:
            continue
        bits, exact = _length(stage, sizes[one.packet], one.attempt)
        due, lasted = bits * SECOND / rate(one.begin), one.end - one.begin
        if lasted < due - 1 or (exact and lasted > due + 1):
            text = f"attempt {one.attempt} at packet {one.packet} lasted {lasted} ns, expected {due:.0f} ns"
            yield Finding("no faster than the rate", line.name, text + ("" if exact else " or more"))


def _sums(trace: Trace, line: Line, tried: Sequence[Attempt]) -> Iterator[Finding]:
    """At every sample a user has had the attempts, the copies and the air of what ended by then."""
    rows = trace.tables["users"].filter(trace.tables["users"]["link"] == line.name)
    ended = sorted(tried, key=lambda one: one.end)
    had: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    next_one = 0
    for (at_s,), sample in rows.group_by("time_s", maintain_order=True):
        at = nanoseconds(at_s) or 0
        while next_one < len(ended) and ended[next_one].end <= at:
            one = ended[next_one]
            had[one.user] = [
                a + b for a, b in zip(had[one.user], (1, one.copy, one.end - one.begin), strict=True)
            ]
            next_one += 1
        said: Mapping[int, list[int]] = {
            user: [count, copies, nanoseconds(air) or 0]
            for user, count, copies, air in sample.select("user", "attempts", "copies", "air_s").iter_rows()
        }
        for user in sorted({*had, *said}):
            if (seen := had.get(user, [0, 0, 0])) != (told := said.get(user, [0, 0, 0])):
                text = (
                    f"user {user} is said to have had (attempts, copies, ns on the air) {told} by {at} ns, and {seen} "
                    "were seen"
                )
                yield Finding("counters count", line.name, text)
