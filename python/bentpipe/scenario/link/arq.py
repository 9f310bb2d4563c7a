"""What the link layer of a radio link does: codes, what is sent again and when, how the order is restored."""

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
INCREMENTAL = ("harq-2", "harq-3", "adaptive-harq")
"""Each attempt has new bits of the code."""
ARQ = ("stop-and-wait", "go-back-n", "selective-repeat")


def _code_rate(found: object) -> float:
    """From 0.001 to 1, as a number or a fraction. Raises ValueError."""
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
    PlainValidator(_code_rate),
    WithJsonSchema({"type": ["string", "number"], "examples": ["1/3"], "description": "a code rate"}),
]
MOST_FRAME = 65_535
"""What an IP packet has at most."""
Bits = Annotated[StrictInt, Field(ge=1, le=2**32 - 1)]


class LinkLayer(Table):
    """A link layer over a channel.

    Defaults are those of Tauran 2018, section 3.4: packets are decoded after one, two, three attempts in 50, 70, 85 %
    of the cases, sent again after 20 ms, at most three times; 500 may be open. The mother code's rate 1/6 and the
    margin of 5 % to the mutual information that a frame needs are fitted to table 4.1.
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
    decoded: list[ProbabilityText] = Field(default=[Probability(0.5), Probability(0.7), Probability(0.85)])
    block_error_rate: list[ProbabilityText] | None = Field(default=None, min_length=1)
    retransmissions: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    feedback_delay: PositiveText = Duration(20_000_000)
    feedback_loss: ProbabilityText = Probability(0.0)
    time_out: PositiveText | None = None
    window: Annotated[StrictInt, Field(ge=1, le=2**20)] | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> LinkLayer:
        if not 0 < self.frame.bytes <= MOST_FRAME:
            raise ValueError(f'frame: found {self.frame}, expected 1 to {MOST_FRAME} B, such as "1115 B"')
        foreign = self.model_fields_set & self._foreign()
        if foreign:
            beside = (
                " and coded_bits" if self.scheme == "adaptive-harq" and self.coded_bits is not None else ""
            )
            raise ValueError(f'found {min(foreign)}, which does not go with scheme = "{self.scheme}"{beside}')
        if self.time_out is not None and self.time_out.ns < self.feedback_delay.ns:
            least = self.feedback_delay
            raise ValueError(f"time_out: found {self.time_out}, expected at least feedback_delay = {least}")
        self._check_bits()
        return self

    def _foreign(self) -> set[str]:
        """Keys that do not go with the scheme."""
        answers = {"feedback_delay", "feedback_loss", "time_out", "window"}
        foreign = set() if self.scheme in INCREMENTAL else {"mother_rate"}
        if self.scheme != "adaptive-harq" or self.coded_bits is not None:
            foreign |= {"decoded"}
        if self.scheme == "adaptive-harq":
            foreign |= {"code_rate", "block_error_rate"}
        if self.scheme == "code":
            foreign |= answers | {"retransmissions"}
        if self.scheme == "stop-and-wait":
            foreign |= {"window"}
        if self.block_error_rate is not None:
            foreign |= {"margin"}
        return foreign

    def _check_bits(self) -> None:
        """The coded bits are said once, and as many as the scheme has."""
        bits, information = self.coded_bits or [], self.frame.bytes * 8
        if self.code_rate is not None and bits:
            raise ValueError("found code_rate and coded_bits, expected one of them")
        if self.scheme == "harq-chase" and len(bits) > 1:
            raise ValueError(
                "coded_bits: found several, expected one: Chase combining sends the same bits again"
            )
        if self.scheme == "harq-3" and any(one < information for one in bits):
            raise ValueError(
                f"coded_bits: found {min(bits)}, expected at least the frame's {information}: each attempt of type III "
                "can be decoded alone"
            )
        self._check_mother()
        for before, after in pairwise(self.decoded):
            if after.value < before.value:
                raise ValueError(
                    f"decoded: found {after} after {before}, expected no less: each is of all attempts so far"
                )
        most = self.retransmissions
        if self.scheme == "adaptive-harq" and not bits and most is not None and most != len(self.decoded):
            raise ValueError(
                f"retransmissions: found {most}, expected {len(self.decoded)}: decoded has as many shares"
            )

    def _check_mother(self) -> None:
        """Bits that are new in each attempt are of one mother code; with a code rate alone it has enough of them."""
        designed = self.scheme == "adaptive-harq" and self.coded_bits is None
        said = self.coded_bits is not None or "mother_rate" in self.model_fields_set
        if self.scheme not in INCREMENTAL or designed or not said or self.block_error_rate is not None:
            return
        information, attempts = self.frame.bytes * 8, self.attempts or 1
        bits = self.coded_bits or [math.ceil(round(information / (self.code_rate or 1), 6))]
        sent = sum(bits[:attempts]) + max(0, attempts - len(bits)) * bits[-1]
        there = math.floor(information / self.mother_rate + 1e-6)
        if sent > there:
            key = "coded_bits" if self.coded_bits is not None else "code_rate"
            raise ValueError(
                f"{key}: found {sent} coded bits in {attempts} attempts, expected at most the {there} of the mother "
                f"code ({information} information bits at mother_rate = {self.mother_rate:.4g})"
            )

    @property
    def attempts(self) -> int | None:
        """Attempts at a packet; None: until it is decoded."""
        if self.scheme == "code":
            return 1
        if self.retransmissions is not None:
            return self.retransmissions + 1
        if self.scheme in ARQ:
            return None
        return len(self.decoded) + 1 if self.scheme == "adaptive-harq" and self.coded_bits is None else 4


class ReorderingBuffer(Table):
    """Holds back what came out of order. A bare number is ``packets``, of each flow; 0 is no buffer.

    125 are Tauran's (2018, section 4.4.1). Packets are numbered by the link layer, or as TCP numbers its bytes.
    """

    packets: Annotated[StrictInt, Field(ge=0, le=2**20)] = 125
    time_limit: PositiveText | None = None
    numbering: Literal["link", "tcp"] = "link"
