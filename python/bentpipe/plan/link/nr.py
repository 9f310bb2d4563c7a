"""5G NR links: the ``NrStageSpec`` with its default timers, and the share of slots in use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.link import channel
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import FeedbackSpec, NrStageSpec, PdcpReorderingSpec, QueueSpec, RlcSpec
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.generated_services import Nr, Rlc
    from bentpipe.scenario.link.hooks import Bearer
    from bentpipe.scenario.quantities import Rate

__all__ = ["check", "cycle_slots", "rate_max_bit_s", "stage", "utilisation", "with_feedback_delay"]

MIN_BLOCK = 16
"""Smallest transport block in bytes: the headers of a segment and some of its data."""
MAX_BLOCK = 2**28
"""Bound of a transport block in bytes, above that of any carrier."""
STATUS_MARGIN_SLOTS = 10
"""Slots beyond a cycle without another status report, so that requested retransmissions have arrived."""


def check(direction: Direction, key: str) -> None:
    """Check the keys beside ``nr``. Raises ScenarioError."""
    nr = direction.nr
    if nr is None:
        return
    if direction.rate is None or direction.rate.constant is None:
        text = 'requires a constant rate, that of its transport blocks, such as rate = "10 Mbit/s"'
        raise ScenarioError([(f"{key}.nr", text)])
    for name in ("trace", "netem", "link_layer", "reordering_buffer", "acm"):
        if getattr(direction, name):
            raise ScenarioError([(f"{key}.{name}", "cannot be combined with nr")])
    if any(change.rate is not None for change in direction.changes or []):
        raise ScenarioError([(f"{key}.changes", "found a change of rate, which cannot be combined with nr")])
    if direction.scheduler is not None and direction.scheduler.per_user:
        raise ScenarioError(
            [(f"{key}.scheduler", "cannot be combined with nr, which is the bearer of one terminal")]
        )
    if direction.channel is None and nr.block_error_rate is None:
        raise ScenarioError([(f"{key}.nr", "requires channel or block_error_rate")])
    if direction.channel is not None and nr.block_error_rate is None and nr.code_rate is None:
        text = 'expected code_rate, such as "1/2": the code rate of a slot over the channel'
        raise ScenarioError([(f"{key}.nr.code_rate", text)])


def with_feedback_delay(direction: Direction, round_trip_ns: int | None) -> Direction:
    """Return the direction with its default ``feedback_delay``, the round trip of its segment.

    Args:
        direction: the direction.
        round_trip_ns: constant delay of the segment up and down; None if it varies.
    """
    nr = direction.nr
    if nr is None or nr.feedback_delay is not None or not _has_feedback(nr) or not round_trip_ns:
        return direction
    complete = nr.model_copy(update={"feedback_delay": Duration(round_trip_ns)})
    return direction.model_copy(update={"nr": complete})


def _has_feedback(nr: Nr) -> bool:
    return nr.feedback_disabled_processes < nr.processes or nr.rlc.mode == "am"


def stage(direction: Direction, queue: QueueSpec, rate: Rate, files: Files, key: str) -> NrStageSpec:
    """Return the stage of a 5G link; ``rate`` is that of its transport blocks. Raises ScenarioError."""
    nr = direction.nr
    if nr is None:
        raise ScenarioError([(f"{key}.nr", "missing")])
    block = rate.bit_s * nr.slot.ns // (8 * 10**9)
    if not MIN_BLOCK <= block <= MAX_BLOCK:
        text = f"found {nr.slot} at {rate}: {block} bytes a slot, expected {MIN_BLOCK} to {MAX_BLOCK:,}"
        raise ScenarioError([(f"{key}.nr.slot", text)])
    feedback = _feedback(nr, key)
    cycle = nr.slot.ns * _cycle(nr.scheduling_offset, nr.repetitions, feedback, nr.slot.ns)
    harq_ns = (_attempts(nr) - 1) * cycle
    coded = math.ceil(round(8 * block / (nr.code_rate or 1.0), 6))
    bearer: Bearer = {
        "queue": queue,
        "channel": channel.channel(direction.channel, files, f"{key}.channel")
        if direction.channel is not None
        else None,
        "block_bytes": block,
        "coded_bits": min(coded, 2**32 - 1),
        "decoder": {"kind": "information", "margin": nr.margin}
        if nr.block_error_rate is None
        else {"kind": "block_errors", "probabilities": [one.value for one in nr.block_error_rate]},
        "attempts": _attempts(nr),
        "feedback": feedback,
        "reordering": _reordering(nr, harq_ns),
    }
    return nr.to_spec(_NrHooks(bearer, nr, cycle, harq_ns))


def _attempts(nr: Nr) -> int:
    """Return the largest number of transmissions of a block."""
    return 1 if nr.feedback_disabled_processes == nr.processes else nr.retransmissions + 1


def _feedback(nr: Nr, key: str) -> FeedbackSpec | None:
    if not _has_feedback(nr):
        unused = nr.model_fields_set & {"feedback_delay", "feedback_loss"}
        if unused:
            text = "requires feedback, and feedback_disabled_processes covers all processes in unacknowledged RLC mode"
            raise ScenarioError([(f"{key}.nr.{min(unused)}", text)])
        return None
    if nr.feedback_delay is None:
        text = "missing, expected a duration: the round-trip delay of the segment is 0 or varies"
        raise ScenarioError([(f"{key}.nr.feedback_delay", text)])
    return {"delay_ns": nr.feedback_delay.ns, "loss": nr.feedback_loss.value}


@dataclass(frozen=True, slots=True)
class _NrHooks:
    """Values of a 5G link that depend on several options (``NrHooks`` and ``RlcHooks`` of the scenario)."""

    fields: Bearer
    nr: Nr
    cycle_ns: int
    harq_ns: int
    """Longest duration of HARQ retransmissions."""

    def bearer(self) -> Bearer:
        """Return the fields that depend on the direction and on several options."""
        return self.fields

    def rlc(self, rlc: Rlc, key: str) -> RlcSpec:
        """Return the RLC entity."""
        del key
        return rlc.to_spec(self)

    def poll_pdus(self, count: int | None, key: str) -> int | None:
        """Return the PDUs between two polls; None for no limit."""
        del key
        return count

    def reassembly_ns(self, timer: Duration | None, key: str) -> int:
        """Return ``t-Reassembly``, by default the time of HARQ."""
        del key
        return self.harq_ns if timer is None else timer.ns

    def status_prohibit_ns(self, timer: Duration | None, key: str) -> int:
        """Return ``t-StatusProhibit``, by default some slots above a cycle."""
        del key
        return self.cycle_ns + STATUS_MARGIN_SLOTS * self.nr.slot.ns if timer is None else timer.ns

    def poll_retransmit_ns(self, timer: Duration | None, key: str) -> int:
        """Return ``t-PollRetransmit``, by default the longest time until a status report arrives."""
        if timer is not None:
            return timer.ns
        reassembly_ns = self.reassembly_ns(self.nr.rlc.reassembly, key)
        prohibit_ns = self.status_prohibit_ns(self.nr.rlc.status_prohibit, key)
        return self.cycle_ns + self.harq_ns + reassembly_ns + prohibit_ns


def _reordering(nr: Nr, harq_ns: int) -> PdcpReorderingSpec | None:
    if not nr.in_order:
        return None
    if nr.reordering is not None:
        return {"time_limit_ns": nr.reordering.ns}
    return {"time_limit_ns": None if nr.rlc.mode == "am" else harq_ns}


def _cycle(offset: int, repetitions: int, feedback: FeedbackSpec | None, slot_ns: int) -> int:
    feedback_slots = -(-feedback["delay_ns"] // slot_ns) if feedback is not None else 0
    return offset + repetitions + feedback_slots


def cycle_slots(stage: NrStageSpec) -> int:
    """Return the slots of a HARQ cycle with feedback: scheduling offset, block and feedback."""
    return _cycle(stage["offset_slots"], stage["repetitions"], stage["feedback"], stage["slot_ns"])


def utilisation(stage: NrStageSpec) -> float:
    """Return the share of slots that a 5G link can use: the repetitions of each process per cycle, summed."""
    return min(1.0, sum(count * stage["repetitions"] / cycle for count, cycle in _processes(stage)))


def _processes(stage: NrStageSpec) -> list[tuple[int, int]]:
    """Return (number of processes, slots of their cycle): with feedback, and without."""
    without = stage["feedback_disabled_processes"]
    without_slots = _cycle(stage["offset_slots"], stage["repetitions"], None, stage["slot_ns"])
    return [(stage["processes"] - without, cycle_slots(stage)), (without, without_slots)]


def rate_max_bit_s(stage: NrStageSpec, duration_ns: int) -> float:
    """Return an upper bound of the rate of transport blocks in bit/s, each sent once.

    The bounds are the slots of the run, and the blocks of each process in every cycle that has begun.

    Args:
        stage: the 5G link.
        duration_ns: duration of the run.
    """
    block_ns = stage["slot_ns"] * stage["repetitions"]
    blocks = duration_ns / block_ns
    begun = sum(count * -(-duration_ns // (cycle * stage["slot_ns"])) for count, cycle in _processes(stage))
    blocks = min(blocks, begun)
    return blocks * stage["block_bytes"] * 8e9 / duration_ns
