"""Adaptive coding and modulation of a direction: its rate follows what receivers report of the channel."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, StrictStr, model_validator

from bentpipe.scenario.base import DurationText, PositiveText, Table, text_schema
from bentpipe.scenario.link.channel import DecibelText
from bentpipe.scenario.quantities import Duration
from bentpipe.scenario.radio_quantities import Decibel, SymbolRate

__all__ = ["AdaptiveCoding"]

SymbolRateText = Annotated[
    SymbolRate, PlainValidator(SymbolRate.parse), text_schema("27.5 Mbaud", "symbols a second, above 0")
]


class AdaptiveCoding(Table):
    """DVB-S2's modes, or those of them that are named; ``report_delay`` is the way of a report to the sender."""

    symbol_rate: SymbolRateText
    report_delay: DurationText
    report_interval: PositiveText = Duration(100_000_000)
    margin: DecibelText = Decibel(0.0)
    hysteresis: DecibelText = Decibel(0.0)
    modes: list[StrictStr] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _in_range(self) -> AdaptiveCoding:
        if self.report_delay.ns > 10**9:
            raise ValueError(
                f"report_delay: found {self.report_delay}, expected at most 1 s, as far back as a channel is known"
            )
        for name in ("margin", "hysteresis"):
            if not 0 <= getattr(self, name).db <= 100:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 dB to 100 dB")
        return self
