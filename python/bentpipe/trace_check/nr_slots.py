"""Checks of 5G links: slots and processes, order of PDCP, causes of drops, sums over users.

As with other radio links, the trace shows only when a packet arrived and when it left or was dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bentpipe.trace_check.airtime import check_order, check_other_drop, check_overflow
from bentpipe.trace_check.disciplines import discipline
from bentpipe.trace_check.handovers import InFlightEvents, Spec
from bentpipe.trace_check.trace import Direction, Finding, Rule, Visit

__all__ = ["RULES", "check_sums"]


def _block_ns(stage: Spec) -> int:
    """Return the airtime of a block in ns."""
    return int(stage["repetitions"] * stage["slot_ns"])


def _cycle_ns(stage: Spec) -> int:
    """Return the interval between two blocks of a process with feedback in ns."""
    feedback_slots = (
        -(-stage["feedback"]["delay_ns"] // stage["slot_ns"]) if stage["feedback"] is not None else 0
    )
    return int((stage["offset_slots"] + stage["repetitions"] + feedback_slots) * stage["slot_ns"])


def _first_block(stage: Spec, arrival: int) -> int:
    """Return the begin of the first block that can carry a packet: one slot after its arrival."""
    slot: int = stage["slot_ns"]
    return (arrival // slot + 1 + int(stage["offset_slots"])) * slot


def _check_nr(direction: Direction, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    in_flight = InFlightEvents(stage)
    for visit in visits:
        block_count = -(-visit.bytes // stage["block_bytes"])
        earliest = _first_block(stage, visit.arrival) + block_count * _block_ns(stage)
        if visit.departure is not None and visit.departure < earliest:
            text = f"packet {visit.packet} of {visit.bytes} bytes left at {visit.departure} ns, expected {earliest} ns"
            yield Finding("link rate", direction.name, f"{text} or later")
        if visit.departure is not None and stage["reordering"] is None and visit.departure % stage["slot_ns"]:
            text = f"packet {visit.packet} left at {visit.departure} ns, within a slot"
            yield Finding("slot boundaries", direction.name, text)
        if visit.cause == "retry_limit":
            yield from _check_retry_limit(direction, stage, visit)
        elif visit.dropped is not None:
            yield from check_other_drop(direction, stage, visit, in_flight)
    yield from _check_bytes(direction, stage, visits)
    if stage["reordering"] is not None and discipline(stage).in_order:
        yield from check_order(direction, visits)
    yield from check_overflow(direction, stage, visits)


def _check_retry_limit(direction: Direction, stage: Spec, visit: Visit) -> Iterator[Finding]:
    """Check a drop by the retry limit: of HARQ in unacknowledged mode, else of RLC; never without block errors."""
    instant = visit.dropped or 0
    earliest = _first_block(stage, visit.arrival)
    if stage["rlc"]["kind"] == "unacknowledged":
        earliest += _block_ns(stage)
        if stage["reordering"] is None and stage["feedback_disabled_processes"] == 0:
            earliest += (stage["attempts"] - 1) * _cycle_ns(stage)
    decoder = stage["decoder"]
    has_errors = decoder["kind"] != "block_errors" or any(
        probability > 0 for probability in decoder["probabilities"]
    )
    waits_for_order = stage["reordering"] is None or stage["reordering"]["time_limit_ns"] is None
    if (not has_errors and waits_for_order) or instant < earliest:
        text = f"packet {visit.packet} was dropped at {instant} ns, expected {earliest} ns or later (retry limit)"
        yield Finding("drop cause", direction.name, text)


def _check_bytes(direction: Direction, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Check the bytes that left by an instant against the blocks that had ended.

    Each slot has one block, and each process has one block in a cycle.
    """
    departed = sorted((v for v in visits if v.departure is not None), key=lambda v: v.departure or 0)
    if not departed:
        return
    total_bytes, start = 0, _first_block(stage, visits[0].arrival)
    for visit in departed:
        total_bytes += visit.bytes
        elapsed = (visit.departure or 0) - start
        blocks = elapsed // _block_ns(stage)
        if stage["feedback_disabled_processes"] == 0:
            blocks = min(blocks, stage["processes"] * -(-elapsed // _cycle_ns(stage)))
        if total_bytes > blocks * stage["block_bytes"]:
            text = (
                f"by {visit.departure} ns {total_bytes} bytes have left since {start} ns, in {blocks} blocks"
            )
            yield Finding("link rate", direction.name, text)
            return


def check_sums(
    direction: Direction, stage: Spec, instant: int, total: Mapping[str, float]
) -> Iterator[Finding]:
    """Check the sums over users: airtime, whole blocks, bits and processes."""
    slots = round(total["airtime_s"] * 1e9 / stage["slot_ns"])
    max_blocks = (
        stage["processes"] * -(-instant // _cycle_ns(stage))
        if stage["feedback_disabled_processes"] == 0
        else slots
    )
    violations = {
        "air": slots * stage["slot_ns"] > instant,
        "blocks": slots != total["attempts"] * stage["repetitions"] or total["attempts"] > max_blocks,
        "coded bits": total["coded_bits"] != slots * stage["coded_bits"],
        "useful bits": total["useful_bits"] > total["attempts"] * stage["block_bytes"] * 8,
    }
    for quantity in (quantity for quantity, is_violated in violations.items() if is_violated):
        yield Finding("airtime", direction.name, f"{quantity} of the users at {instant} ns: {dict(total)}")


RULES: Mapping[str, Rule] = {"nr": _check_nr}
"""Rules by the kind of the stage."""
