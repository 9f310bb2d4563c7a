"""What sends datagrams whatever the network does: the tables ``load.call``, ``load.live``, ``load.on_off``; ``udp``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import PositiveText, RateText, SizeText, Table, merge_tables
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.flow.codecs import CODECS
from bentpipe.scenario.quantities import Duration, Size

__all__ = ["Call", "Live", "OnOff", "Udp", "udp_payload"]

LEAST_BYTES, MOST_BYTES = 22, 65_507
"""RTP's header and what the engine writes behind it; what a UDP datagram holds over IPv4."""

LEAST_MTU_BYTES = 200
"""Room for the head of any segment of LTP, and for a few claims of a report."""

NS2_SHAPE = 1.5
"""Of a Pareto source where nothing is said: ns-2's ``shape_``."""


def udp_payload(mtu: Size | None) -> None:
    """Raises ValueError where no full packet can have so long a UDP payload."""
    if mtu is not None and not LEAST_MTU_BYTES <= mtu.bytes <= MOST_BYTES:
        raise ValueError(
            f"found mtu = {mtu}, expected {LEAST_MTU_BYTES} B to {MOST_BYTES} B (what UDP carries)"
        )


def _datagram(packet: Size | None) -> None:
    """Raises ValueError for a datagram that cannot be."""
    if packet is not None and not LEAST_BYTES <= packet.bytes <= MOST_BYTES:
        raise ValueError(
            f"found packet = {packet}, expected {LEAST_BYTES} B to {MOST_BYTES} B (what UDP carries)"
        )


def _interval(rate_bit_s: int, packet_bytes: int) -> None:
    """Raises ValueError for datagrams that follow each other too closely."""
    if packet_bytes * 8_000_000 < rate_bit_s:
        raise ValueError(
            f"found {packet_bytes} B at {rate_bit_s} bit/s, expected a datagram in 1 us or longer"
        )


class Call(Table):
    """A telephone call, both ways. A bare word is ``codec``."""

    codec: StrictStr
    packet: PositiveText = Duration(20_000_000)
    vad: StrictBool | None = None
    time: PositiveText | None = None

    @model_validator(mode="after")
    def _frames(self) -> Call:
        codec = CODECS.get(self.codec)
        if codec is None:
            error = unknown_name(self.codec, CODECS, "codec")
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "codec"})
        frame = round(codec.frame_ms * 1e6)
        ms = self.packet.ns / 1e6
        if self.packet.ns % max(frame, 1_000_000) or not 1 <= ms <= 200:
            whole = max(codec.frame_ms, 1.0)
            error = f"found {self.packet}, expected a multiple of {whole:g} ms up to 200 ms"
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "packet"})
        return self


class Live(Table):
    """A live stream of constant rate: datagrams of one size, by default 7 packets of an MPEG transport stream and RTP's
    header (RFC 2250 section 2)."""

    rate: RateText
    packet: SizeText = Size(1328)
    time: PositiveText | None = None

    @model_validator(mode="after")
    def _fits(self) -> Live:
        _datagram(self.packet)
        _interval(self.rate.bit_s, self.packet.bytes)
        return self


class OnOff(Table):
    """A source that sends for ``on`` and is silent for ``off``."""

    on: PositiveText
    off: PositiveText
    exponential: StrictBool = False
    periods: Literal["fixed", "exponential", "pareto"] | None = None
    shape: Annotated[StrictFloat | StrictInt, Field(le=100)] | None = None
    rate: RateText | None = None
    packet: SizeText | None = None
    time: PositiveText | None = None

    @property
    def drawn(self) -> str:
        """How lengths of periods are drawn."""
        return self.periods or ("exponential" if self.exponential else "fixed")

    @property
    def pareto_shape(self) -> float | None:
        """Shape of Pareto periods; None of others."""
        if self.drawn != "pareto":
            return None
        return float(self.shape) if self.shape is not None else NS2_SHAPE

    @model_validator(mode="after")
    def _whole(self) -> OnOff:
        if self.exponential and self.periods is not None:
            raise ValueError(f'found exponential = true and periods = "{self.periods}", expected one of them')
        if self.shape is not None:
            if self.periods != "pareto":
                raise ValueError('found a shape, which goes with periods = "pareto"')
            if not self.shape > 1:
                error = f"found {self.shape}, expected more than 1: Pareto periods of that shape have no mean"
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "shape"})
        _datagram(self.packet)
        if self.packet is not None and self.rate is not None:
            _interval(self.rate.bit_s, self.packet.bytes)
        return self


class Udp(Table):
    """Options of UDP."""

    ip: Literal[4, 6] | None = None
    mtu: SizeText | None = None
    """UDP payload of a full packet, where the application fills packets: LTP's longest segment."""

    @model_validator(mode="after")
    def _room(self) -> Udp:
        udp_payload(self.mtu)
        return self

    def over(self, other: Udp) -> Udp:
        """These options, with those of ``other`` where this table is silent."""
        return merge_tables(self, other)
