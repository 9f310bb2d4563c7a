"""Options of TCP: the tables ``[tcp]``, ``flow.NAME.tcp`` and those of the two sides of a proxy."""

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
"""Smallest MSS: TCP_MIN_MSS of Linux, with 40 bytes of options."""

MOST_MSS = 65_495
"""Largest MSS: an IPv4 packet of 65,535 bytes less 40 bytes of headers."""

MOST_BUFFER = 65_535 << 14
"""Largest window with window scaling in bytes (RFC 7323 section 2.3): about 1 GiB."""


class LossDetection(Table):
    """Loss detection. A bare text is ``name``."""

    name: Literal["rack-tlp", "dupacks"]
    threshold: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    forward: StrictBool | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> LossDetection:
        if self.threshold is not None and self.name != "dupacks":
            raise ValueError(
                'found threshold beside "rack-tlp", which uses a time threshold; requires "dupacks"'
            )
        if self.forward is not None and self.name != "dupacks":
            raise ValueError(
                'found forward beside "rack-tlp", which uses a time threshold; requires "dupacks"'
            )
        return self


class DelayedAck(Table):
    """Delayed acknowledgements. A bare duration is ``timeout``; ``"off"`` acknowledges every segment immediately."""

    timeout: PositiveText = Duration(40_000_000)
    every: Annotated[StrictInt, Field(ge=1, le=1000)] = 2
    quick: Annotated[StrictInt, Field(ge=0, le=1000)] = 16
    off: StrictBool = False


def _to_delayed_ack(found: object) -> object:
    if found == "off":
        return {"off": True}
    return {"timeout": found} if isinstance(found, (str, int, float)) else found


class TcpEnd(Table):
    """Options of one end of TCP connections. Missing options have the defaults of ``plan.flow.tcp``."""

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
        Annotated[DelayedAck, BeforeValidator(_to_delayed_ack, json_schema_input_type=DelayedAck | str)]
        | None
    ) = None
    abc: Literal["unlimited", "off", 1, 2] | None = None
    ecn: StrictBool | None = None
    fast_open: StrictBool | None = None
    pacing: StrictBool | None = None
    restart_after_idle: StrictBool | None = None
    receive_buffer: SizeText | None = None
    send_buffer: SizeText | None = None

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        if self.mss is not None and not LEAST_MSS <= self.mss.bytes <= MOST_MSS:
            raise ValueError(f"found mss = {self.mss}, expected {LEAST_MSS} B to {MOST_MSS} B")
        for key in ("receive_buffer", "send_buffer"):
            size = getattr(self, key)
            if size is not None and not 1 <= size.bytes <= MOST_BUFFER:
                raise ValueError(
                    f"found {key} = {size}, expected 1 B to {MOST_BUFFER} B (RFC 7323 section 2.3)"
                )
        return self

    def with_defaults(self, defaults: TcpEnd) -> Self:
        """Return these options with those of ``defaults`` that this table does not set."""
        if type(self) is type(defaults):
            return merge_tables(self, defaults)
        known = type(self).model_fields
        options = {name: getattr(defaults, name) for name in defaults.model_fields_set if name in known}
        options |= {name: getattr(self, name) for name in self.model_fields_set}
        return cast("Self", type(self).model_construct(_fields_set=set(options), **options))


class Tcp(TcpEnd):
    """Options of both ends, and different options of the server."""

    server: TcpEnd | None = None

    def with_defaults(self, defaults: TcpEnd) -> Self:
        """Return these options with those of ``defaults`` that this table does not set; ``server`` key by key."""
        options = super().with_defaults(defaults)
        server_defaults = defaults.server if isinstance(defaults, Tcp) else None
        if self.server is None or server_defaults is None:
            return options
        server = self.server.with_defaults(server_defaults)
        result: Self = options.model_copy(update={"server": server})
        return result

    def server_end(self) -> TcpEnd:
        """Return the options of the server: its own over those of both ends."""
        server = self.server if self.server is not None else TcpEnd()
        return server.with_defaults(self)
