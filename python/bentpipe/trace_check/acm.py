"""Links with adaptive coding and modulation: no faster than their fastest mode, and what the link may lose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bentpipe.trace_check import user_queues
from bentpipe.trace_check.airtime import room
from bentpipe.trace_check.disciplines import discipline
from bentpipe.trace_check.handovers import Fates, Spec
from bentpipe.trace_check.trace import Finding, Line, Rule, Visit

__all__ = ["RULES"]

SECOND = 1_000_000_000


def _acm(line: Line, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    fastest, fates = stage["modes"][-1], Fates(stage)
    rate = stage["symbols_s"] * fastest["data_bits"] / fastest["symbols"]
    busy, before = 0.0, -1
    for visit in sorted(visits, key=lambda visit: visit.gone if visit.gone is not None else 2**63):
        served = visit.left if visit.left is not None else visit.dropped if visit.cause == "link" else None
        if served is not None:
            # One after the other, each no sooner than it came.
            busy = max(busy, visit.came) + visit.bytes * 8 * SECOND / rate
            if served < busy - 1:
                text = f"packet {visit.packet} of {visit.bytes} bytes was sent by {served} ns, expected {busy:.0f} ns"
                yield Finding("no faster than the rate", line.name, f"{text} or later")
            if discipline(stage).in_order and visit.came < before:
                yield Finding("the order is kept", line.name, f"packet {visit.packet} was overtaken")
            before = max(before, visit.came)
        if visit.dropped is not None:
            yield from _dropped(line, stage, visit, fates)
    if stage["queue"]["kind"] == "per_user":
        yield from user_queues.shared(line, stage, visits)
    else:
        yield from room(line, stage, visits)


def _dropped(line: Line, stage: Spec, visit: Visit, fates: Fates) -> Iterator[Finding]:
    at, channel = visit.dropped or 0, stage["channel"]
    if visit.cause == "outage":
        allowed = fates.lost(visit.came, at) == at
    elif visit.cause == "link":
        # White noise is reported as it is: only the slowest mode is ever used that needs more.
        allowed = channel["kind"] != "fixed" or channel["snr_db"] < stage["modes"][0]["es_n0_db"]
    else:
        allowed = visit.cause == "overflow" or (visit.cause == "aqm" and discipline(stage).manages)
    if not allowed:
        text = f"packet {visit.packet} was dropped ({visit.cause}) at {at} ns, for which there was no reason"
        yield Finding("a cause for every drop", line.name, text)


RULES: Mapping[str, Rule] = {"acm": _acm}
"""By the kind of the stage."""
