"""Slots of a direction: a link that is drawn anew at boundaries, as a constellation's scheduler has it."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictFloat, StrictInt, model_validator

from bentpipe.scenario.base import DurationText, PositiveText, ProbabilityText, RateText, Table
from bentpipe.scenario.quantities import Duration, Probability, Rate

__all__ = ["Reconfiguration", "SlotBursts"]


def _number(quantity: Duration | Rate | Probability) -> float:
    if isinstance(quantity, Duration):
        return quantity.ns
    return quantity.bit_s if isinstance(quantity, Rate) else quantity.value


def _quantiles(found: list[Any]) -> list[Any]:
    for before, after in pairwise(found):
        if _number(after) < _number(before):
            raise ValueError(f"quantiles fall from {before} to {after}, expected none below the one before")
    return found


Durations = Annotated[list[DurationText], Field(min_length=1), AfterValidator(_quantiles)]
Rates = Annotated[list[RateText], Field(min_length=1), AfterValidator(_quantiles)]
Chances = Annotated[list[ProbabilityText], Field(min_length=1), AfterValidator(_quantiles)]


class SlotBursts(Table):
    """A slot begins, with this probability, with a time in which everything is lost; quantiles of its length."""

    probability: ProbabilityText
    length: Durations


class Reconfiguration(Table):
    """What is drawn anew in each slot, each by its quantiles: values for equally spaced probabilities from 0 to 1.

    A slot's delay has the same rank in both directions of a link, its rate and its losses are each direction's own.
    Starlink's slots are of 15 s, from second 12 of a minute on.
    """

    every: PositiveText = Duration(15_000_000_000)
    phase: DurationText = Duration(0)
    jitter: DurationText = Duration(0)
    delay: Durations | None = None
    delay_jitter: Durations | None = None
    delay_step: PositiveText = Duration(10_000_000)
    delay_correlation: StrictFloat | StrictInt = 0.0
    rate: Rates | None = None
    loss: Chances | None = None
    bursts: SlotBursts | None = None

    @model_validator(mode="after")
    def _within_a_slot(self) -> Reconfiguration:
        if self.phase.ns >= self.every.ns:
            raise ValueError(f"phase: found {self.phase}, expected less than every = {self.every}")
        if 2 * self.jitter.ns >= self.every.ns:
            raise ValueError(f"jitter: found {self.jitter}, expected less than half of every = {self.every}")
        if not 0 <= self.delay_correlation < 1:
            raise ValueError(f"delay_correlation: found {self.delay_correlation}, expected 0 to below 1")
        lonely = self.model_fields_set & {"delay_step", "delay_correlation"}
        if lonely and self.delay_jitter is None:
            raise ValueError(f"found {min(lonely)} and no delay_jitter, expected it with delay_jitter")
        if all(one is None for one in (self.delay, self.delay_jitter, self.rate, self.loss, self.bursts)):
            raise ValueError("found slots of nothing, expected delay, delay_jitter, rate, loss or bursts")
        return self
