"""Reconfiguration intervals of a direction: random link properties, new in each interval."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictFloat, StrictInt, model_validator

from bentpipe.scenario.base import DurationText, PositiveText, ProbabilityText, RateText, Table
from bentpipe.scenario.quantities import Duration, Probability, Rate

__all__ = ["LossBursts", "Reconfiguration"]


def _to_number(quantity: Duration | Rate | Probability) -> float:
    if isinstance(quantity, Duration):
        return quantity.ns
    return quantity.bit_s if isinstance(quantity, Rate) else quantity.value


def _check_quantiles(found: list[Any]) -> list[Any]:
    for before, after in pairwise(found):
        if _to_number(after) < _to_number(before):
            raise ValueError(f"quantiles fall from {before} to {after}, expected none below the one before")
    return found


Durations = Annotated[list[DurationText], Field(min_length=1), AfterValidator(_check_quantiles)]
Rates = Annotated[list[RateText], Field(min_length=1), AfterValidator(_check_quantiles)]
Probabilities = Annotated[list[ProbabilityText], Field(min_length=1), AfterValidator(_check_quantiles)]


class LossBursts(Table):
    """Loss of all packets at the start of an interval: its probability, and the quantiles of its duration."""

    probability: ProbabilityText
    duration: Durations


class Reconfiguration(Table):
    """Random properties of each interval, given by quantiles at equally spaced probabilities from 0 to 1.

    Both directions of a link use the same quantile of delay. Rate and losses are independent in each direction. The
    intervals of Starlink last 15 s and start at second 12 of a minute.
    """

    interval: PositiveText = Duration(15_000_000_000)
    phase: DurationText = Duration(0)
    jitter: DurationText = Duration(0)
    delay: Durations | None = None
    delay_jitter: Durations | None = None
    delay_step: PositiveText = Duration(10_000_000)
    delay_correlation: StrictFloat | StrictInt = 0.0
    rate: Rates | None = None
    loss: Probabilities | None = None
    loss_bursts: LossBursts | None = None

    @model_validator(mode="after")
    def _check_interval(self) -> Reconfiguration:
        if self.phase.ns >= self.interval.ns:
            raise ValueError(f"phase: found {self.phase}, expected less than interval = {self.interval}")
        if 2 * self.jitter.ns >= self.interval.ns:
            raise ValueError(
                f"jitter: found {self.jitter}, expected less than half of interval = {self.interval}"
            )
        if not 0 <= self.delay_correlation < 1:
            raise ValueError(f"delay_correlation: found {self.delay_correlation}, expected 0 to below 1")
        incomplete = self.model_fields_set & {"delay_step", "delay_correlation"}
        if incomplete and self.delay_jitter is None:
            raise ValueError(f"found {min(incomplete)} and no delay_jitter, expected it with delay_jitter")
        if all(
            value is None for value in (self.delay, self.delay_jitter, self.rate, self.loss, self.loss_bursts)
        ):
            raise ValueError("found an empty table, expected delay, delay_jitter, rate, loss or loss_bursts")
        return self
