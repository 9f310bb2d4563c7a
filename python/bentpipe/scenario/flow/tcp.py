"""Options of TCP in a scenario: the tables ``[tcp]``, ``flow.NAME.tcp`` and those of a proxy's two sides."""

from __future__ import annotations

from typing import Annotated, Literal, Self, cast

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, model_validator

from bentpipe.scenario.base import (
    Congestion,
    PositiveText,
    SizeText,
    Table,
    WindowText,
    as_table,
    merge_tables,
)
from bentpipe.scenario.quantities import Duration

__all__ = ["MOST_BUFFER", "DelayedAck", "LossDetection", "Tcp", "TcpEnd"]

LEAST_MSS = 88
"""Linux's TCP_MIN_MSS: room for 40 bytes of options."""

MOST_MSS = 65_495
"""What an IPv4 packet of 65,535 bytes holds behind 40 bytes of headers."""

MOST_BUFFER = 65_535 << 14
"""The largest window that window scaling can say (RFC 7323 section 2.3): about 1 GiB."""


class LossDetection(Table):
    """How losses are found. A bare word is ``name``."""

    name: Literal["rack-tlp", "dupacks"]
    threshold: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    forward: StrictBool | None = None

    @model_validator(mode="after")
    def _threshold(self) -> LossDetection:
        if self.threshold is not None and self.name != "dupacks":
            raise ValueError('found threshold beside "rack-tlp", which counts time; it goes with "dupacks"')
        if self.forward is not None and self.name != "dupacks":
            raise ValueError('found forward beside "rack-tlp", which counts time; it goes with "dupacks"')
        return self


class DelayedAck(Table):
    """Delayed acknowledgements: a bare duration is ``timeout``, ``"off"`` acknowledges every segment at once."""

    timeout: PositiveText = Duration(40_000_000)
    every: Annotated[StrictInt, Field(ge=1, le=1000)] = 2
    quick: Annotated[StrictInt, Field(ge=0, le=1000)] = 16
    off: StrictBool = False


def _widened(found: object) -> object:
    if found == "off":
        return {"off": True}
    return {"timeout": found} if isinstance(found, (str, int, float)) else found


class TcpEnd(Table):
    """Options of one end of TCP connections; what is silent takes the defaults of ``plan.tcp``."""

    congestion: Annotated[Congestion, as_table("name")] | None = None
    mss: SizeText | None = None
    ip: Literal[4, 6] | None = None
    initial_window: WindowText | None = None
    initial_rto: PositiveText | None = None
    min_rto: PositiveText | None = None
    max_rto: PositiveText | None = None
    rto_estimate: Literal["linux", "rfc6298"] | None = None
    loss_detection: Annotated[LossDetection, as_table("name")] | None = None
    sack: StrictBool | None = None
    dsack: StrictBool | None = None
    adapt_reordering: StrictBool | None = None
    limited_transmit: StrictBool | None = None
    prr: StrictBool | None = None
    frto: StrictBool | None = None
    timestamps: StrictBool | None = None
    window_scaling: StrictBool | None = None
    delayed_ack: (
        Annotated[DelayedAck, BeforeValidator(_widened, json_schema_input_type=DelayedAck | str)] | None
    ) = None
    abc: Literal["unlimited", "off", 1, 2] | None = None
    ecn: StrictBool | None = None
    fast_open: StrictBool | None = None
    pacing: StrictBool | None = None
    restart_after_idle: StrictBool | None = None
    receive_buffer: SizeText | None = None
    send_buffer: SizeText | None = None

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        if self.mss is not None and not LEAST_MSS <= self.mss.bytes <= MOST_MSS:
            raise ValueError(f"found mss = {self.mss}, expected {LEAST_MSS} B to {MOST_MSS} B")
        for key in ("receive_buffer", "send_buffer"):
            size = getattr(self, key)
            if size is not None and not 1 <= size.bytes <= MOST_BUFFER:
                raise ValueError(
                    f"found {key} = {size}, expected 1 B to {MOST_BUFFER} B (RFC 7323 section 2.3)"
                )
        return self

    def over(self, other: TcpEnd) -> Self:
        """These options, with those of ``other`` where this table is silent."""
        if type(self) is type(other):
            return merge_tables(self, other)
        known = type(self).model_fields
        both = {name: getattr(other, name) for name in other.model_fields_set if name in known}
        both |= {name: getattr(self, name) for name in self.model_fields_set}
        return cast("Self", type(self).model_construct(_fields_set=set(both), **both))


class Tcp(TcpEnd):
    """Options of both ends, and of the server's where they differ."""

    server: TcpEnd | None = None

    def over(self, other: TcpEnd) -> Self:
        """These options, with those of ``other`` where this table is silent; ``server`` key by key."""
        whole = super().over(other)
        theirs = other.server if isinstance(other, Tcp) else None
        if self.server is None or theirs is None:
            return whole
        server = self.server.over(theirs)
        complete: Self = whole.model_copy(update={"server": server})
        return complete

    def server_end(self) -> TcpEnd:
        """The server's options: its own over those of both ends."""
        own = self.server if self.server is not None else TcpEnd()
        return own.over(self)
