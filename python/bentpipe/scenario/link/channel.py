"""The radio channel of a direction: what a receiver can make of a coded symbol, over time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PlainValidator, StrictInt, StrictStr, model_validator

from bentpipe.scenario.base import (
    AngleText,
    DistanceText,
    DurationText,
    PositiveText,
    Table,
    require_one,
    text_schema,
)
from bentpipe.scenario.quantities import Angle
from bentpipe.scenario.radio_quantities import Decibel, Frequency, Speed

__all__ = ["Attenuation", "Channel", "DecibelText"]

DecibelText = Annotated[Decibel, PlainValidator(Decibel.parse), text_schema("7 dB", "a ratio")]
FrequencyText = Annotated[
    Frequency, PlainValidator(Frequency.parse), text_schema("2.2 GHz", "a frequency above 0")
]
SpeedText = Annotated[Speed, PlainValidator(Speed.parse), text_schema("60 km/h", "a speed above 0")]


def _parse_elevation(found: object) -> Angle | Literal["orbit"]:
    """Return an angle up to 90 degrees, or "orbit" for the last satellite of ``[orbit]``. Raises ValueError."""
    if found == "orbit":
        return "orbit"
    angle = Angle.parse(found)
    if angle.degrees > 90:
        raise ValueError(f'found {angle}, expected at most 90 deg, or "orbit"')
    return angle


ElevationText = Annotated[
    Angle | Literal["orbit"],
    PlainValidator(_parse_elevation),
    text_schema("40 deg", 'an angle up to 90 deg, or "orbit"'),
]

_FADING_KEYS = frozenset({"snr_error", "speed", "frequency", "step", "seed"})
_LAND_MOBILE_KEYS = _FADING_KEYS | {"environment", "elevation", "azimuth", "snr_range"}
_MODEL_KEYS: Mapping[str, frozenset[str]] = {
    "white-noise": frozenset(),
    "perez-fontan": _LAND_MOBILE_KEYS | {"state_lengths"},
    "p681": _LAND_MOBILE_KEYS,
    "rayleigh": _FADING_KEYS,
    "attenuation": frozenset({"snr_error", "trace", "schedule", "interpolation", "repeat"}),
}
"""Keys of each model beside ``model`` and ``snr``."""

_REQUIRED_KEYS: Mapping[str, tuple[str, ...]] = {
    "perez-fontan": ("environment", "elevation", "speed"),
    "p681": ("environment", "elevation", "speed"),
    "rayleigh": ("speed",),
}
"""Required keys of each model."""


class Attenuation(Table):
    """Point of an attenuation schedule."""

    at: DurationText
    attenuation: DecibelText


class Channel(Table):
    """Radio channel; ``snr`` is Es/N0 of a coded symbol without obstruction."""

    hints: ClassVar[Mapping[str, str]] = {
        "band": 'no key "band": the frequency determines it; did you mean "frequency"?',
    }
    model: Literal["white-noise", "perez-fontan", "p681", "rayleigh", "attenuation"]
    snr: DecibelText
    snr_error: DecibelText = Decibel(0.0)
    environment: StrictStr | None = None
    elevation: ElevationText | None = None
    azimuth: AngleText = Angle(0)
    snr_range: DistanceText | None = None
    speed: SpeedText | None = None
    frequency: FrequencyText = Frequency(2_200_000_000)
    state_lengths: Literal["each", "one"] = "each"
    step: PositiveText | None = None
    seed: Annotated[StrictInt, Field(ge=0, le=2**63 - 1)] | None = None
    trace: StrictStr | None = None
    schedule: list[Attenuation] | None = Field(default=None, min_length=1)
    interpolation: Literal["step", "linear"] = "linear"
    repeat: PositiveText | None = None

    @model_validator(mode="after")
    def _check_model_keys(self) -> Channel:
        given = self.model_fields_set - {"model", "snr"}
        foreign = sorted(given - _MODEL_KEYS[self.model])
        if foreign:
            raise ValueError(f'found {foreign[0]}, which cannot be combined with model = "{self.model}"')
        missing = [key for key in _REQUIRED_KEYS.get(self.model, ()) if getattr(self, key) is None]
        if missing:
            raise ValueError(f'found no {missing[0]}, which model = "{self.model}" needs')
        if self.snr_range is not None and self.elevation != "orbit":
            raise ValueError('found snr_range, which requires elevation = "orbit"')
        if self.snr_range is not None and self.snr_range.m == 0:
            raise ValueError("snr_range: found 0 m, expected a distance above 0")
        if self.model == "attenuation":
            require_one(self, ("trace", "schedule"), "an attenuation")
        for before, after in pairwise(self.schedule or []):
            if after.at <= before.at:
                raise ValueError(f"schedule: found {after.at} after {before.at}, expected increasing times")
        return self
