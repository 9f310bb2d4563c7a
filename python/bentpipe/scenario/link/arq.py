"""Code rates and attempts of a link layer."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, PlainValidator, StrictInt, WithJsonSchema

if TYPE_CHECKING:
    from bentpipe.scenario.link.generated_services import LinkLayer

__all__ = ["HARQ", "INCREMENTAL", "Bits", "CodeRate", "link_layer_attempts"]

HARQ = ("harq-1", "harq-chase", "harq-2", "harq-3", "adaptive-harq")
"""Hybrid ARQ schemes."""

INCREMENTAL = ("harq-2", "harq-3", "adaptive-harq")
"""Schemes with incremental redundancy: each attempt has new bits of the code."""

ARQ = ("stop-and-wait", "go-back-n", "selective-repeat")
"""ARQ schemes without combining."""


def _parse_code_rate(found: object) -> float:
    """Return a code rate from 0.001 to 1, given as a number or a fraction. Raises ValueError."""
    try:
        rate = (
            Fraction(found) if isinstance(found, (str, int, float)) and not isinstance(found, bool) else None
        )
    except (ValueError, ZeroDivisionError):
        rate = None
    if rate is None or not Fraction(1, 1000) <= rate <= 1:
        raise ValueError(
            f'found {found!r}, expected a code rate from 0.001 to 1 such as "1/3"'.replace("'", '"')
        )
    return float(rate)


CodeRate = Annotated[
    float,
    PlainValidator(_parse_code_rate),
    WithJsonSchema({"type": ["string", "number"], "examples": ["1/3"], "description": "a code rate"}),
]

Bits = Annotated[StrictInt, Field(ge=1, le=2**32 - 1)]


def link_layer_attempts(layer: LinkLayer) -> int | None:
    """Return the largest number of attempts for a packet; None for no limit."""
    if layer.scheme == "code":
        return 1
    if layer.retransmissions is not None:
        return layer.retransmissions + 1
    if layer.scheme in ARQ:
        return None
    is_designed = layer.scheme == "adaptive-harq" and layer.coded_bits is None
    return len(layer.target_decoded_ratio) + 1 if is_designed else 4
