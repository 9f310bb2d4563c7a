"""Two partial orders between samples: by the medians' intervals, and by whole distributions.

Both may say that two samples cannot be compared, which is an answer: "none".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from bentpipe.stats.intervals import CONFIDENCE, Interval, median_interval, significant
from bentpipe.stats.samples.ecdf import ecdf

Smaller = Literal["first", "second", "none"]


@dataclass(frozen=True, slots=True)
class Order:
    """Which of two samples is the smaller one, and why, in words; of times, smaller is faster."""

    smaller: Smaller
    reason: str
    ahead: tuple[float, float] | None = None
    """Of dominance: the largest lead of the first distribution over the second, and of the second over the first
    (both 0 to 1; the one-sided statistics of Kolmogorov and Smirnov). One of the two is 0 where there is an order."""


def _shown(interval: Interval) -> str:
    return f"{significant(interval.low)} to {significant(interval.high)}"


def disjoint_intervals(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> Order:
    """The order P1: a sample is smaller when the interval of its median lies wholly below that of the other.

    Source: Thomas (2018), section 5.1.1; intervals by Le Boudec (2010), theorem 2.1. It is a careful test: intervals
    at 95 % that just fail to meet belong to medians that differ at well below 5 %. Raises ValueError for an empty
    sample.
    """
    one, two = median_interval(first, confidence), median_interval(second, confidence)
    if one.low is None or one.high is None or two.low is None or two.high is None:
        fewest = min(one.n, two.n)
        return Order("none", f"{fewest} values are too few for an interval at {confidence:.0%}")
    both = f"{_shown(one)} and {_shown(two)}"
    if one.high < two.low:
        return Order("first", f"the median intervals {both} are disjoint")
    if two.high < one.low:
        return Order("second", f"the median intervals {both} are disjoint")
    return Order("none", f"the median intervals {both} meet")


def stochastic_dominance(first: Sequence[float], second: Sequence[float]) -> Order:
    """First-order stochastic dominance of the empirical distributions.

    ``first`` is the smaller one when F1(t) >= F2(t) at every t and F1(t) > F2(t) at some t: at every instant at least
    as large a part of it is done. Compared exactly, as counts. It describes the samples and is no test: two samples of
    n values of one distribution are ordered by chance with probability 2 / (n + 1) (ballot theorem). Source: Thomas
    (2018), section 5.1.1, where the inequality is strict; it cannot be before the first and after the last value.
    Raises ValueError for an empty sample.
    """
    one, two = ecdf(first), ecdf(second)
    gaps = {
        t: Fraction(one.count(t), one.n) - Fraction(two.count(t), two.n)
        for t in sorted({*one.values, *two.values})
    }
    lead, trail = max(gaps, key=lambda t: gaps[t]), min(gaps, key=lambda t: gaps[t])
    most, least = max(gaps[lead], Fraction(0)), max(-gaps[trail], Fraction(0))
    ahead = (float(most), float(least))
    if not most and not least:
        return Order("none", "the two distributions are the same", ahead)
    if not least:
        return Order("first", f"ahead everywhere, by up to {_percent(most)} at {significant(lead)}", ahead)
    if not most:
        return Order("second", f"ahead everywhere, by up to {_percent(least)} at {significant(trail)}", ahead)
    crossing = (
        f"the distributions cross: the first is ahead by up to {_percent(most)} at {significant(lead)}, "
        f"the second by up to {_percent(least)} at {significant(trail)}"
    )
    return Order("none", crossing, ahead)


def _percent(part: Fraction) -> str:
    return f"{significant(100 * float(part), 3)} %"
