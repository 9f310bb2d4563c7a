"""Processor time of a QUIC sender for reordered packets: each loss detection scans the unacknowledged packets.

The sender scans with every ACK, and whenever the time threshold of RFC 9002 section 6.1.2 has passed for a packet. With
the packet threshold of section 6.1.1 a scan covers at most 3 packets; a scenario can raise it to thousands.

Let n packets be sent in the time W of the uniform spread of their delays. The highest received number was sent
W sqrt(pi / (2 n)) ago (the minimum of the delays, by their hazard). The receiver treats a packet as a duplicate if its
number is 129 or more below the highest. Therefore the share (129 + sqrt(pi n / 2)) / n is acknowledged, if that is
below 1. The other packets stay until they are declared lost and are retransmitted. They leave permanent gaps, so that
every ACK has its largest number of ranges; without them n / 6 gaps are open at a time. A sender whose window is full
of such packets waits, as does one without further data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from bentpipe.plan.cost.reordering import IN_ORDER, Reordering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.spec.run_spec import QuicSpec

__all__ = ["LossDetectionCost"]

SCAN_S = 3e-9
"""Processor time in seconds to scan one packet (``python -m benchmarks simulator``).

With the constants below, estimates were 0.4 to 1.7 times the measured time. The runs took 2 to 10 s at 80 of 100
Mbit/s, with jitter of each distribution of 18 to 200 ms, delayed packets, and time thresholds of 9/8 to 1000;
``tests/python/test_price.py`` has five of them.
"""

RANGE_S = 10e-9
"""Processor time in seconds of a range of an ACK at both ends."""

PACKET_S = 1.6e-6
"""Processor time in seconds of a packet."""

MOST_RANGES = 64
"""Largest number of ranges of an ACK: MAX_ACK_BLOCKS of quinn-proto."""

DUPLICATE_WINDOW = 129
"""Window of packet numbers for the detection of duplicates: Dedup of quinn-proto."""

MOST_LOST = 0.99
"""Largest share of lost packets, so that the number of retransmissions is finite."""

TIME_THRESHOLD_PERMILLE = 1125
"""Default time threshold (RFC 9002 section 6.1.2)."""


@dataclass(frozen=True, slots=True)
class LossDetectionCost:
    """Reordering of the packets of a QUIC sender, and its thresholds of loss detection."""

    reordering: Reordering
    packet_threshold: float
    """Packet threshold."""
    window: float
    """Largest number of unacknowledged packets."""
    time_threshold: float
    """Time threshold in round-trip times."""

    @classmethod
    def from_hops(cls, hops: Sequence[Hop], quic: QuicSpec) -> Self:
        """Return the cost model of a QUIC sender over ``hops``."""
        window = min(quic["send_window_bytes"], quic["receive_window_bytes"]) / quic["mtu_bytes"]
        time_threshold = (quic.get("time_threshold_permille") or TIME_THRESHOLD_PERMILLE) / 1000
        reordering = Reordering.combine([hop.late for hop in hops])
        return cls(reordering, quic["packet_threshold"], window, time_threshold)

    def cpu_s(self, packets: float, sending_s: float, rest_s: float, rtt_s: float) -> float:
        """Return the further processor time of a connection in seconds, relative to packets in order.

        A packet out of order is acknowledged immediately, instead of every second packet (RFC 9000 section 13.2.1).

        Args:
            packets: the packets of the connection, sent evenly.
            sending_s: the time in which they are sent, without retransmissions.
            rest_s: the time to the end of the run, which limits retransmissions.
            rtt_s: the round-trip time.
        """
        if not (packets and sending_s) or self.reordering == IN_ORDER:
            return 0.0
        rate = packets / sending_s
        spread_s, hold_s = self.reordering.spread_ns / 1e9, self.reordering.hold_ns / 1e9
        concurrent = min(rate * spread_s, packets)
        accepted = _accepted_share(concurrent)
        delayed = self.reordering.share * (1 - self.reordering.share)
        are_duplicates = rate * hold_s > DUPLICATE_WINDOW
        lost = min(1 - accepted + (delayed if are_duplicates else 0.0), MOST_LOST)
        waiting = rate * (spread_s * accepted**2 / 2 + (0.0 if are_duplicates else delayed * hold_s))
        first_s = spread_s * (_first_delay(concurrent) + _first_delay(concurrent * accepted))
        until_lost_s = min(self.time_threshold * (rtt_s + first_s) - rtt_s, self.packet_threshold / rate)
        if sending_s <= until_lost_s and packets * lost <= self.window:
            sent, scans = self._burst(packets, waiting, lost, rest_s / until_lost_s)
        else:
            seconds = min(sending_s / (1 - lost), rest_s)
            sent, scans = self._steady_state(rate, waiting, lost, until_lost_s, seconds)
        gaps = MOST_RANGES if lost else min(concurrent / 6 + rate * delayed * hold_s, MOST_RANGES)
        acks = sent * (1 - lost)
        extra_packets = sent - packets + acks * max(1 - _first_delay(concurrent), delayed) / 2
        return scans * SCAN_S + acks * gaps * RANGE_S + max(extra_packets, 0.0) * PACKET_S

    def _burst(self, packets: float, waiting: float, lost: float, rounds: float) -> tuple[float, float]:
        """Return sent packets and scans if all packets are sent before the first is declared lost.

        The sender then retransmits the lost packets, at most ``rounds`` times.
        """
        retransmissions = math.floor(rounds)
        acknowledged = packets * (1 - lost) * _geometric_sum(lost**2, retransmissions + 1)
        timed_out = packets * lost * _geometric_sum(lost**2, retransmissions)
        scans = (acknowledged + timed_out) * min(waiting + packets * lost / 2, self.packet_threshold)
        return packets * _geometric_sum(lost, retransmissions + 1), scans

    def _steady_state(
        self, rate: float, waiting: float, lost: float, until_lost_s: float, seconds: float
    ) -> tuple[float, float]:
        """Return sent packets and scans if new data and retransmissions are sent together.

        Before the first packet is declared lost, only ACKs cause scans; afterwards losses do as well. With a full
        window the sender sends as much as leaves the window.
        """
        window_share = min(1.0, self.window / max(rate * lost * until_lost_s, 1e-9))
        growth_s, later_s = min(until_lost_s * window_share, seconds), max(seconds - until_lost_s, 0.0)
        first_scans = (
            min(waiting + rate * lost * growth_s / 2, self.packet_threshold) * rate * growth_s * (1 - lost)
        )
        later_scans = (
            min(waiting + rate * lost * until_lost_s * window_share, self.packet_threshold)
            * rate
            * window_share
            * later_s
        )
        return rate * (growth_s + window_share * later_s), first_scans + later_scans


def _accepted_share(concurrent: float) -> float:
    """Return the share of ``concurrent`` reordered packets that a receiver does not treat as duplicates."""
    return min(1.0, DUPLICATE_WINDOW / concurrent + _first_delay(concurrent)) if concurrent else 1.0


def _first_delay(concurrent: float) -> float:
    """Return the delay of the first of ``concurrent`` packets, relative to the spread of their delays."""
    return min(math.sqrt(math.pi / (2 * concurrent)), 1.0) if concurrent else 1.0


def _geometric_sum(base: float, count: int) -> float:
    """Return 1 + base + base^2 + ..., with ``count`` terms."""
    return (1 - base**count) / (1 - base)
