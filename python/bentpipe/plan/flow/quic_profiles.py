"""Profiles of QUIC: defaults that ``quic.profile`` derives from the path of a flow.

``deep-space`` follows draft-ietf-tiptop-quic-profile. Its longest round-trip time R is ``quic.max_rtt``. Without
this key, R is the longest propagation delay up and down plus the longest time without a route.

====================  =============================================================================================
initial_rtt           R (the draft's "Initial RTT": the maximum RTT; RFC 9002 section 6.2.2)
idle_timeout          9 R: the draft's "Idle Timeout" is R; RFC 9000 section 10.1 requires at least three probe
                      timeouts, each 3 R before the first RTT sample (RFC 9002 sections 6.2.1 and 6.2.2)
packet_threshold      none: store-and-forward routers and alternating relays reorder by minutes; RFC 9002 section
                      6.1.1 permits another threshold than 3
time_threshold        9/8 (RFC 9002 section 6.1.2), the only detection of loss
packets_per_ack       10 packets: the draft's "Acknowledgement Frequency"; the value of its authors' trials with Quinn
max_ack_delay         1 s (RFC 9000 section 18.2 allows 16 s)
receive_window,       2 BDP of R and the narrowest link of the faster direction (the draft's "Window Size" and
stream_..., send_...  "Max Data"); at least an initial window
====================  =============================================================================================

The path MTU is always known (the draft's "Path MTU discovery"). For controllers without feedback the profile sets the
values that the draft leaves to the application. The window of ``no-op`` is 2 BDP. The rate of ``open-loop`` is that of
the narrowest link, less headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.plan.flow.quic import initial_window_bytes, mtu_bytes, wire_bytes
from bentpipe.scenario.flow.quic import MAX_RTT, Quic
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.network.graph import Hop

__all__ = ["PathProperties", "apply_profile", "path_properties", "profile_controller_options"]

IDLE_TIMEOUT_RTTS = 3 * 3
WINDOW_BDPS = 2
PACKETS_PER_ACK = 10
MAX_ACK_DELAY = Duration(1_000_000_000)


@dataclass(frozen=True, slots=True)
class PathProperties:
    """Properties of a flow's path that are known in advance."""

    longest_rtt_ns: int
    """Longest propagation delay up and down plus the longest time without a route."""
    up_bit_s: int | None
    """Rate of the narrowest link up, on the fastest route; None if no link has a rate."""
    down_bit_s: int | None
    """Rate of the narrowest link down, on the fastest route; None if no link has a rate."""


def path_properties(
    routes: Sequence[tuple[tuple[Hop, ...], tuple[Hop, ...]]], wait_ns: int
) -> PathProperties:
    """Return the properties of a path.

    Args:
        routes: hops up and down on each route.
        wait_ns: longest time that packets wait for a route.
    """
    rtt = max(sum(hop.delay_max_ns for hops in route for hop in hops) for route in routes)
    up, down = ([_narrowest_bit_s(route[side]) for route in routes] for side in (0, 1))
    return PathProperties(
        rtt + wait_ns, *(max((r for r in rates if r is not None), default=None) for rates in (up, down))
    )


def _narrowest_bit_s(hops: Sequence[Hop]) -> int | None:
    return min((hop.rate.bit_s for hop in hops if hop.rate is not None), default=None)


def apply_profile(quic: Quic, path: PathProperties) -> Quic:
    """Return the options, completed by those of their profile."""
    if quic.profile != "deep-space":
        return quic
    longest = _longest_ns(quic, path)
    values: dict[str, Any] = {
        "initial_rtt": Duration(max(longest, 1)),
        "idle_timeout": Duration(max(IDLE_TIMEOUT_RTTS * longest, 1)),
        "packet_threshold": "none",
        "packets_per_ack": PACKETS_PER_ACK,
        "max_ack_delay": MAX_ACK_DELAY,
    }
    if (window := _window_bytes(quic, path)) is not None:
        values |= dict.fromkeys(("receive_window", "stream_receive_window", "send_window"), Size(window))
    return quic.with_defaults(Quic(**values))


def profile_controller_options(
    quic: Quic, path: PathProperties, controller: str, *, down: bool
) -> dict[str, int]:
    """Return the default options of a controller under a profile.

    Args:
        quic: options of QUIC, with the profile.
        path: properties of the path.
        controller: name of the controller.
        down: whether the sender sends down.
    """
    if quic.profile != "deep-space":
        return {}
    if controller == "no-op" and (window := _window_bytes(quic, path)) is not None:
        return {"window_bytes": window}
    rate = path.down_bit_s if down else path.up_bit_s
    if controller == "open-loop" and rate is not None:
        return {"rate_bit_s": max(1, rate * mtu_bytes(quic) // wire_bytes(quic))}
    return {}


def _longest_ns(quic: Quic, path: PathProperties) -> int:
    return quic.max_rtt.ns if quic.max_rtt is not None else min(path.longest_rtt_ns, MAX_RTT.ns)


def _window_bytes(quic: Quic, path: PathProperties) -> int | None:
    rate = max((r for r in (path.up_bit_s, path.down_bit_s) if r is not None), default=None)
    if rate is None:
        return None
    bdp = -(-rate * _longest_ns(quic, path) // (8 * 10**9))
    return max(WINDOW_BDPS * bdp, initial_window_bytes(quic))
