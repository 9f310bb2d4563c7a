"""Checks of stages that treat each packet separately: delays, losses, outages.

Each rule computes the departure of a packet from its arrival and the scenario alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.trace_check.handovers import InFlightEvents, Spec, step_function
from bentpipe.trace_check.losses import check_count, check_losses
from bentpipe.trace_check.trace import Direction, Finding, Rule, Visit

__all__ = ["RULES"]


def _delay(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    """Check a delay that may change."""
    changes = stage.get("changes", [])
    value: Callable[[int], int] = step_function(
        stage["delay_ns"], [(change["at_ns"], change["delay_ns"]) for change in changes]
    )
    yield from _check_delays(direction, visits, end, value, InFlightEvents(stage), in_order=True)


def _delay_trace(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    """Check a delay that follows a trace."""
    points, repeat = stage["points"], stage["repeat_ns"]
    at = [point[0] for point in points]

    def value(arrival: int) -> int:
        phase = arrival % repeat if repeat else arrival
        last = max(bisect_right(at, phase) - 1, 0)
        (t0, d0), (t1, d1) = points[last], points[min(last + 1, len(points) - 1)]
        if stage["interpolation"] == "step" or phase <= t0 or t1 == t0:
            return int(d0)
        return int(d0 + (d1 - d0) * (phase - t0) / (t1 - t0))

    yield from _check_delays(
        direction, visits, end, value, InFlightEvents(stage), in_order=not stage["reorder"]
    )


def _check_delays(
    direction: Direction,
    visits: Sequence[Visit],
    end: int,
    value: Callable[[int], int],
    in_flight: InFlightEvents,
    *,
    in_order: bool,
) -> Iterator[Finding]:
    """Check that each packet leaves after its delay, and not before its predecessor if the order is kept."""
    for visit in visits:
        due = visit.arrival + value(visit.arrival)
        if in_order:
            due = in_flight.ordered_departure(visit.arrival, due)
        yield from _check_exit(
            direction, visit, due, end, "minimum delay", in_flight.lost_at(visit.arrival, due)
        )


def _check_exit(
    direction: Direction, visit: Visit, due: int, end: int, rule: str, lost: int | None = None
) -> Iterator[Finding]:
    """Check that ``visit`` leaves at ``due``, unless a handover loses it before."""
    if lost is not None and lost < end:
        yield from _check_lost(direction, visit, lost)
    elif visit.dropped is not None:
        yield _finding(
            direction,
            visit,
            "drop cause",
            f"was dropped ({visit.cause}) by a stage that drops nothing",
        )
    elif visit.departure is None:
        if due + 1 < end:
            yield _finding(
                direction, visit, "byte conservation", f"was to leave at {due} ns and did not leave"
            )
    elif abs(visit.departure - due) > 1:
        yield _finding(direction, visit, rule, f"left at {visit.departure} ns, expected {due} ns")


def _check_lost(direction: Direction, visit: Visit, at: int) -> Iterator[Finding]:
    if visit.dropped != at or visit.cause != "outage":
        text = f"was inside during a handover loss at {at} ns and was not dropped"
        yield _finding(direction, visit, "handover", text)


def _slot_delay(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    """Check delays that are drawn for each reconfiguration interval.

    A delay is in its distribution, equal for all packets of an interval except for jitter, and keeps the order.
    """
    slots, delays, jitter = stage["reconfiguration"], stage["delay_ns"], stage["jitter_ns"] or [0]
    low, high = delays[0] + jitter[0], delays[-1] + jitter[-1]
    floor, in_flight = 0, InFlightEvents(stage)
    ranges: dict[int, tuple[int, int]] = {}
    for visit in visits:
        lost_at = in_flight.lost_at(visit.arrival, end if visit.departure is None else visit.departure)
        if (
            lost_at is not None
            and lost_at < end
            and (visit.departure is not None or visit.dropped is not None)
        ):
            yield from _check_lost(direction, visit, lost_at)
            continue
        if visit.dropped is not None or visit.departure is None:
            if visit.dropped is not None or max(visit.arrival + high, floor) + 1 < end:
                yield _finding(direction, visit, "byte conservation", "never left a stage that drops nothing")
            continue
        floor = in_flight.ordered_departure(visit.arrival, 0)
        delay, is_queued = visit.departure - visit.arrival, visit.departure <= floor
        if (
            delay < low - 1
            or visit.departure < floor
            or visit.departure > max(visit.arrival + high, floor) + 1
        ):
            text = f"was delayed by {delay} ns, expected {low} to {high} ns, or until {floor} ns"
            yield _finding(direction, visit, "minimum delay", text)
        elif not is_queued and slots["jitter_ns"] == 0:
            slot = (visit.arrival - slots["phase_ns"]) // slots["interval_ns"]
            lower, upper = ranges.get(slot, (low - jitter[0], high - jitter[0]))
            lower, upper = max(lower, delay - jitter[-1] - 1), min(upper, delay - jitter[0] + 1)
            ranges[slot] = lower, upper
            if lower > upper:
                text = f"was delayed by {delay} ns, which differs from its interval by more than the jitter"
                yield _finding(direction, visit, "a slot has one delay", text)
        floor = in_flight.ordered_departure(visit.arrival, visit.departure)


def _jitter(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    """Check random delays: within the range of the model, and in order unless the stage reorders."""
    max_ns = stage["model"].get("max_ns") if stage["model"]["kind"] == "uniform" else None
    floor, in_flight = 0, InFlightEvents(stage)
    for visit in visits:
        lost_at = in_flight.lost_at(visit.arrival, end if visit.departure is None else visit.departure)
        if (
            lost_at is not None
            and lost_at < end
            and (visit.departure is not None or visit.dropped is not None)
        ):
            yield from _check_lost(direction, visit, lost_at)
            continue
        if visit.dropped is not None or visit.departure is None:
            if visit.dropped is not None or (
                max_ns is not None and max(visit.arrival + max_ns, floor) + 1 < end
            ):
                yield _finding(direction, visit, "byte conservation", "never left a stage that drops nothing")
            continue
        delay = visit.departure - visit.arrival
        if delay < 0 or (max_ns is not None and visit.departure > max(visit.arrival + max_ns, floor) + 1):
            text = (
                f"was delayed by {delay} ns, expected 0 to {'any time' if max_ns is None else f'{max_ns} ns'}"
            )
            yield _finding(direction, visit, "minimum delay", text)
        if not stage["reorder"]:
            floor = in_flight.ordered_departure(visit.arrival, 0)
            if visit.departure < floor:
                yield _finding(
                    direction, visit, "packet order", f"left at {visit.departure} ns, before {floor} ns"
                )
            floor = in_flight.ordered_departure(visit.arrival, visit.departure)


def _reorder(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    hold_ns, delayed_count, count = stage["delay_ns"], 0, 0
    in_flight = InFlightEvents(stage)
    for visit in visits:
        lost = in_flight.lost_at(visit.arrival, visit.arrival + hold_ns)
        if visit.dropped is not None and lost is not None:
            # The model draws which packets it delays: only those are lost.
            delayed_count, count = delayed_count + 1, count + 1
            yield from _check_lost(direction, visit, lost)
            continue
        if visit.departure is None and visit.dropped is None and visit.arrival + hold_ns >= end:
            continue
        count += 1
        delay = None if visit.departure is None else visit.departure - visit.arrival
        delayed_count += delay == hold_ns
        if delay not in (0, hold_ns):
            yield _finding(
                direction,
                visit,
                "minimum delay",
                f"was delayed by {delay} ns, expected 0 or {hold_ns} ns",
            )
    if hold_ns:
        yield from check_count(direction, "held back", delayed_count, [(stage["probability"], count)])


def _outage(direction: Direction, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    windows, repeat = stage["windows"], stage["repeat_ns"]

    def outage_end(instant: int) -> int | None:
        """Return the end of the window at ``instant``; None: the link is up."""
        phase = instant % repeat if repeat else instant
        return next((instant + to - phase for start, to in windows if start <= phase < to), None)

    floor, in_flight = 0, InFlightEvents(stage)
    for visit in visits:
        until, chained = visit.arrival, 0
        while chained <= len(windows) and (later := outage_end(until)) is not None:
            until, chained = later, chained + 1
        if chained > len(windows):
            until = end + 2  # for ever
        if until > visit.arrival and not stage["buffer_packets"]:
            if visit.dropped != visit.arrival or visit.cause != "outage":
                text = f"arrived at {visit.arrival} ns, when the link was down, and was not dropped"
                yield _finding(direction, visit, "link outage", text)
            continue
        if visit.departure is not None and outage_end(visit.departure) is not None:
            text = f"left at {visit.departure} ns, when the link was down"
            yield _finding(direction, visit, "link outage", text)
            continue
        floor = max(floor, until)
        lost_at = in_flight.lost_at(visit.arrival, floor) if floor > visit.arrival else None
        yield from _check_exit(direction, visit, floor, end, "minimum delay", lost_at)


def _finding(direction: Direction, visit: Visit, rule: str, text: str) -> Finding:
    return Finding(rule, direction.name, f"packet {visit.packet} {text}")


RULES: Mapping[str, Rule] = {
    "delay": _delay,
    "delay_trace": _delay_trace,
    "reconfiguration_delay": _slot_delay,
    "jitter": _jitter,
    "reorder": _reorder,
    "loss": check_losses,
    "outage": _outage,
}
"""By the kind of the stage."""
