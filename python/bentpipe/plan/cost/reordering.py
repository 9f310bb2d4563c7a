"""How packets of a direction overtake each other.

By ``jitter`` and ``reorder``, whose stages are behind the transmitter and its reordering buffer. Not counted are the
repetitions of a link layer without such a buffer, delay traces that let packets overtake each other, hand-overs, and
netem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.scenario.link.direction import Direction, Jitter

__all__ = ["IN_ORDER", "Late", "late"]


@dataclass(frozen=True, slots=True)
class Late:
    """By how much packets are later than those that overtake them."""

    spread_ns: float = 0.0
    """Width of a uniform delay that deviates as much as theirs."""
    share: float = 0.0
    hold_ns: float = 0.0
    """The share that is held back besides, and for how long."""

    @classmethod
    def along(cls, ways: Sequence[Late]) -> Self:
        """On one way after the other."""
        spread_ns = math.sqrt(sum(one.spread_ns**2 for one in ways))
        share = 1 - math.prod(1 - one.share for one in ways)
        return cls(spread_ns, share, max((one.hold_ns for one in ways), default=0.0))


IN_ORDER = Late()


def late(direction: Direction) -> Late:
    """Of what crosses ``direction``."""
    reorder, jitter = direction.reorder, direction.jitter
    spread_ns = _spread_ns(jitter) if jitter is not None and jitter.reorder else 0.0
    if reorder is None:
        return Late(spread_ns)
    return Late(spread_ns, reorder.probability.value, reorder.hold.ns)


def _spread_ns(jitter: Jitter) -> float:
    if jitter.uniform is not None:
        return float(jitter.uniform.ns)
    if jitter.exponential is not None:
        # There is no latest: the uniform delay with its mean.
        return 2.0 * jitter.exponential.ns
    if jitter.normal is None:
        return 0.0
    return math.sqrt(12) * _deviation_above_0(jitter.normal.mean.ns, jitter.normal.deviation.ns)


def _deviation_above_0(mean: float, deviation: float) -> float:
    """Standard deviation of ``max(X, 0)`` for a normal X."""
    if not deviation:
        return 0.0
    least = mean / deviation
    above = (1 + math.erf(least / math.sqrt(2))) / 2
    density = math.exp(-(least**2) / 2) / math.sqrt(2 * math.pi)
    first = mean * above + deviation * density
    second = (mean**2 + deviation**2) * above + mean * deviation * density
    return math.sqrt(max(second - first**2, 0.0))
