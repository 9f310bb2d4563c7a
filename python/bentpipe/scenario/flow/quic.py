"""Options of QUIC: the tables ``[quic]`` and ``flow.NAME.quic``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt, model_validator

from bentpipe.scenario.base import (
    DurationText,
    PositiveText,
    SizeText,
    Table,
    WindowText,
    merge_tables,
    parse_positive_duration,
    text_schema,
)
from bentpipe.scenario.quantities import Duration

__all__ = ["LARGEST_MTU_BYTES", "MAX_RTT", "Quic"]

LARGEST_MTU_BYTES = 16_000
"""Largest packet: the length of handshake packets has 14 bits (RFC 9000 sections 16 and 17.2)."""

MAX_RTT = Duration(10_000 * 3600 * 10**9)
"""Largest round-trip time of a profile. Voyager has less than 50 h, and doubled timers stay far below 64 bits."""


def _parse_max_rtt(found: object) -> Duration:
    value = parse_positive_duration(found)
    if value > MAX_RTT:
        raise ValueError(f"found {value}, expected a round trip of at most 10000 h")
    return value


class Quic(Table):
    """Options of QUIC connections.

    A missing option is taken from ``[quic]``, then from the profile (``plan.flow.quic_profiles``), then from the
    defaults of ``plan.flow.quic``.
    """

    profile: Literal["none", "deep-space"] | None = None
    max_rtt: (
        Annotated[Duration, PlainValidator(_parse_max_rtt), text_schema("45 min", "a duration")] | None
    ) = None
    crypto: Literal["modelled", "rustls"] | None = None
    handshake: Literal["1-rtt", "0-rtt"] | None = None
    mtu: SizeText | None = None
    ip: Literal[4, 6] | None = None
    initial_window: WindowText | None = None
    unpaced_burst: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    initial_rtt: PositiveText | None = None
    packets_per_ack: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    max_ack_delay: DurationText | None = None
    ecn: StrictBool | None = None
    receive_window: SizeText | None = None
    stream_receive_window: SizeText | None = None
    send_window: SizeText | None = None
    idle_timeout: (
        Annotated[
            Duration | Literal["none"],
            PlainValidator(lambda found: "none" if found == "none" else parse_positive_duration(found)),
            text_schema("30 s", 'a duration, or "none"'),
        ]
        | None
    ) = None
    packet_threshold: Annotated[StrictInt, Field(ge=3, le=10_000)] | Literal["none"] | None = None
    time_threshold: Annotated[StrictFloat | StrictInt, Field(gt=1, le=1000)] | None = None

    @model_validator(mode="after")
    def _check_mtu(self) -> Quic:
        if self.mtu is not None and not 1200 <= self.mtu.bytes <= LARGEST_MTU_BYTES:
            raise ValueError(
                f"found mtu = {self.mtu}, expected 1200 B (RFC 9000 section 14) to {LARGEST_MTU_BYTES} B"
            )
        return self

    def with_defaults(self, defaults: Quic) -> Quic:
        """Return these options with those of ``defaults`` that this table does not set."""
        return merge_tables(self, defaults)
