"""Link layer of a radio link: codes, retransmissions and reordering."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, StrictInt, WithJsonSchema, model_validator

from bentpipe.scenario.base import PositiveText, ProbabilityText, SizeText, Table
from bentpipe.scenario.quantities import Duration, Probability

__all__ = ["HARQ", "LinkLayer", "ReorderingBuffer"]

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

MOST_FRAME = 65_535
"""Largest IP packet in bytes."""

Bits = Annotated[StrictInt, Field(ge=1, le=2**32 - 1)]


class LinkLayer(Table):
    """Link layer over a channel.

    The defaults are those of Tauran 2018, section 3.4. Packets are decoded after one, two and three attempts with
    probability 0.5, 0.7 and 0.85. They are retransmitted after 20 ms, at most three times; 500 may be outstanding. The
    rate 1/6 of the mother code and the margin of 5 % above the mutual information of a frame are fitted to table 4.1.
    """

    scheme: Literal[
        "code", "stop-and-wait", "go-back-n", "selective-repeat", "harq-1", "harq-chase", "harq-2", "harq-3",
        "adaptive-harq",
    ]  # fmt: skip
    frame: SizeText
    overhead_bits: Annotated[StrictInt, Field(ge=0, le=2**20)] = 0
    first_overhead_bits: Annotated[StrictInt, Field(ge=0, le=2**20)] = 0
    code_rate: CodeRate | None = None
    coded_bits: list[Bits] | None = Field(default=None, min_length=1)
    margin: Annotated[float, Field(ge=1, le=100)] = 1.05
    mother_rate: CodeRate = 1 / 6
    target_decoded_ratio: list[ProbabilityText] = Field(
        default=[Probability(0.5), Probability(0.7), Probability(0.85)]
    )
    block_error_rate: list[ProbabilityText] | None = Field(default=None, min_length=1)
    retransmissions: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    feedback_delay: PositiveText = Duration(20_000_000)
    feedback_loss: ProbabilityText = Probability(0.0)
    timeout: PositiveText | None = None
    window: Annotated[StrictInt, Field(ge=1, le=2**20)] | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> LinkLayer:
        if not 0 < self.frame.bytes <= MOST_FRAME:
            raise ValueError(f'frame: found {self.frame}, expected 1 to {MOST_FRAME} B, such as "1115 B"')
        unused = self.model_fields_set & self._unused_keys()
        if unused:
            condition = (
                " and coded_bits" if self.scheme == "adaptive-harq" and self.coded_bits is not None else ""
            )
            raise ValueError(
                f'found {min(unused)}, which cannot be combined with scheme = "{self.scheme}"{condition}'
            )
        if self.timeout is not None and self.timeout.ns < self.feedback_delay.ns:
            least = self.feedback_delay
            raise ValueError(f"timeout: found {self.timeout}, expected at least feedback_delay = {least}")
        self._check_bits()
        return self

    def _unused_keys(self) -> set[str]:
        """Return the keys that the scheme does not use."""
        feedback_keys = {"feedback_delay", "feedback_loss", "timeout", "window"}
        unused = set() if self.scheme in INCREMENTAL else {"mother_rate"}
        if self.scheme != "adaptive-harq" or self.coded_bits is not None:
            unused |= {"target_decoded_ratio"}
        if self.scheme == "adaptive-harq":
            unused |= {"code_rate", "block_error_rate"}
        if self.scheme == "code":
            unused |= feedback_keys | {"retransmissions"}
        if self.scheme == "stop-and-wait":
            unused |= {"window"}
        if self.block_error_rate is not None:
            unused |= {"margin"}
        return unused

    def _check_bits(self) -> None:
        """Check the coded bits against the scheme. Raises ValueError."""
        bits, information = self.coded_bits or [], self.frame.bytes * 8
        if self.code_rate is not None and bits:
            raise ValueError("found code_rate and coded_bits, expected one of them")
        if self.scheme == "harq-chase" and len(bits) > 1:
            raise ValueError(
                "coded_bits: found several, expected one: Chase combining sends the same bits again"
            )
        if self.scheme == "harq-3" and any(count < information for count in bits):
            raise ValueError(
                f"coded_bits: found {min(bits)}, expected at least the frame's {information}: each attempt of type III "
                "can be decoded alone"
            )
        self._check_mother_code()
        for before, after in pairwise(self.target_decoded_ratio):
            if after.value < before.value:
                raise ValueError(
                    f"target_decoded_ratio: found {after} after {before}, expected no less: each is of all attempts so "
                    "far"
                )
        retransmissions = self.retransmissions
        if (
            self.scheme == "adaptive-harq"
            and not bits
            and retransmissions is not None
            and retransmissions != len(self.target_decoded_ratio)
        ):
            raise ValueError(
                f"retransmissions: found {retransmissions}, expected {len(self.target_decoded_ratio)}: "
                "target_decoded_ratio has as many values"
            )

    def _check_mother_code(self) -> None:
        """Check that the mother code has enough bits for all attempts. Raises ValueError."""
        is_adaptive = self.scheme == "adaptive-harq" and self.coded_bits is None
        has_bits = self.coded_bits is not None or "mother_rate" in self.model_fields_set
        if self.scheme not in INCREMENTAL or is_adaptive or not has_bits or self.block_error_rate is not None:
            return
        information, attempts = self.frame.bytes * 8, self.attempts or 1
        bits = self.coded_bits or [math.ceil(round(information / (self.code_rate or 1), 6))]
        sent = sum(bits[:attempts]) + max(0, attempts - len(bits)) * bits[-1]
        available = math.floor(information / self.mother_rate + 1e-6)
        if sent > available:
            key = "coded_bits" if self.coded_bits is not None else "code_rate"
            raise ValueError(
                f"{key}: found {sent} coded bits in {attempts} attempts, expected at most the {available} of the "
                f"mother code ({information} information bits at mother_rate = {self.mother_rate:.4g})"
            )

    @property
    def attempts(self) -> int | None:
        """Largest number of attempts for a packet; None for no limit."""
        if self.scheme == "code":
            return 1
        if self.retransmissions is not None:
            return self.retransmissions + 1
        if self.scheme in ARQ:
            return None
        return (
            len(self.target_decoded_ratio) + 1
            if self.scheme == "adaptive-harq" and self.coded_bits is None
            else 4
        )


class ReorderingBuffer(Table):
    """Buffer that restores the order of packets. A bare number is ``packets`` of each flow; 0 is no buffer.

    The default of 125 is from Tauran 2018, section 4.4.1. ``numbering``: sequence numbers of the link layer, or of TCP.
    """

    packets: Annotated[StrictInt, Field(ge=0, le=2**20)] = 125
    time_limit: PositiveText | None = None
    numbering: Literal["link", "tcp"] = "link"
