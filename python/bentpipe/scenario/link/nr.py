"""5G link (3GPP Release 17): transport blocks in slots, HARQ processes, RLC modes and timers, order of PDCP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from bentpipe.scenario.base import (
    DurationText,
    PositiveText,
    ProbabilityText,
    SizeText,
    Table,
    as_table,
    construct_table,
)
from bentpipe.scenario.link.arq import CodeRate
from bentpipe.scenario.quantities import Duration, Probability

__all__ = ["Nr", "Rlc"]

LEAST_SLOT = Duration(15_625)
"""Slot at a subcarrier spacing of 960 kHz (TS 38.211 section 4.3.2)."""

MOST_SLOT = Duration(100_000_000)


class Rlc(Table):
    """RLC mode, and the parameters of acknowledged mode (TS 38.322 section 7). A bare text is ``mode``.

    The defaults of the timers depend on the link: see docs/models/link-layer.md.
    """

    mode: Literal["am", "um"]
    poll_pdus: Annotated[StrictInt, Field(ge=1, le=65_536)] | None = 32
    poll_bytes: SizeText | None = None
    poll_retransmit: PositiveText | None = None
    reassembly: DurationText | None = None
    status_prohibit: DurationText | None = None
    max_retransmissions: Annotated[StrictInt, Field(ge=1, le=32)] = 32

    @model_validator(mode="after")
    def _check_combination(self) -> Rlc:
        foreign = sorted(self.model_fields_set - {"mode"})
        if self.mode == "um" and foreign:
            raise ValueError(f'found {foreign[0]}, which requires mode = "am"')
        if self.poll_bytes is not None and self.poll_bytes.bytes == 0:
            raise ValueError("poll_bytes: found 0 B, expected more")
        return self


class Nr(Table):
    """Bearer of New Radio.

    It has 16 HARQ ``processes``, or 32 from Release 17. The ``feedback_disabled_processes`` do not wait for feedback
    and send a block once.
    """

    slot: PositiveText = Duration(1_000_000)
    processes: Annotated[StrictInt, Field(ge=1, le=32)] = 16
    feedback_disabled_processes: Annotated[StrictInt, Field(ge=0, le=32)] = 0
    repetitions: Annotated[StrictInt, Field(ge=1, le=8)] = 1
    retransmissions: Annotated[StrictInt, Field(ge=0, le=1000)] = 3
    scheduling_offset: Annotated[StrictInt, Field(ge=0, le=1024)] = 0
    block_error_rate: list[ProbabilityText] | None = Field(default=None, min_length=1)
    code_rate: CodeRate | None = None
    combining: Literal["none", "chase", "incremental"] = "incremental"
    margin: Annotated[float, Field(ge=1, le=100)] = 1.05
    feedback_delay: PositiveText | None = None
    feedback_loss: ProbabilityText = Probability(0.0)
    rlc: Annotated[Rlc, as_table("mode")] = construct_table(Rlc, mode="am")
    in_order: StrictBool = True
    reordering: DurationText | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> Nr:
        given = self.model_fields_set
        if self.feedback_disabled_processes > self.processes:
            raise ValueError(
                f"feedback_disabled_processes: found {self.feedback_disabled_processes}, expected at most "
                f"processes = {self.processes}"
            )
        if (
            self.feedback_disabled_processes == self.processes
            and "retransmissions" in given
            and self.retransmissions
        ):
            raise ValueError(
                f"retransmissions: found {self.retransmissions} where no process has feedback "
                f"(feedback_disabled_processes = {self.feedback_disabled_processes}), expected none: blocks are sent "
                "once"
            )
        if self.block_error_rate is not None:
            foreign = sorted(given & {"margin", "combining"})
            if foreign:
                raise ValueError(f"found {foreign[0]}, which cannot be combined with block_error_rate")
        if not LEAST_SLOT.ns <= self.slot.ns <= MOST_SLOT.ns:
            raise ValueError(f"slot: found {self.slot}, expected {LEAST_SLOT} to {MOST_SLOT}")
        if not self.in_order and self.reordering is not None:
            raise ValueError("found reordering, which requires in_order = true")
        return self

    @property
    def attempts(self) -> int:
        """Largest number of transmissions of a block."""
        return 1 if self.feedback_disabled_processes == self.processes else self.retransmissions + 1
