"""Checks of links with adaptive coding and modulation: rate of the fastest mode, and causes of drops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.airtime import check_overflow
from bentpipe.trace_check.disciplines import discipline
from bentpipe.trace_check.handovers import InFlightEvents, Spec
from bentpipe.trace_check.trace import Direction, Finding, Rule, Visit

__all__ = ["RULES"]

SECOND = 1_000_000_000


def _check_acm(direction: Direction, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    fastest, in_flight = stage["modes"][-1], InFlightEvents(stage)
    rate = stage["symbols_s"] * fastest["data_bits"] / fastest["symbols"]
    busy_until, latest = 0.0, -1
    for visit in sorted(visits, key=lambda visit: visit.removal if visit.removal is not None else 2**63):
        service_end = (
            visit.departure
            if visit.departure is not None
            else visit.dropped
            if visit.cause == "retry_limit"
            else None
        )
        if service_end is not None:
            # The link sends one packet after the other, each after its arrival.
            busy_until = max(busy_until, visit.arrival) + visit.bytes * 8 * SECOND / rate
            if service_end < busy_until - 1:
                text = (
                    f"packet {visit.packet} of {visit.bytes} bytes left at {service_end} ns, expected "
                    f"{busy_until:.0f} ns"
                )
                yield Finding("link rate", direction.name, f"{text} or later")
            if discipline(stage).in_order and visit.arrival < latest:
                yield Finding("packet order", direction.name, f"packet {visit.packet} was overtaken")
            latest = max(latest, visit.arrival)
        if visit.dropped is not None:
            yield from _check_drop(direction, stage, visit, in_flight)
    if stage["queue"]["kind"] == "per_user":
        yield from user_queues.check_user_queues(direction, stage, visits)
    else:
        yield from check_overflow(direction, stage, visits)


def _check_drop(
    direction: Direction, stage: Spec, visit: Visit, in_flight: InFlightEvents
) -> Iterator[Finding]:
    instant, channel = visit.dropped or 0, stage["channel"]
    if visit.cause == "outage":
        allowed = in_flight.lost_at(visit.arrival, instant) == instant
    elif visit.cause == "retry_limit":
        # A fixed channel reports its exact SNR: only the slowest mode may need more than that.
        allowed = channel["kind"] != "fixed" or channel["snr_db"] < stage["modes"][0]["es_n0_db"]
    else:
        allowed = visit.cause == "overflow" or (visit.cause == "aqm" and discipline(stage).manages)
    if not allowed:
        text = f"packet {visit.packet} was dropped ({visit.cause}) at {instant} ns without a reason"
        yield Finding("drop cause", direction.name, text)


RULES: Mapping[str, Rule] = {"acm": _check_acm}
"""Rules by the kind of the stage."""
