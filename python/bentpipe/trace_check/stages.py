"""Stages that take each packet by itself: delays, losses, outages.

Each rule says when a packet has to leave that came at an instant, worked out from the scenario alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.trace_check.handovers import Fates, Spec, stepped
from bentpipe.trace_check.losses import check_count, check_losses
from bentpipe.trace_check.trace import Finding, Line, Rule, Visit

__all__ = ["RULES"]


def _delay(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    changes = stage.get("changes", [])
    value: Callable[[int], int] = stepped(
        stage["delay_ns"], [(one["at_ns"], one["delay_ns"]) for one in changes]
    )
    yield from _leave(line, visits, end, value, Fates(stage), in_order=True)


def _delay_trace(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    points, repeat = stage["points"], stage["repeat_ns"]
    at = [point[0] for point in points]

    def value(came: int) -> int:
        phase = came % repeat if repeat else came
        last = max(bisect_right(at, phase) - 1, 0)
        (t0, d0), (t1, d1) = points[last], points[min(last + 1, len(points) - 1)]
        if stage["interpolation"] == "step" or phase <= t0 or t1 == t0:
            return int(d0)
        return int(d0 + (d1 - d0) * (phase - t0) / (t1 - t0))

    yield from _leave(line, visits, end, value, Fates(stage), in_order=not stage["reorder"])


def _leave(
    line: Line,
    visits: Sequence[Visit],
    end: int,
    value: Callable[[int], int],
    fates: Fates,
    *,
    in_order: bool,
) -> Iterator[Finding]:
    """Each leaves after its delay, in order no earlier than the one before it."""
    for visit in visits:
        due = visit.came + value(visit.came)
        if in_order:
            due = fates.after(visit.came, due)
        yield from _expect(line, visit, due, end, "no sooner than the delay", fates.lost(visit.came, due))


def _expect(
    line: Line, visit: Visit, due: int, end: int, rule: str, lost: int | None = None
) -> Iterator[Finding]:
    """``visit`` leaves at ``due``, unless it is lost before."""
    if lost is not None and lost < end:
        yield from _expect_lost(line, visit, lost)
    elif visit.dropped is not None:
        yield _finding(
            line, visit, "a cause for every drop", f"was dropped ({visit.cause}) where nothing drops"
        )
    elif visit.left is None:
        if due + 1 < end:
            yield _finding(line, visit, "bytes are conserved", f"was to leave at {due} ns, and did not")
    elif abs(visit.left - due) > 1:
        yield _finding(line, visit, rule, f"left at {visit.left} ns, expected {due} ns")


def _expect_lost(line: Line, visit: Visit, at: int) -> Iterator[Finding]:
    if visit.dropped != at or visit.cause != "outage":
        text = f"was inside at {at} ns, when what was in flight was lost, and was not dropped"
        yield _finding(line, visit, "a hand-over is one event", text)


def _slot_delay(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    """What a slot's delay is is drawn: it is one of its distribution, the same for all of a slot but for the jitter,
    and nobody overtakes."""
    slots, delays, jitter = stage["slots"], stage["delay_ns"], stage["jitter_ns"] or [0]
    low, high = delays[0] + jitter[0], delays[-1] + jitter[-1]
    before, fates = 0, Fates(stage)
    known: dict[int, tuple[int, int]] = {}
    for visit in visits:
        gone = fates.lost(visit.came, end if visit.left is None else visit.left)
        if gone is not None and gone < end and (visit.left is not None or visit.dropped is not None):
            yield from _expect_lost(line, visit, gone)
            continue
        if visit.dropped is not None or visit.left is None:
            if visit.dropped is not None or max(visit.came + high, before) + 1 < end:
                yield _finding(line, visit, "bytes are conserved", "never left a stage that drops nothing")
            continue
        before = fates.after(visit.came, 0)
        late, held = visit.left - visit.came, visit.left <= before
        if late < low - 1 or visit.left < before or visit.left > max(visit.came + high, before) + 1:
            text = f"was on its way for {late} ns, expected {low} to {high} ns, or until {before} ns"
            yield _finding(line, visit, "no sooner than the delay", text)
        elif not held and slots["jitter_ns"] == 0:
            slot = (visit.came - slots["phase_ns"]) // slots["every_ns"]
            least, most = known.get(slot, (low - jitter[0], high - jitter[0]))
            least, most = max(least, late - jitter[-1] - 1), min(most, late - jitter[0] + 1)
            known[slot] = least, most
            if least > most:
                text = f"was on its way for {late} ns, more apart from others of its slot than jitter is"
                yield _finding(line, visit, "a slot has one delay", text)
        before = fates.after(visit.came, visit.left)


def _jitter(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    most = stage["model"].get("most_ns") if stage["model"]["kind"] == "uniform" else None
    before, fates = 0, Fates(stage)
    for visit in visits:
        gone = fates.lost(visit.came, end if visit.left is None else visit.left)
        if gone is not None and gone < end and (visit.left is not None or visit.dropped is not None):
            yield from _expect_lost(line, visit, gone)
            continue
        if visit.dropped is not None or visit.left is None:
            if visit.dropped is not None or (most is not None and max(visit.came + most, before) + 1 < end):
                yield _finding(line, visit, "bytes are conserved", "never left a stage that drops nothing")
            continue
        late = visit.left - visit.came
        if late < 0 or (most is not None and visit.left > max(visit.came + most, before) + 1):
            text = f"was held for {late} ns, expected 0 to {'any time' if most is None else f'{most} ns'}"
            yield _finding(line, visit, "no sooner than the delay", text)
        if not stage["reorder"]:
            before = fates.after(visit.came, 0)
            if visit.left < before:
                yield _finding(
                    line, visit, "the order is kept", f"left at {visit.left} ns, before {before} ns"
                )
            before = fates.after(visit.came, visit.left)


def _reorder(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    hold, held, known = stage["hold_ns"], 0, 0
    fates = Fates(stage)
    for visit in visits:
        lost = fates.lost(visit.came, visit.came + hold)
        if visit.dropped is not None and lost is not None:
            # Who is held back is drawn: no other is lost.
            held, known = held + 1, known + 1
            yield from _expect_lost(line, visit, lost)
            continue
        if visit.left is None and visit.dropped is None and visit.came + hold >= end:
            continue
        known += 1
        late = None if visit.left is None else visit.left - visit.came
        held += late == hold
        if late not in (0, hold):
            yield _finding(
                line, visit, "no sooner than the delay", f"was held for {late} ns, expected 0 or {hold} ns"
            )
    if hold:
        yield from check_count(line, "held back", held, [(stage["probability"], known)])


def _outage(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    windows, repeat = stage["windows"], stage["repeat_ns"]

    def down(at: int) -> int | None:
        """The end of the window at ``at``; None: the link is up."""
        phase = at % repeat if repeat else at
        return next((at + to - phase for begin, to in windows if begin <= phase < to), None)

    before, fates = 0, Fates(stage)
    for visit in visits:
        until, chained = visit.came, 0
        while chained <= len(windows) and (later := down(until)) is not None:
            until, chained = later, chained + 1
        if chained > len(windows):
            until = end + 2  # for ever
        if until > visit.came and not stage["hold"]:
            if visit.dropped != visit.came or visit.cause != "outage":
                text = f"came at {visit.came} ns, when the link was down, and was not dropped"
                yield _finding(line, visit, "nothing crosses a link that is down", text)
            continue
        if visit.left is not None and down(visit.left) is not None:
            text = f"left at {visit.left} ns, when the link was down"
            yield _finding(line, visit, "nothing crosses a link that is down", text)
            continue
        before = max(before, until)
        lost = fates.lost(visit.came, before) if before > visit.came else None
        yield from _expect(line, visit, before, end, "no sooner than the delay", lost)


def _finding(line: Line, visit: Visit, rule: str, text: str) -> Finding:
    return Finding(rule, line.name, f"packet {visit.packet} {text}")


RULES: Mapping[str, Rule] = {
    "delay": _delay,
    "delay_trace": _delay_trace,
    "slot_delay": _slot_delay,
    "jitter": _jitter,
    "reorder": _reorder,
    "loss": check_losses,
    "outage": _outage,
}
"""By the kind of the stage."""
