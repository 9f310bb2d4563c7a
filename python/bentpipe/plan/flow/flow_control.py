"""Windows of flow control that never are the limit.

4 (send) and 8 (receive) times BDP + queue of the narrowest link, at least 4 and 16 MiB, in whole MiB: slow start
overshoots to twice what the path holds, and what was sent before a loss waits for it, so flow control never limits
unless the scenario asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.plan.network.graph import Hop

__all__ = ["flow_control_windows"]

MIB = 1 << 20
NARROW_UNKNOWN = 64 * MIB  # send and receive flow_control_windows on a path without a rate


def flow_control_windows(ways: Iterable[tuple[Hop, ...]]) -> tuple[int, int]:
    """Receive and send flow_control_windows, bytes, that are enough for each way there and back."""
    receive, send = zip(*map(_window, ways), strict=True)
    return max(receive), max(send)


def _window(hops: tuple[Hop, ...]) -> tuple[int, int]:
    rtt = sum(hop.delay_max_ns for hop in hops)
    rated = [hop for hop in hops if hop.rate is not None]
    narrowest = min((hop.rate.bit_s for hop in rated if hop.rate is not None), default=0)
    holds = max((_capacity(hop, rtt, narrowest) for hop in rated), default=None)
    if holds is None:
        return NARROW_UNKNOWN, NARROW_UNKNOWN
    return max(16 * MIB, _round_up(8 * holds)), max(4 * MIB, _round_up(4 * holds))


def _capacity(hop: Hop, rtt_ns: int, narrowest_bit_s: int) -> int:
    """What fits on the path at the narrowest rate, and in this hop's queue."""
    queue = hop.queue_bytes if hop.queue_bytes is not None else NARROW_UNKNOWN // 4
    return narrowest_bit_s * rtt_ns // (8 * 10**9) + queue


def _round_up(value: int) -> int:
    return -(-value // MIB) * MIB
