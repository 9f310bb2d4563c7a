"""Radio links: the air that a packet takes at least, who may give it up and when, what users are said to have had.

Of a packet it is seen when it came, and when it left or was dropped; what was tried in between is not. So these are
bounds, and the sums of the table of users. Air that a packet takes at least is that of its first attempt, which every
packet has that leaves.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.disciplines import discipline
from bentpipe.trace_check.handovers import Fates, Spec
from bentpipe.trace_check.trace import Finding, Line, Rule, Trace, Visit, nanoseconds

__all__ = ["RULES", "Sum", "added", "kept_in_order", "lost_elsewhere", "room", "users"]

Sum = Callable[[Line, Spec, int, Mapping[str, float]], Iterator[Finding]]
"""What must hold of the sums over users at an instant."""

SECOND = 1_000_000_000


def _air(layer: Spec, size: int, attempt: int) -> float:
    """Nanoseconds of the air that an attempt at a packet of ``size`` bytes, counted from 0, takes at least."""
    frames = -(-size // layer["frame_bytes"])
    if layer["code"]["kind"] == "given":
        bits = layer["code"]["coded_bits"]
        coded = bits[min(attempt, len(bits) - 1)]
    else:
        coded = 8 * layer["frame_bytes"] if attempt == 0 else 0
    coded += layer["overhead_bits"] + (layer.get("first_overhead_bits", 0) if attempt == 0 else 0)
    return float(frames * coded * SECOND / layer["rate_bit_s"])


def _radio(line: Line, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    layer, fates = stage["link_layer"], Fates(stage)
    for visit in visits:
        least = visit.came + _air(layer, visit.bytes, 0)
        if visit.left is not None and visit.left < least - 1:
            text = f"packet {visit.packet} of {visit.bytes} bytes left at {visit.left} ns, expected {least:.0f} ns"
            yield Finding("no faster than the rate", line.name, f"{text} or later")
        if visit.dropped is not None:
            yield from _dropped(line, stage, visit, fates)
    yield from _room_on_the_air(line, layer, visits)
    yield from _one_at_a_time(line, stage, visits)
    yield from _order(line, stage, visits)
    if stage["queue"]["kind"] == "per_user":
        yield from user_queues.shared(line, stage, visits)
    else:
        yield from room(line, stage, visits)


def _dropped(line: Line, stage: Spec, visit: Visit, fates: Fates) -> Iterator[Finding]:
    """By the queue, by a hand-over, or given up after as many attempts as there are, with an answer after each but the
    last."""
    layer, at = stage["link_layer"], visit.dropped or 0
    if visit.cause == "link":
        most = layer["attempts"]
        # Go-back-N gives up what was tried as often; what its receiver did not take is not counted.
        least = visit.came + _all_air(layer, visit.bytes)
        if layer["feedback"] is not None and most is not None:
            least += (most - 1) * layer["feedback"]["delay_ns"]
        if most is None or at < least - 1:
            text = f"packet {visit.packet} was given up at {at} ns, expected no attempt less: {least:.0f} ns or later"
            yield Finding("a cause for every drop", line.name, text)
    else:
        yield from lost_elsewhere(line, stage, visit, fates)


def lost_elsewhere(line: Line, stage: Spec, visit: Visit, fates: Fates) -> Iterator[Finding]:
    """By the queue, or by a hand-over."""
    at = visit.dropped or 0
    managed = discipline(stage).manages
    if visit.cause == "outage":
        if fates.lost(visit.came, at) != at:
            text = f"packet {visit.packet} was dropped (outage) at {at} ns, when nothing was lost"
            yield Finding("a cause for every drop", line.name, text)
    elif visit.cause != "overflow" and not (managed and visit.cause == "aqm"):
        text = f"packet {visit.packet} was dropped ({visit.cause}) at {at} ns by a radio link"
        yield Finding("a cause for every drop", line.name, text)


def _all_air(layer: Spec, size: int) -> float:
    """What a packet takes at least that is given up."""
    return sum(_air(layer, size, attempt) for attempt in range(layer["attempts"] or 0))


def _room_on_the_air(line: Line, layer: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """There is a way to have each packet's air between its coming and its going, one user at a time.

    If there is any, with attempts cut in pieces at that, there is the one in which who must go first has the air (Horn,
    Naval Research Logistics Quarterly 21, 1974). A buffer that restores the order lets packets go later than they were
    decoded, which leaves no less room.
    """
    ends = [
        (visit, _all_air(layer, visit.bytes) if visit.cause else _air(layer, visit.bytes, 0))
        for visit in visits
        if visit.left is not None or visit.cause == "link"
    ]
    waiting: list[tuple[int, int, float]] = []
    now = begin = 0.0
    came = 0
    while waiting or came < len(ends):
        if not waiting:
            begin = now = max(now, float(ends[came][0].came))
        while came < len(ends) and ends[came][0].came <= now:
            heapq.heappush(waiting, (ends[came][0].gone or 0, came, ends[came][1]))
            came += 1
        gone, first, air = waiting[0]
        on_air = min(air, ends[came][0].came - now) if came < len(ends) else air
        now += on_air
        if on_air < air:
            heapq.heapreplace(waiting, (gone, first, air - on_air))
            continue
        heapq.heappop(waiting)
        if now > gone + 1:
            visit = ends[first][0]
            text = (
                f"packet {visit.packet} of user {visit.user} was gone by {gone} ns: beside those that came since "
                f"{begin:.0f} ns and had to go before it, it has had its air by {now:.0f} ns"
            )
            yield Finding("one user at a time", line.name, text)
            return


def _one_at_a_time(line: Line, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """The attempts by which packets were decoded follow one another, where it is seen when they ended and how long they
    were at least."""
    layer = stage["link_layer"]
    if stage["reordering"] is not None or layer["code"]["kind"] != "given":
        return
    bits = len(layer["code"]["coded_bits"])
    before, other = -1, -1
    for visit in sorted((v for v in visits if v.left is not None), key=lambda v: v.left_step):
        left = visit.left or 0
        least = left - min(_air(layer, visit.bytes, attempt) for attempt in range(bits + 1))
        if least < before - 1:
            text = f"packet {visit.packet} of user {visit.user} was on the air before that of user {other} had left it"
            yield Finding("one user at a time", line.name, text)
            return
        before, other = left, visit.user


def _order(line: Line, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """One attempt, go-back-N and a buffer that never has to give way keep the order of one queue."""
    layer, buffer = stage["link_layer"], stage["reordering"]
    patient = (
        buffer is not None
        and buffer["numbering"] == "link"
        and buffer["time_limit_ns"] is None
        and buffer["packets"] > len(visits)
    )
    kept = layer["attempts"] == 1 or layer["repeat"] == "go_back_n" or (patient and layer["attempts"] is None)
    if not kept:
        return
    if stage["queue"]["kind"] == "per_user":
        for own in user_queues.by_user(visits).values():
            yield from kept_in_order(line, own)
        return
    if discipline(stage).in_order:
        yield from kept_in_order(line, visits)


def kept_in_order(line: Line, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Nobody is overtaken."""
    before = -1
    for visit in visits:
        if visit.left is not None:
            if visit.left_step < before:
                text = f"packet {visit.packet} was overtaken"
                yield Finding("the order is kept", line.name, text)
            before = max(before, visit.left_step)


