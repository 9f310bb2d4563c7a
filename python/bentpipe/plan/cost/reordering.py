"""Reordering of packets in a direction.

It follows from ``jitter`` and ``reorder``, whose stages are after the transmitter and its reordering buffer. It
excludes retransmissions of a link layer without such a buffer, delay traces with reordering, handovers and netem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.scenario.link.direction import Direction, Jitter

__all__ = ["IN_ORDER", "Reordering", "estimate_reordering"]


@dataclass(frozen=True, slots=True)
class Reordering:
    """Extra delay of packets relative to those that overtake them."""

    spread_ns: float = 0.0
    """Width of a uniform delay with the same standard deviation, in ns."""
    share: float = 0.0
    """Share of packets with the further delay ``hold_ns``."""
    hold_ns: float = 0.0
    """Further delay in ns."""

    @classmethod
    def combine(cls, parts: Sequence[Reordering]) -> Self:
        """Return the reordering of consecutive links."""
        spread_ns = math.sqrt(sum(part.spread_ns**2 for part in parts))
        share = 1 - math.prod(1 - part.share for part in parts)
        return cls(spread_ns, share, max((part.hold_ns for part in parts), default=0.0))


IN_ORDER = Reordering()
"""No reordering."""


def estimate_reordering(direction: Direction) -> Reordering:
    """Return the reordering of packets over ``direction``."""
    reorder, jitter = direction.reorder, direction.jitter
    spread_ns = _spread_ns(jitter) if jitter is not None and jitter.reorder else 0.0
    if reorder is None:
        return Reordering(spread_ns)
    return Reordering(spread_ns, reorder.probability.value, reorder.delay.ns)


def _spread_ns(jitter: Jitter) -> float:
    if jitter.uniform is not None:
        return float(jitter.uniform.ns)
    if jitter.exponential is not None:
        # without a maximum: the uniform delay with the same mean
        return 2.0 * jitter.exponential.ns
    if jitter.normal is None:
        return 0.0
    return math.sqrt(12) * _deviation_above_0(jitter.normal.mean.ns, jitter.normal.deviation.ns)


def _deviation_above_0(mean: float, deviation: float) -> float:
    """Return the standard deviation of ``max(X, 0)`` for a normal X."""
    if not deviation:
        return 0.0
    standardised = mean / deviation
    above = (1 + math.erf(standardised / math.sqrt(2))) / 2
    density = math.exp(-(standardised**2) / 2) / math.sqrt(2 * math.pi)
    first = mean * above + deviation * density
    second = (mean**2 + deviation**2) * above + mean * deviation * density
    return math.sqrt(max(second - first**2, 0.0))
