"""Receive and send windows that never limit a flow, unless the scenario sets them.

The receive window is 8 times, the send window 4 times the BDP plus the queue of the narrowest link. They are at least
16 and 4 MiB, in whole MiB. Slow start overshoots to twice the capacity of the path, and data sent before a loss waits
for its retransmission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.plan.network.graph import Hop

__all__ = ["flow_control_windows"]

MIB = 1 << 20
WINDOW_WITHOUT_RATE = 64 * MIB
"""Receive and send window of a path without a rate, in bytes."""


def flow_control_windows(round_trips: Iterable[tuple[Hop, ...]]) -> tuple[int, int]:
    """Return the receive and send windows in bytes that suffice for each round trip over these hops."""
    receive, send = zip(*map(_windows, round_trips), strict=True)
    return max(receive), max(send)


def _windows(hops: tuple[Hop, ...]) -> tuple[int, int]:
    rtt_ns = sum(hop.delay_max_ns for hop in hops)
    with_rate = [hop for hop in hops if hop.rate is not None]
    lowest_bit_s = min((hop.rate.bit_s for hop in with_rate if hop.rate is not None), default=0)
    capacity = max((_capacity_bytes(hop, rtt_ns, lowest_bit_s) for hop in with_rate), default=None)
    if capacity is None:
        return WINDOW_WITHOUT_RATE, WINDOW_WITHOUT_RATE
    return max(16 * MIB, _round_up(8 * capacity)), max(4 * MIB, _round_up(4 * capacity))


def _capacity_bytes(hop: Hop, rtt_ns: int, lowest_bit_s: int) -> int:
    """Return the BDP at the lowest rate of the path plus the queue of this hop."""
    queue = hop.queue_bytes if hop.queue_bytes is not None else WINDOW_WITHOUT_RATE // 4
    return lowest_bit_s * rtt_ns // (8 * 10**9) + queue


def _round_up(value: int) -> int:
    return -(-value // MIB) * MIB
