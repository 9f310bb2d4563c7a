"""A 5G link in the engine's words: what its timers are where nothing is said, and how much of its slots it can use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bentpipe.plan.link import channel
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import FeedbackSpec, NrStageSpec, PdcpReorderingSpec, QueueSpec, RlcSpec
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.nr import Nr
    from bentpipe.scenario.quantities import Rate

__all__ = ["check", "cycle_slots", "rate_max_bit_s", "stage", "utilisation", "with_feedback_delay"]

LEAST_BLOCK = 16
"""Bytes of a transport block: the headers of a segment, and some of it."""
MOST_BLOCK = 2**28
"""Bytes: no slot of any carrier has as many."""
SOME_SLOTS = 10
"""How much longer than a cycle no status report follows another, so that what it asked for has come."""


def check(direction: Direction, key: str) -> None:
    """The keys beside ``nr`` go with it. Raises ScenarioError."""
    nr = direction.nr
    if nr is None:
        return
    if direction.rate is None or direction.rate.constant is None:
        text = 'expected a constant rate beside it, that of its transport blocks, such as rate = "10 Mbit/s"'
        raise ScenarioError([(f"{key}.nr", text)])
    for name in ("trace", "netem", "link_layer", "reordering_buffer", "acm"):
        if getattr(direction, name):
            raise ScenarioError([(f"{key}.{name}", "does not go with nr")])
    if any(change.rate is not None for change in direction.changes or []):
        raise ScenarioError(
            [(f"{key}.changes", "found a change of rate, which a rate beside nr does not have")]
        )
    if direction.scheduler is not None and direction.scheduler.per_user:
        raise ScenarioError(
            [(f"{key}.scheduler", "does not go with nr, which is the bearer of one terminal")]
        )
    if direction.channel is None and nr.block_error_rate is None:
        raise ScenarioError([(f"{key}.nr", "expected channel beside it, or block_error_rate")])
    if direction.channel is not None and nr.block_error_rate is None and nr.code_rate is None:
        text = 'expected code_rate, such as "1/2": that of a slot, over the channel'
        raise ScenarioError([(f"{key}.nr.code_rate", text)])


def with_feedback_delay(direction: Direction, round_trip_ns: int | None) -> Direction:
    """The direction with a ``feedback_delay``: where it is not given that of its segment, there and back (None: it
    moves)."""
    nr = direction.nr
    if nr is None or nr.feedback_delay is not None or not _answers(nr) or not round_trip_ns:
        return direction
    known = nr.model_copy(update={"feedback_delay": Duration(round_trip_ns)})
    return direction.model_copy(update={"nr": known})


def _answers(nr: Nr) -> bool:
    return nr.without_feedback < nr.processes or nr.rlc.mode == "am"


def stage(direction: Direction, queue: QueueSpec, rate: Rate, files: Files, key: str) -> NrStageSpec:
    """``StageSpec`` of a 5G link behind ``queue``; ``rate`` is that of its transport blocks."""
    nr = direction.nr
    if nr is None:
        raise ScenarioError([(f"{key}.nr", "missing")])
    block = rate.bit_s * nr.slot.ns // (8 * 10**9)
    if not LEAST_BLOCK <= block <= MOST_BLOCK:
        text = f"found {nr.slot} at {rate}: {block} bytes a slot, expected {LEAST_BLOCK} to {MOST_BLOCK:,}"
        raise ScenarioError([(f"{key}.nr.slot", text)])
    feedback = _feedback(nr, key)
    cycle = nr.slot.ns * _cycle(nr.scheduling_offset, nr.repetitions, feedback, nr.slot.ns)
    waits = (nr.attempts - 1) * cycle
    coded = math.ceil(round(8 * block / (nr.code_rate or 1.0), 6))
    return {
        "kind": "nr",
        "queue": queue,
        "channel": channel.channel(direction.channel, files, f"{key}.channel")
        if direction.channel is not None
        else None,
        "slot_ns": nr.slot.ns,
        "block_bytes": block,
        "coded_bits": min(coded, 2**32 - 1),
        "decoder": {"kind": "information", "margin": nr.margin}
        if nr.block_error_rate is None
        else {"kind": "block_errors", "probabilities": [chance.value for chance in nr.block_error_rate]},
        "combining": nr.combining,
        "processes": nr.processes,
        "without_feedback": nr.without_feedback,
        "repetitions": nr.repetitions,
        "attempts": nr.attempts,
        "offset_slots": nr.scheduling_offset,
        "feedback": feedback,
        "rlc": _rlc(nr, cycle, waits),
        "order": _order(nr, waits),
    }


def _feedback(nr: Nr, key: str) -> FeedbackSpec | None:
    if not _answers(nr):
        beside = nr.model_fields_set & {"feedback_delay", "feedback_loss"}
        if beside:
            text = "found no process with feedback and RLC without acknowledgements: nobody answers"
            raise ScenarioError([(f"{key}.nr.{min(beside)}", text)])
        return None
    if nr.feedback_delay is None:
        text = "missing, expected a duration: the delay of the segment, there and back, is 0 or moves"
        raise ScenarioError([(f"{key}.nr.feedback_delay", text)])
    return {"delay_ns": nr.feedback_delay.ns, "loss": nr.feedback_loss.value}


def _rlc(nr: Nr, cycle: int, waits: int) -> RlcSpec:
    """``waits``: how long HARQ takes for what it has to send again."""
    rlc = nr.rlc
    if rlc.mode == "um":
        return {"kind": "unacknowledged"}
    reassembly = rlc.reassembly.ns if rlc.reassembly is not None else waits
    prohibit = rlc.status_prohibit.ns if rlc.status_prohibit is not None else cycle + SOME_SLOTS * nr.slot.ns
    patience = (
        rlc.poll_retransmit.ns if rlc.poll_retransmit is not None else cycle + waits + reassembly + prohibit
    )
    return {
        "kind": "acknowledged",
        "poll_pdus": rlc.poll_pdus,
        "poll_bytes": rlc.poll_bytes.bytes if rlc.poll_bytes is not None else None,
        "poll_retransmit_ns": patience,
        "reassembly_ns": reassembly,
        "status_prohibit_ns": prohibit,
        "most_retransmissions": rlc.most_retransmissions,
    }


def _order(nr: Nr, waits: int) -> PdcpReorderingSpec | None:
    if not nr.in_order:
        return None
    if nr.reordering is not None:
        return {"time_limit_ns": nr.reordering.ns}
    return {"time_limit_ns": None if nr.rlc.mode == "am" else waits}


def _cycle(offset: int, repetitions: int, feedback: FeedbackSpec | None, slot_ns: int) -> int:
    answer = -(-feedback["delay_ns"] // slot_ns) if feedback is not None else 0
    return offset + repetitions + answer


def cycle_slots(stage: NrStageSpec) -> int:
    """Slots from the decision about a block to the next one of its process: the offset, the block, the answer."""
    return _cycle(stage["offset_slots"], stage["repetitions"], stage["feedback"], stage["slot_ns"])


def utilisation(stage: NrStageSpec) -> float:
    """The share of its slots that a 5G link can use: repetitions of each process over its cycle, which has no answer in
    it without feedback."""
    return min(1.0, sum(count * stage["repetitions"] / cycle for count, cycle in _processes(stage)))


def _processes(stage: NrStageSpec) -> list[tuple[int, int]]:
    """How many have a cycle of so many slots: those with feedback, and those without."""
    without = stage["without_feedback"]
    alone = _cycle(stage["offset_slots"], stage["repetitions"], None, stage["slot_ns"])
    return [(stage["processes"] - without, cycle_slots(stage)), (without, alone)]


def rate_max_bit_s(stage: NrStageSpec, duration_ns: int) -> float:
    """Bits a second of transport blocks, each sent once, that no run of this duration can exceed: so many slots, and so
    many blocks of each process in every cycle that has begun."""
    block_ns = stage["slot_ns"] * stage["repetitions"]
    blocks = duration_ns / block_ns
    begun = sum(count * -(-duration_ns // (cycle * stage["slot_ns"])) for count, cycle in _processes(stage))
    blocks = min(blocks, begun)
    return blocks * stage["block_bytes"] * 8e9 / duration_ns