def room(line: Line, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """What is dropped for want of room finds the queue full: so many packets or bytes are inside."""
    limit = stage["queue"].get("limit") or {}
    if discipline(stage).evicts == "longest" or not limit:
        return
    if discipline(stage).evicts == "head":
        yield from _room_at_the_front(line, limit, visits)
        return
    gone = sorted((v.gone, v.bytes) for v in visits if v.gone is not None and v.gone != v.came)
    inside, bytes_inside, first = 0, 0, 0
    for visit in visits:
        while first < len(gone) and (gone[first][0] or 0) < visit.came:
            inside, bytes_inside, first = inside - 1, bytes_inside - gone[first][1], first + 1
        if visit.dropped == visit.came and visit.cause == "overflow":
            fits = inside < limit.get("packets", inside + 1)
            if fits and bytes_inside + visit.bytes <= limit.get("bytes", bytes_inside + visit.bytes):
                text = f"packet {visit.packet} found no room at {visit.came} ns beside {inside} packets"
                yield Finding("no drop while there is room", line.name, text)
            continue
        inside, bytes_inside = inside + 1, bytes_inside + visit.bytes


def _room_at_the_front(line: Line, limit: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """What makes room does so when somebody comes, and with it more would be inside than may wait."""
    came = [visit.came for visit in visits]
    gone = sorted((v.gone, v.bytes) for v in visits if v.gone is not None)
    came_bytes = [0, *accumulate(visit.bytes for visit in visits)]
    gone_bytes = [0, *accumulate(size for _, size in gone)]
    for visit in visits:
        if visit.cause != "overflow" or visit.dropped is None:
            continue
        there, away = bisect_right(came, visit.dropped), bisect_left(gone, (visit.dropped,))
        inside, bytes_inside = there - away, came_bytes[there] - gone_bytes[away]
        full = inside > limit.get("packets", inside) or bytes_inside > limit.get("bytes", bytes_inside)
        if not full or came[there - 1] != visit.dropped:
            text = f"packet {visit.packet} had to make room at {visit.dropped} ns among {inside} packets"
            yield Finding("no drop while there is room", line.name, text)


def users(trace: Trace, line: Line, sums: Mapping[str, Sum]) -> Iterator[Finding]:
    """What users are said to have had of a link adds up to what was seen; ``sums`` by the kind of the link's stage."""
    # the table is of the line's first link that tells users apart
    place = next((n for n, stage in enumerate(line.stages) if stage["kind"] in (*sums, "acm")), None)
    if place is None or line.stages[place]["kind"] not in sums:
        return
    if "users" not in trace.tables:
        if line.visits[place]:
            yield Finding("counters count", line.name, "the run has no table of what its users had")
        return
    stage, visits = line.stages[place], line.visits[place]
    left = sorted(v.left for v in visits if v.left is not None)
    lost = sorted(v.dropped or 0 for v in visits if v.cause == "link")
    rows = trace.tables["users"].filter(trace.tables["users"]["link"] == line.name)
    before: tuple[int, float] = (0, 0.0)
    for (at_s,), sample in rows.group_by("time_s", maintain_order=True):
        at = nanoseconds(at_s) or 0
        total = {
            name: float(sample[name].sum())
            for name in sample.columns
            if name not in ("time_s", "seed", "user")
            and sample[name].dtype.is_numeric()  # not the cell's words
        }
        decoded = _decoded(total)
        seen, dropped = bisect_right(left, at), bisect_right(lost, at)
        ordered = stage["reordering" if stage["kind"] == "radio" else "order"]
        inside = len(visits) if ordered is not None else 0
        yield from sums[stage["kind"]](line, stage, at, total)
        if stage["kind"] == "radio":
            yield from _since(line, stage["link_layer"], visits, before, (at, total["air_s"] * SECOND))
        before = at, total["air_s"] * SECOND
        if not seen <= decoded <= seen + inside:
            text = f"{decoded} packets are said to be decoded by {at} ns, and {seen} have left"
            yield Finding("counters count", line.name, text)
        if total["dropped_link_packets"] != dropped:
            text = f"{total['dropped_link_packets']} packets are said to be given up by {at} ns, and {dropped} were"
            yield Finding("counters count", line.name, text)


def added(line: Line, stage: Spec, at: int, total: Mapping[str, float]) -> Iterator[Finding]:
    """No more air than time, as many coded bits as the air has room for, no fewer attempts than packets."""
    layer, decoded = stage["link_layer"], _decoded(total)
    bits = total["air_s"] * layer["rate_bit_s"]
    # Each attempt's end is a whole nanosecond.
    slack = total["attempts"] * layer["rate_bit_s"] / SECOND + 1
    wrong = {
        "air": total["air_s"] * SECOND > at + 1,
        "coded bits": abs(bits - total["coded_bits"]) > slack,
        "attempts": total["attempts"] - total["copies"] < decoded + total["dropped_link_packets"],
    }
    for what in (what for what, is_wrong in wrong.items() if is_wrong):
        yield Finding("air is used once", line.name, f"{what} of the users at {at} ns: {dict(total)}")


def _since(
    line: Line, layer: Spec, visits: Sequence[Visit], before: tuple[int, float], now: tuple[int, float]
) -> Iterator[Finding]:
    """From one instant to the next users had no more air than there was, beside an attempt that had begun before."""
    if layer["code"]["kind"] != "given":
        return
    attempts = range(len(layer["code"]["coded_bits"]) + 1)
    longest = max(
        (_air(layer, size, attempt) for size in {visit.bytes for visit in visits} for attempt in attempts),
        default=0,
    )
    if now[1] - before[1] > now[0] - before[0] + longest + 1:
        text = f"{now[1] - before[1]:.0f} ns of air for users from {before[0]} to {now[0]} ns"
        yield Finding("one user at a time", line.name, text)


def _decoded(total: Mapping[str, float]) -> float:
    return sum(total[name] for name in total if name.startswith("decoded_"))


RULES: Mapping[str, Rule] = {"radio": _radio}
"""By the kind of the stage."""
