"""Profiles of QUIC: what ``quic.profile`` sets where nothing else is said, of the path that a flow has.

``deep-space``, after draft-ietf-tiptop-quic-profile, whose longest round trip R is ``quic.longest_rtt``, or the
propagation both ways at its longest and the longest time in which no way leads over the path:

====================  =============================================================================================
initial_rtt           R (the draft's "Initial RTT": the maximum RTT; RFC 9002 section 6.2.2)
idle_timeout          9 R: the draft's "Idle Timeout" has R; RFC 9000 section 10.1 asks for three probe timeouts at the
                      least, each 3 R as long as R is all that is known (RFC 9002 sections 6.2.1 and 6.2.2)
packet_threshold      none: routers that hold, and relays in turn, reorder by minutes; RFC 9002 section 6.1.1 lets a
                      sender use another threshold than 3
time_threshold        9/8 (RFC 9002 section 6.1.2), which is then what finds a loss
ack_every             10 packets: the draft's "Acknowledgement Frequency"; as many as its authors' trials with Quinn
max_ack_delay         1 s for them to come (RFC 9000 section 18.2 allows 16 s)
receive_window,       2 BDP, of the wider direction's narrowest link and R (the draft's "Window Size" and "Max Data");
stream_..., send_...  no less than an initial window
====================  =============================================================================================

The path's MTU is known and not searched for anyway (the draft's "Path MTU discovery"). Of controllers that react to
nothing it sets what the draft has the application set: the window of ``no-op`` (2 BDP) and the rate of ``open-loop``
(the narrowest link's, less headers).
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

IDLE_ROUND_TRIPS = 3 * 3
CREDIT_BDP = 2
ACK_EVERY = 10
ACK_DELAY = Duration(1_000_000_000)


@dataclass(frozen=True, slots=True)
class PathProperties:
    """What is known of a flow's path before it is used."""

    longest_rtt_ns: int
    up_bit_s: int | None
    """Of the narrowest link up, on the widest way; None: no link has a rate."""
    down_bit_s: int | None


def path_properties(ways: Sequence[tuple[tuple[Hop, ...], tuple[Hop, ...]]], wait_ns: int) -> PathProperties:
    """Of these ways, each there and back, on which packets wait for ``wait_ns`` at the longest."""
    rtt = max(sum(hop.delay_max_ns for hops in way for hop in hops) for way in ways)
    up, down = ([_narrowest(way[side]) for way in ways] for side in (0, 1))
    return PathProperties(
        rtt + wait_ns, *(max((r for r in rates if r is not None), default=None) for rates in (up, down))
    )


def _narrowest(hops: Sequence[Hop]) -> int | None:
    return min((hop.rate.bit_s for hop in hops if hop.rate is not None), default=None)


def apply_profile(quic: Quic, path: PathProperties) -> Quic:
    """The options with those of their profile where they are silent."""
    if quic.profile != "deep-space":
        return quic
    longest = _longest_ns(quic, path)
    values: dict[str, Any] = {
        "initial_rtt": Duration(max(longest, 1)),
        "idle_timeout": Duration(max(IDLE_ROUND_TRIPS * longest, 1)),
        "packet_threshold": "none",
        "ack_every": ACK_EVERY,
        "max_ack_delay": ACK_DELAY,
    }
    if (credit := _credit(quic, path)) is not None:
        values |= dict.fromkeys(("receive_window", "stream_receive_window", "send_window"), Size(credit))
    return quic.with_defaults(Quic(**values))


def profile_controller_options(
    quic: Quic, path: PathProperties, controller: str, *, down: bool
) -> dict[str, int]:
    """Options of a controller that its profile sets where nothing is said; of the sender ``down``, or up."""
    if quic.profile != "deep-space":
        return {}
    if controller == "no-op" and (credit := _credit(quic, path)) is not None:
        return {"window_bytes": credit}
    rate = path.down_bit_s if down else path.up_bit_s
    if controller == "open-loop" and rate is not None:
        return {"rate_bit_s": max(1, rate * mtu_bytes(quic) // wire_bytes(quic))}
    return {}


def _longest_ns(quic: Quic, path: PathProperties) -> int:
    return quic.longest_rtt.ns if quic.longest_rtt is not None else min(path.longest_rtt_ns, MAX_RTT.ns)


def _credit(quic: Quic, path: PathProperties) -> int | None:
    rate = max((one for one in (path.up_bit_s, path.down_bit_s) if one is not None), default=None)
    if rate is None:
        return None
    bdp = -(-rate * _longest_ns(quic, path) // (8 * 10**9))
    return max(CREDIT_BDP * bdp, initial_window_bytes(quic))
