"""Adaptive coding and modulation: the rate of a direction follows the reports of the receivers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, StrictStr, model_validator

from bentpipe.scenario.base import DecibelText, DurationText, PositiveText, Table, text_schema
from bentpipe.scenario.quantities import Duration
from bentpipe.scenario.radio_quantities import Decibel, SymbolRate

__all__ = ["AdaptiveCoding"]

SymbolRateText = Annotated[
    SymbolRate, PlainValidator(SymbolRate.parse), text_schema("27.5 Mbaud", "symbols per second, above 0")
]


class AdaptiveCoding(Table):
    """Adaptive coding over the modes of DVB-S2, or over ``modes``; reports reach the sender after ``report_delay``."""

    symbol_rate: SymbolRateText
    report_delay: DurationText
    report_interval: PositiveText = Duration(100_000_000)
    margin: DecibelText = Decibel(0.0)
    hysteresis: DecibelText = Decibel(0.0)
    modes: list[StrictStr] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check_ranges(self) -> AdaptiveCoding:
        if self.report_delay.ns > 10**9:
            raise ValueError(
                f"report_delay: found {self.report_delay}, expected at most 1 s, the stored history of a channel"
            )
        for name in ("margin", "hysteresis"):
            if not 0 <= getattr(self, name).db <= 100:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 dB to 100 dB")
        return self
