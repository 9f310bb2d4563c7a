"""Elevations and schedules: values of the radio channel that ``generated`` has in its table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import PlainValidator

from bentpipe.scenario.base import DecibelText, DurationText, Table, text_schema
from bentpipe.scenario.quantities import Angle

__all__ = ["Attenuation", "ElevationText"]


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


class Attenuation(Table):
    """Point of an attenuation schedule."""

    at: DurationText
    attenuation: DecibelText
