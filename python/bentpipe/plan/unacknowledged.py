"""What overtaking costs a QUIC sender: every ACK tells of ranges, and has it look at all that they leave out.

These are the packets below the largest that are neither acknowledged nor lost. With the packet threshold of RFC 9002
section 6.1.1 there are 3. Where a scenario raises it they can be thousands: an ACK of the stack tells of its 64 highest
ranges, and what arrives below them is never acknowledged and stays until the time threshold takes it for lost (section
6.1.2).

Of n packets that are sent in the time W by which they overtake each other, drawn uniformly, the share x (1 - x) begins
a range at the age x W, so that n (x^2 / 2 - x^3 / 3) ranges are younger than that, and n / 6 in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.graph import Hop
    from bentpipe.plan.spec import QuicSpec

__all__ = ["Overtaking"]

LOOK_S = 4.5e-9
RANGE_S = 80e-9
"""Of a processor: to look at one packet, and for a range from one end to the other. Runs of 12 s at 80 Mbit/s and
600 ms, with uniform jitter of 10 to 300 ms and time thresholds of 9/8 to 9, took 0.6 to 2 times what these give."""

MOST_RANGES = 64
"""Of an ACK: quinn-proto's MAX_ACK_BLOCKS."""

TIME_THRESHOLD_PERMILLE = 1125
"""RFC 9002 section 6.1.2."""


@dataclass(frozen=True, slots=True)
class Overtaking:
    """How packets of a QUIC sender overtake each other, and when it takes one for lost."""

    widest_s: float
    """By which the latest is later than the quickest."""
    most: int
    """The packet threshold."""
    threshold: float
    """The time threshold, in round trips."""

    @classmethod
    def on(cls, hops: Sequence[Hop], quic: QuicSpec) -> Self:
        """Of what crosses ``hops``."""
        threshold = (quic.get("time_threshold_permille") or TIME_THRESHOLD_PERMILLE) / 1000
        return cls(2 * sum(hop.overtaken_ns for hop in hops) / 1e9, quic["packet_threshold"], threshold)

    def cpu_s(self, packets: float, seconds: float, rtt_s: float) -> float:
        """Of a processor, for ``packets`` sent evenly in ``seconds``.

        Each is acknowledged at once, being out of order (RFC 9000 section 13.2.1).
        """
        if not (self.widest_s and seconds):
            return 0.0
        rate = packets / seconds
        stays_s = min((self.threshold - 1) * rtt_s, seconds)
        acknowledged = min(_told(rate * self.widest_s), stays_s / self.widest_s)
        others_s = stays_s * (1 - stays_s / (2 * seconds))  # which takes stays_s to come to
        mean_s = self.widest_s * acknowledged**2 / 2 + (1 - acknowledged) * others_s
        ranges = min(rate * self.widest_s / 6, MOST_RANGES, self.most)
        return float(packets * (min(rate * mean_s, self.most) * LOOK_S + ranges * RANGE_S))


def _told(count: float) -> float:
    """The share of ``count`` packets that overtake each other that arrives in one of an ACK's ranges."""
    if count <= 6 * MOST_RANGES:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        age = (low + high) / 2
        younger = count * (age**2 / 2 - age**3 / 3)
        low, high = (age, high) if younger < MOST_RANGES else (low, age)
    return low
