"""Proxies on the way of a flow: the legs between them, and their sockets in the engine's words (``ProxySpec``)."""

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
"""Linux's, for a proxy whose side names none."""

KNOWN_BDPS = 2
"""Window of a sender that knows its rate, in bandwidth-delay products of its leg: one on the way, one in the queue."""


@dataclass(frozen=True, slots=True)
class NextTcpEndpoint:
    """What lies between a proxy and the next proxy or host on one side."""

    rate_bit_s: int | None
    """The narrowest rate in the sending direction; None without a transmitter."""
    rtt_ns: int


def proxy_spec(
    name: str,
    keys: ProxyKeys,
    defaults: Tcp,
    toward: Mapping[str, NextTcpEndpoint | None],
    buffers: tuple[int, int],
    key: str,
) -> ProxySpec:
    """A proxy in the engine's words.

    Args:
        name: of its node.
        keys: what the scenario says of it.
        defaults: ``[tcp]``; Fast Open is not passed on to the way onward, where nobody holds a cookie.
        toward: by ``client_side`` and ``server_side``, what lies there; None where that is not one link.
        buffers: receive and send buffer where the options are silent.
        key: of the proxy, for errors.

    Raises:
        ScenarioError: options that do not go together, a rate to know that is not there.
    """
    sides: Sequence[tuple[Literal["client_side", "server_side"], Side]] = (
        ("client_side", keys.client_side),
        ("server_side", keys.server_side),
    )
    if keys.setup == "none":
        raise ValueError(f"{name} splits nothing")
    buffer = keys.buffer.bytes if keys.buffer is not None else buffers[1]
    sockets: dict[str, SocketSpec] = {}
    for word, side in sides:
        whole = side.over(defaults)
        if word == "server_side" and side.fast_open is None:
            whole = whole.model_copy(update={"fast_open": False})
        congestion = whole.congestion or Congestion(name=DEFAULT_CONGESTION)
        if side.rate_knowing:
            congestion = _knowing(whole, toward[word], f"{key}.{word}")
        sockets[word] = {
            "tcp": tcp_spec(whole, buffers, f"{key}.{word}"),
            "congestion": congestion.name,
            "options": congestion.options,
        }
        if buffer < (least := mss_bytes(whole)):
            said = f"found {buffer} B, expected at least a segment of {word}, {least} B"
            raise ScenarioError([(f"{key}.buffer", said)])
    return {
        "node": name,
        "setup": keys.setup,
        "buffer_bytes": buffer,
        "client_side": sockets["client_side"],
        "server_side": sockets["server_side"],
    }


def _knowing(side: Side, toward: NextTcpEndpoint | None, key: str) -> Congestion:
    """The controller of a sender that knows its rate: no slow start, a window of two BDPs."""
    if toward is None or toward.rate_bit_s is None:
        what = (
            "one link on this side"
            if toward is None
            else "a rate in the sending direction of this side's segment"
        )
        raise ScenarioError([(f"{key}.rate_knowing", f"found true, expected {what}, which it could know")])
    wire = mss_bytes(side) + header_bytes(side)
    rate = toward.rate_bit_s * payload_bytes(side) // wire  # the pacer counts payload
    window = KNOWN_BDPS * toward.rate_bit_s * toward.rtt_ns // (8 * 10**9)
    return Congestion.model_validate(
        {"name": "fixed", "window_bytes": max(window, 10 * mss_bytes(side)), "rate_bit_s": max(rate, 1)}
    )
