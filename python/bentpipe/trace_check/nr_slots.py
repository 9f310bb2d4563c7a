"""5G links: the slots that packets take at least, processes that wait for their answers, the order of PDCP, who may be
lost, and the sums of the table of users.

As of other radio links it is seen of a packet when it came, and when it left or was dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bentpipe.trace_check.airtime import kept_in_order, lost_elsewhere, room
from bentpipe.trace_check.disciplines import discipline
from bentpipe.trace_check.handovers import Fates, Spec
from bentpipe.trace_check.trace import Finding, Line, Rule, Visit

__all__ = ["RULES", "added"]


def _block_ns(stage: Spec) -> int:
    """How long a block is on the air."""
    return int(stage["repetitions"] * stage["slot_ns"])


def _cycle_ns(stage: Spec) -> int:
    """From one block of a process with feedback to the next."""
    answer = -(-stage["feedback"]["delay_ns"] // stage["slot_ns"]) if stage["feedback"] is not None else 0
    return int((stage["offset_slots"] + stage["repetitions"] + answer) * stage["slot_ns"])


def _first(stage: Spec, came: int) -> int:
    """When the first block can begin that has something of a packet which came at ``came``: a slot later."""
    slot: int = stage["slot_ns"]
    return (came // slot + 1 + int(stage["offset_slots"])) * slot


def _nr(line: Line, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    fates = Fates(stage)
    for visit in visits:
        blocks = -(-visit.bytes // stage["block_bytes"])
        least = _first(stage, visit.came) + blocks * _block_ns(stage)
        if visit.left is not None and visit.left < least:
            text = (
                f"packet {visit.packet} of {visit.bytes} bytes left at {visit.left} ns, expected {least} ns"
            )
            yield Finding("no faster than the rate", line.name, f"{text} or later")
        if visit.left is not None and stage["order"] is None and visit.left % stage["slot_ns"]:
            text = f"packet {visit.packet} left at {visit.left} ns, which is within a slot"
            yield Finding("blocks end with slots", line.name, text)
        if visit.cause == "link":
            yield from _given_up(line, stage, visit)
        elif visit.dropped is not None:
            yield from lost_elsewhere(line, stage, visit, fates)
    yield from _sums(line, stage, visits)
    if stage["order"] is not None and discipline(stage).in_order:
        yield from kept_in_order(line, visits)
    yield from room(line, stage, visits)


def _given_up(line: Line, stage: Spec, visit: Visit) -> Iterator[Finding]:
    """In unacknowledged mode after as many attempts as there are, in the other after RLC's; never without errors."""
    at = visit.dropped or 0
    least = _first(stage, visit.came)
    if stage["rlc"]["kind"] == "unacknowledged":
        least += _block_ns(stage)
        if stage["order"] is None and stage["without_feedback"] == 0:
            least += (stage["attempts"] - 1) * _cycle_ns(stage)
    decoder = stage["decoder"]
    errs = decoder["kind"] != "block_errors" or any(chance > 0 for chance in decoder["probabilities"])
    patient = stage["order"] is None or stage["order"]["time_limit_ns"] is None
    if (not errs and patient) or at < least:
        text = f"packet {visit.packet} was given up at {at} ns, expected no attempt less: {least} ns or later"
        yield Finding("a cause for every drop", line.name, text)


def _sums(line: Line, stage: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """What has left by an instant was in blocks that had ended, of which each slot has one and each process one a
    cycle."""
    left = sorted((v for v in visits if v.left is not None), key=lambda v: v.left or 0)
    if not left:
        return
    total, begin = 0, _first(stage, visits[0].came)
    for visit in left:
        total += visit.bytes
        time = (visit.left or 0) - begin
        blocks = time // _block_ns(stage)
        if stage["without_feedback"] == 0:
            blocks = min(blocks, stage["processes"] * -(-time // _cycle_ns(stage)))
        if total > blocks * stage["block_bytes"]:
            text = f"by {visit.left} ns {total} bytes have left since {begin} ns, in {blocks} blocks"
            yield Finding("no faster than the rate", line.name, text)
            return


def added(line: Line, stage: Spec, at: int, total: Mapping[str, float]) -> Iterator[Finding]:
    """No more air than time, whole blocks, no more bits of packets than blocks have, no more blocks than processes."""
    slots = round(total["air_s"] * 1e9 / stage["slot_ns"])
    most = stage["processes"] * -(-at // _cycle_ns(stage)) if stage["without_feedback"] == 0 else slots
    wrong = {
        "air": slots * stage["slot_ns"] > at,
        "blocks": slots != total["attempts"] * stage["repetitions"] or total["attempts"] > most,
        "coded bits": total["coded_bits"] != slots * stage["coded_bits"],
        "useful bits": total["useful_bits"] > total["attempts"] * stage["block_bytes"] * 8,
    }
    for what in (what for what, is_wrong in wrong.items() if is_wrong):
        yield Finding("air is used once", line.name, f"{what} of the users at {at} ns: {dict(total)}")


RULES: Mapping[str, Rule] = {"nr": _nr}
"""By the kind of the stage."""
