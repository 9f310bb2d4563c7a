"""Properties of each queue discipline, for the checks of traced runs.

An AQM that drops by a law of its own has a row with its checker here. No other module depends on the law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Direction, Finding, Visit

__all__ = ["DISCIPLINES", "AqmCheck", "Discipline", "discipline"]

AqmCheck = Callable[[Direction, Spec, Sequence[Visit], Mapping[int, int]], Iterator[Finding]]
"""Check of an AQM: direction, specification of the queue, visits and begins of service in ns by packet.

The visits are in order of the begin of service or of the drop. Those that a handover lost are not among them.
"""


@dataclass(frozen=True, slots=True)
class Discipline:
    """Properties of a queue discipline.

    Args:
        in_order: packets leave in the order of arrival.
        evicts: where a full queue drops packets: the arrival, at the head, or from the longest queue.
        manages: packets are also dropped because they have waited.
        check_aqm: check of the drops before a transmitter; None: the discipline has no law of its own.
    """

    in_order: bool
    evicts: Literal["arrival", "head", "longest"]
    manages: bool
    check_aqm: AqmCheck | None = None


def _check_codel(
    direction: Direction,
    queue: Spec,
    visits: Sequence[Visit],
    begins: Mapping[int, int],
    *,
    is_single_queue: bool,
) -> Iterator[Finding]:
    """Check CoDel (RFC 8289 section 4): it drops packets above the target delay, after a whole interval above it.

    With several queues the trace does not show which queue was above the target, so only the delay is checked.
    """
    above_since: int | None = None
    for visit in visits:
        instant = begins.get(visit.packet, visit.dropped)
        if instant is None or visit.cause == "overflow":
            continue
        delay = instant - visit.arrival
        if delay < queue["target_ns"]:
            above_since = None
        elif above_since is None:
            above_since = instant
        is_early = above_since is None or (is_single_queue and instant < above_since + queue["interval_ns"])
        if visit.cause == "aqm" and is_early:
            text = f"packet {visit.packet} was dropped after {delay} ns, too soon for CoDel"
            yield Finding("AQM law", direction.name, text)
            above_since = instant if above_since is None else above_since


def _check_policer(
    direction: Direction, queue: Spec, visits: Sequence[Visit], _begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check a policer: it drops a packet exactly if the token bucket has too few tokens.

    The bucket is computed in bits times nanoseconds, so without rounding.
    """
    full = queue["burst_bytes"] * 8 * 10**9
    tokens, updated = full, 0
    for visit in sorted(visits, key=lambda visit: (visit.arrival, visit.packet)):
        tokens = min(full, tokens + (visit.arrival - updated) * queue["rate_bit_s"])
        updated = visit.arrival
        is_policed, cost = visit.cause == "aqm", visit.bytes * 8 * 10**9
        if is_policed != (tokens < cost):
            has = f"{tokens // (8 * 10**9)} bytes of tokens"
            text = f"packet {visit.packet} of {visit.bytes} B was {'dropped' if is_policed else 'admitted'} with {has}"
            yield Finding("AQM law", direction.name, text)
        if not is_policed:
            tokens -= cost


DISCIPLINES: Mapping[str, Discipline] = {
    "drop_tail": Discipline(in_order=True, evicts="arrival", manages=False),
    "drop_head": Discipline(in_order=True, evicts="head", manages=False),
    "codel": Discipline(
        in_order=True, evicts="arrival", manages=True, check_aqm=partial(_check_codel, is_single_queue=True)
    ),
    "fq_codel": Discipline(
        in_order=False, evicts="longest", manages=True, check_aqm=partial(_check_codel, is_single_queue=False)
    ),
    "policer": Discipline(in_order=True, evicts="arrival", manages=True, check_aqm=_check_policer),
    "per_user": Discipline(in_order=False, evicts="longest", manages=True),
}
"""Disciplines by the kind in a resolved run."""


def discipline(stage: Spec) -> Discipline:
    """Return the properties of a stage's queue."""
    return DISCIPLINES[stage["queue"]["kind"]]
