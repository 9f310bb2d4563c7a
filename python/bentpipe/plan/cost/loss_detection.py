"""What overtaking costs a QUIC sender: each look for lost packets passes all that are neither acknowledged nor lost.

It looks with every ACK and whenever the time threshold of RFC 9002 section 6.1.2 has passed for a packet. With the
packet threshold of section 6.1.1 at most 3 are there; where a scenario raises it they can be thousands.

Of n packets that are sent in the time W by which their delays spread, drawn uniformly, the highest number that has
come was sent W sqrt(pi / (2 n)) ago (the first to come, by their hazard). A receiver of the stack takes for a
repetition what is 129 numbers or more behind it, so that a share of (129 + sqrt(pi n / 2)) / n is acknowledged, where
that is less than all. Others stay until they are taken for lost, are sent again, and leave gaps for good, so that every
ACK tells of as many ranges as it holds; without them n / 6 gaps are open at a time. A sender whose window is full of
them waits, as does one that has nothing else to send.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from bentpipe.plan.cost.reordering import IN_ORDER, Late

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.spec.run_spec import QuicSpec

__all__ = ["Overtaking"]

LOOK_S = 3e-9
RANGE_S = 10e-9
PACKET_S = 1.6e-6
"""Processor time of a packet (``python -m benchmarks simulator``).

Runs of 2 to 10 s at 80 of 100 Mbit/s, with jitter of each distribution of 18 to 200 ms, held packets, and time
thresholds of 9/8 to 1000, took 0.4 to 1.7 times what these give; ``tests/python/test_price.py`` has five of them."""

MOST_RANGES = 64
"""Of an ACK: quinn-proto's MAX_ACK_BLOCKS."""

REMEMBERED = 129
"""Numbers that a receiver knows again: quinn-proto's Dedup."""

MOST_LOST = 0.99
"""A bound of the share, so that what is sent again and again has an end."""

TIME_THRESHOLD_PERMILLE = 1125
"""RFC 9002 section 6.1.2."""


@dataclass(frozen=True, slots=True)
class Overtaking:
    """How packets of a QUIC sender overtake each other, and when it takes one for lost."""

    late: Late
    most: float
    """The packet threshold."""
    window: float
    """Packets that can be unacknowledged."""
    threshold: float
    """The time threshold, in round trips."""

    @classmethod
    def on(cls, hops: Sequence[Hop], quic: QuicSpec) -> Self:
        """Of what crosses ``hops``."""
        window = min(quic["send_window_bytes"], quic["receive_window_bytes"]) / quic["mtu_bytes"]
        threshold = (quic.get("time_threshold_permille") or TIME_THRESHOLD_PERMILLE) / 1000
        return cls(Late.along([hop.late for hop in hops]), quic["packet_threshold"], window, threshold)

    def cpu_s(self, packets: float, sending_s: float, rest_s: float, rtt_s: float) -> float:
        """Of a processor, for ``packets`` of a connection that are sent evenly in ``sending_s``: beside what they take
        in order, with those that are sent again, as far as ``rest_s`` are enough.

        What comes out of order is acknowledged at once, in place of every other packet (RFC 9000 section 13.2.1).
        """
        if not (packets and sending_s) or self.late == IN_ORDER:
            return 0.0
        rate = packets / sending_s
        spread_s, hold_s = self.late.spread_ns / 1e9, self.late.hold_ns / 1e9
        together = min(rate * spread_s, packets)
        told = _told(together)
        held = self.late.share * (1 - self.late.share)
        forgotten = rate * hold_s > REMEMBERED
        lost = min(1 - told + (held if forgotten else 0.0), MOST_LOST)
        waits = rate * (spread_s * told**2 / 2 + (0.0 if forgotten else held * hold_s))
        first_s = spread_s * (_first(together) + _first(together * told))
        stays_s = min(self.threshold * (rtt_s + first_s) - rtt_s, self.most / rate)
        if sending_s <= stays_s and packets * lost <= self.window:
            sent, looks = self._bursts(packets, waits, lost, rest_s / stays_s)
        else:
            seconds = min(sending_s / (1 - lost), rest_s)
            sent, looks = self._steadily(rate, waits, lost, stays_s, seconds)
        gaps = MOST_RANGES if lost else min(together / 6 + rate * held * hold_s, MOST_RANGES)
        acks = sent * (1 - lost)
        more = sent - packets + acks * max(1 - _first(together), held) / 2
        return looks * LOOK_S + acks * gaps * RANGE_S + max(more, 0.0) * PACKET_S

    def _bursts(self, packets: float, waits: float, lost: float, times: float) -> tuple[float, float]:
        """What is sent, and looks at it, where all is sent before the first is taken for lost: so it goes on with what
        was lost, so many ``times`` at most."""
        again = math.floor(times)
        told = packets * (1 - lost) * _powers(lost**2, again + 1)
        timed_out = packets * lost * _powers(lost**2, again)
        looks = (told + timed_out) * min(waits + packets * lost / 2, self.most)
        return packets * _powers(lost, again + 1), looks

    def _steadily(
        self, rate: float, waits: float, lost: float, stays_s: float, seconds: float
    ) -> tuple[float, float]:
        """The same where it goes on beside what is taken for lost: until the first is, ACKs alone have it look, later
        what is lost does, too. With a full window it sends as much as leaves it."""
        full = min(1.0, self.window / max(rate * lost * stays_s, 1e-9))
        grows_s, later_s = min(stays_s * full, seconds), max(seconds - stays_s, 0.0)
        at_first = min(waits + rate * lost * grows_s / 2, self.most) * rate * grows_s * (1 - lost)
        later = min(waits + rate * lost * stays_s * full, self.most) * rate * full * later_s
        return rate * (grows_s + full * later_s), at_first + later


def _told(together: float) -> float:
    """The share of ``together`` packets that overtake each other that a receiver does not take for repetitions."""
    return min(1.0, REMEMBERED / together + _first(together)) if together else 1.0


def _first(together: float) -> float:
    """How late the first of ``together`` comes, for which the others wait, in parts of the time in which they do."""
    return min(math.sqrt(math.pi / (2 * together)), 1.0) if together else 1.0


def _powers(base: float, count: int) -> float:
    """1 + base + base^2 and so on, ``count`` of them."""
    return (1 - base**count) / (1 - base)
