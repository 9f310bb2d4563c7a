"""Loss of packets in a scenario: the models, of which a direction has one."""

from __future__ import annotations

from typing import Annotated

from pydantic import StrictStr, model_validator

from bentpipe.scenario.quantities import ChanceText, DurationText, PositiveText, Table, as_table, only_one
from bentpipe.scenario.units import Duration, Probability

__all__ = ["BurstLoss", "GilbertElliott", "Loss", "LossOrText"]


class GilbertElliott(Table):
    """Two states with one transition chance a packet (Gilbert 1960, Elliott 1963)."""

    good_to_bad: ChanceText
    bad_to_good: ChanceText
    loss_good: ChanceText = Probability(0.0)
    loss_bad: ChanceText = Probability(1.0)


class BurstLoss(Table):
    """Everything is lost for ``length`` at the start of every ``every``, from ``offset`` on."""

    every: PositiveText
    length: PositiveText
    offset: DurationText = Duration(0)

    @model_validator(mode="after")
    def _shorter(self) -> BurstLoss:
        if self.length.ns >= self.every.ns:
            raise ValueError(f"found a burst of {self.length} every {self.every}, expected a shorter one")
        return self


class Loss(Table):
    """Loss of packets: one of the keys. A bare percentage is ``probability``."""

    probability: ChanceText | None = None
    gilbert_elliott: GilbertElliott | None = None
    burst: BurstLoss | None = None
    trace: StrictStr | None = None

    @model_validator(mode="after")
    def _one(self) -> Loss:
        only_one(self, tuple(Loss.model_fields), "a loss")
        return self


LossOrText = Annotated[Loss, as_table("probability")]
