"""Splitting proxies: the TCP sockets of both sides (``ProxySpec``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bentpipe.plan.flow.tcp import header_bytes, mss_bytes, payload_bytes, tcp_spec
from bentpipe.scenario.base import Congestion
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import ProxySpec, SocketSpec
    from bentpipe.scenario.flow.proxy import ProxyKeys, Side
    from bentpipe.scenario.flow.tcp import Tcp

__all__ = ["NextTcpEndpoint", "proxy_spec"]

DEFAULT_CONGESTION = "cubic"
"""Controller of a side that names none, as in Linux."""

LINE_RATE_BDPS = 2
"""Window of a sender that knows its rate, in BDPs of its connection: one in flight, one in the queue."""


@dataclass(frozen=True, slots=True)
class NextTcpEndpoint:
    """Path between a proxy and the next proxy or host on one side."""

    rate_bit_s: int | None
    """The lowest rate in the sending direction; None without a transmitter."""
    rtt_ns: int
    """Round-trip propagation delay."""


def proxy_spec(
    name: str,
    keys: ProxyKeys,
    defaults: Tcp,
    endpoints: Mapping[str, NextTcpEndpoint | None],
    buffers: tuple[int, int],
    key: str,
) -> ProxySpec:
    """Build the ``ProxySpec`` of a splitting proxy.

    Args:
        name: name of its node.
        keys: its table in the scenario.
        defaults: ``[tcp]``. The server side does not inherit Fast Open, as no proxy holds a cookie of the server.
        endpoints: the next endpoint of ``client_side`` and ``server_side``; None if the side has several links.
        buffers: default receive and send buffer, bytes.
        key: key of the proxy, for errors.

    Raises:
        ScenarioError: options that cannot be combined, or ``line_rate`` without a known rate.
    """
    sides: Sequence[tuple[Literal["client_side", "server_side"], Side]] = (
        ("client_side", keys.client_side),
        ("server_side", keys.server_side),
    )
    if keys.handshake == "none":
        raise ValueError(f"{name} splits nothing")
    buffer = keys.buffer.bytes if keys.buffer is not None else buffers[1]
    sockets: dict[str, SocketSpec] = {}
    for side_name, side in sides:
        options = side.with_defaults(defaults)
        if side_name == "server_side" and side.fast_open is None:
            options = options.model_copy(update={"fast_open": False})
        congestion = options.congestion or Congestion(name=DEFAULT_CONGESTION)
        if side.line_rate:
            congestion = _fixed_rate(options, endpoints[side_name], f"{key}.{side_name}")
        sockets[side_name] = {
            "tcp": tcp_spec(options, buffers, f"{key}.{side_name}"),
            "congestion": congestion.name,
            "options": congestion.options,
        }
        if buffer < (segment := mss_bytes(options)):
            text = f"found {buffer} B, expected at least a segment of {side_name}, {segment} B"
            raise ScenarioError([(f"{key}.buffer", text)])
    return {
        "node": name,
        "handshake": keys.handshake,
        "buffer_bytes": buffer,
        "client_side": sockets["client_side"],
        "server_side": sockets["server_side"],
    }


def _fixed_rate(side: Side, endpoint: NextTcpEndpoint | None, key: str) -> Congestion:
    """Return the controller of a sender that knows its rate: no slow start, a window of two BDPs."""
    if endpoint is None or endpoint.rate_bit_s is None:
        expected = (
            "one link on this side"
            if endpoint is None
            else "a rate in the sending direction of this side's segment"
        )
        raise ScenarioError([(f"{key}.line_rate", f"found true, which requires {expected}")])
    wire_bytes = mss_bytes(side) + header_bytes(side)
    rate = endpoint.rate_bit_s * payload_bytes(side) // wire_bytes  # the pacer counts payload
    window = LINE_RATE_BDPS * endpoint.rate_bit_s * endpoint.rtt_ns // (8 * 10**9)
    return Congestion.model_validate(
        {"name": "fixed", "window_bytes": max(window, 10 * mss_bytes(side)), "rate_bit_s": max(rate, 1)}
    )
