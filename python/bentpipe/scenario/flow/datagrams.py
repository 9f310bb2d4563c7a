"""Sources of datagrams: the tables ``load.call``, ``load.cbr`` and ``load.on_off``, and ``udp``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import PositiveText, RateText, SizeText, Table, merge_tables
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.flow.codecs import CODECS
from bentpipe.scenario.quantities import Duration, Size

__all__ = ["Call", "ConstantBitRate", "OnOff", "Udp", "check_udp_payload"]

LEAST_BYTES, MOST_BYTES = 22, 65_507
"""Smallest datagram: RTP header and the fields of the engine. Largest: the payload of UDP over IPv4."""

LEAST_MTU_BYTES = 200
"""Smallest payload: the header of any LTP segment and a few claims of a report."""

NS2_SHAPE = 1.5
"""Default shape of a Pareto source: ``shape_`` of ns-2."""


def check_udp_payload(mtu: Size | None) -> None:
    """Check that UDP can carry the payload ``mtu``. Raises ValueError."""
    if mtu is not None and not LEAST_MTU_BYTES <= mtu.bytes <= MOST_BYTES:
        raise ValueError(
            f"found mtu = {mtu}, expected {LEAST_MTU_BYTES} B to {MOST_BYTES} B (payload of UDP)"
        )


def _check_packet(packet: Size | None) -> None:
    """Check the size of a datagram. Raises ValueError."""
    if packet is not None and not LEAST_BYTES <= packet.bytes <= MOST_BYTES:
        raise ValueError(
            f"found packet = {packet}, expected {LEAST_BYTES} B to {MOST_BYTES} B (payload of UDP)"
        )


def _check_interval(rate_bit_s: int, packet_bytes: int) -> None:
    """Check that datagrams are at least 1 us apart. Raises ValueError."""
    if packet_bytes * 8_000_000 < rate_bit_s:
        raise ValueError(
            f"found {packet_bytes} B at {rate_bit_s} bit/s, expected a datagram in 1 us or longer"
        )


class Call(Table):
    """Telephone call in both directions. A bare text is ``codec``."""

    codec: StrictStr
    packet: PositiveText = Duration(20_000_000)
    vad: StrictBool | None = None
    time: PositiveText | None = None

    @model_validator(mode="after")
    def _check_frames(self) -> Call:
        codec = CODECS.get(self.codec)
        if codec is None:
            error = unknown_name(self.codec, CODECS, "codec")
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "codec"})
        frame = round(codec.frame_ms * 1e6)
        ms = self.packet.ns / 1e6
        if self.packet.ns % max(frame, 1_000_000) or not 1 <= ms <= 200:
            step_ms = max(codec.frame_ms, 1.0)
            error = f"found {self.packet}, expected a multiple of {step_ms:g} ms up to 200 ms"
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "packet"})
        return self


class ConstantBitRate(Table):
    """Stream of constant bit rate, with datagrams of one size.

    The default size is 7 packets of an MPEG transport stream and the RTP header (RFC 2250 section 2).
    """

    rate: RateText
    packet: SizeText = Size(1328)
    time: PositiveText | None = None

    @model_validator(mode="after")
    def _check_datagrams(self) -> ConstantBitRate:
        _check_packet(self.packet)
        _check_interval(self.rate.bit_s, self.packet.bytes)
        return self


class OnOff(Table):
    """Source that sends for ``on`` and is silent for ``off``."""

    on: PositiveText
    off: PositiveText
    exponential: StrictBool = False
    periods: Literal["fixed", "exponential", "pareto"] | None = None
    shape: Annotated[StrictFloat | StrictInt, Field(le=100)] | None = None
    rate: RateText | None = None
    packet: SizeText | None = None
    time: PositiveText | None = None

    @property
    def distribution(self) -> str:
        """Distribution of the durations of periods."""
        return self.periods or ("exponential" if self.exponential else "fixed")

    @property
    def pareto_shape(self) -> float | None:
        """Shape of Pareto periods; None for other distributions."""
        if self.distribution != "pareto":
            return None
        return float(self.shape) if self.shape is not None else NS2_SHAPE

    @model_validator(mode="after")
    def _check_combination(self) -> OnOff:
        if self.exponential and self.periods is not None:
            raise ValueError(f'found exponential = true and periods = "{self.periods}", expected one of them')
        if self.shape is not None:
            if self.periods != "pareto":
                raise ValueError('found a shape, which requires periods = "pareto"')
            if not self.shape > 1:
                error = f"found {self.shape}, expected more than 1: Pareto periods of that shape have no mean"
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "shape"})
        _check_packet(self.packet)
        if self.packet is not None and self.rate is not None:
            _check_interval(self.rate.bit_s, self.packet.bytes)
        return self


class Udp(Table):
    """Options of UDP."""

    ip: Literal[4, 6] | None = None
    mtu: SizeText | None = None
    """UDP payload of a full packet, such as the longest segment of LTP."""

    @model_validator(mode="after")
    def _check_mtu(self) -> Udp:
        check_udp_payload(self.mtu)
        return self

    def with_defaults(self, defaults: Udp) -> Udp:
        """Return these options with those of ``defaults`` that this table does not set."""
        return merge_tables(self, defaults)
