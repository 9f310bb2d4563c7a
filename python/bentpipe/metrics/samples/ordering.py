"""Order of two samples: by the interval of their ratio, the medians' intervals, and the distributions.

Each result may be "none": the samples have no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bentpipe.metrics.intervals import CONFIDENCE, ConfidenceInterval, format_significant, median_ci
from bentpipe.metrics.samples.ecdf import ecdf
from bentpipe.metrics.samples.median_ratio import mean_ratio

Smaller = Literal["first", "second", "none"]


@dataclass(frozen=True, slots=True)
class Order:
    """Smaller one of two samples, with the reason as text; a smaller time is faster."""

    smaller: Smaller
    reason: str
    ahead: tuple[float, float] | None = None
    """Largest lead of the first distribution over the second, and of the second over the first; only of dominance.

    Both are 0 to 1, the one-sided statistics of Kolmogorov and Smirnov. With an order, one of the two is 0.
    """


def _format_bounds(interval: ConfidenceInterval) -> str:
    return f"{format_significant(interval.low)} to {format_significant(interval.high)}"


def disjoint_intervals(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> Order:
    """Return the order P1: a sample is smaller if the interval of its median is entirely below that of the other.

    Source: Thomas (2018), section 5.1.1; intervals by Le Boudec (2010), theorem 2.1. It is a conservative test: medians
    whose 95 % intervals nearly meet differ at well below 5 %.

    Raises:
        ValueError: a sample is empty.
    """
    one, two = median_ci(first, confidence), median_ci(second, confidence)
    if one.low is None or one.high is None or two.low is None or two.high is None:
        fewest = min(one.n, two.n)
        return Order("none", f"{fewest} values are too few for an interval at {confidence:.0%}")
    both = f"{_format_bounds(one)} and {_format_bounds(two)}"
    if one.high < two.low:
        return Order("first", f"the median intervals {both} are disjoint")
    if two.high < one.low:
        return Order("second", f"the median intervals {both} are disjoint")
    return Order("none", f"the median intervals {both} meet")


def stochastic_dominance(first: Sequence[float], second: Sequence[float]) -> Order:
    """Return the first-order stochastic dominance of the empirical distributions.

    ``first`` is the smaller one if F1(t) >= F2(t) at every t and F1(t) > F2(t) at some t. Then at least as large a
    share of it has finished at every instant. The comparison is exact, by counts. It describes the samples and is not a
    test. Two samples of n values of one distribution are ordered by chance with probability 2 / (n + 1) (ballot
    theorem).
    Source: Thomas (2018), section 5.1.1, where the inequality is strict; it cannot hold before the first and after the
    last value.

    Raises:
        ValueError: a sample is empty.
    """
    one, two = ecdf(first), ecdf(second)
    # In units of 1 / (n1 n2), so that integers are compared.
    gaps = {t: one.count(t) * two.n - two.count(t) * one.n for t in sorted({*one.values, *two.values})}
    lead, trail = max(gaps, key=lambda t: gaps[t]), min(gaps, key=lambda t: gaps[t])
    whole = one.n * two.n
    most, least = max(gaps[lead], 0) / whole, max(-gaps[trail], 0) / whole
    ahead = (most, least)
    if not most and not least:
        return Order("none", "the two distributions are the same", ahead)
    if not least:
        return Order(
            "first", f"ahead everywhere, by up to {_percent(most)} at {format_significant(lead)}", ahead
        )
    if not most:
        return Order(
            "second", f"ahead everywhere, by up to {_percent(least)} at {format_significant(trail)}", ahead
        )
    crossing = (
        f"the distributions cross: the first is ahead by up to {_percent(most)} at {format_significant(lead)}, "
        f"the second by up to {_percent(least)} at {format_significant(trail)}"
    )
    return Order("none", crossing, ahead)


def _percent(part: float) -> str:
    return f"{format_significant(100 * part, 3)} %"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two samples of times: their ratio and the faster sample."""

    ratio: ConfidenceInterval | None
    """First over second (:func:`bentpipe.metrics.samples.mean_ratio`); None where a value is not above 0."""
    smaller: Smaller
    by: tuple[str, ...]
    """Names of the orders that agree with ``smaller``."""
    reason: str
    unfinished: bool = False
    """Whether the test's result is discarded, because the faster sample has a smaller share of finished loads."""


def compare_times(
    first: Sequence[float],
    second: Sequence[float],
    *,
    paired: bool,
    finished: tuple[float, float] = (1.0, 1.0),
) -> Comparison:
    """Determine the faster one of two samples of times by a test.

    The interval of the ratio or those of the medians (:func:`disjoint_intervals`) determine it; dominance is not a test
    and is only reported. It is "none" if the two tests disagree. It is also "none" if the faster sample has a smaller
    share of finished loads, because the slowest ones are missing then.

    Args:
        first: times, independent within the sample.
        second: times of the other sample.
        paired: values at the same position have the same seed.
        finished: share of loads with a time, of each sample.

    Raises:
        ValueError: a sample is empty, or paired samples differ in length.
    """
    ratio = mean_ratio(first, second, paired=paired) if min(*first, *second) > 0 else None
    orders = {
        "ratio": _by_ratio(ratio),
        "intervals (P1)": disjoint_intervals(first, second),
        "dominance": stochastic_dominance(first, second),
    }
    reason = "; ".join(f"{name}: {order.reason}" for name, order in orders.items())
    tests = {orders[name].smaller for name in ("ratio", "intervals (P1)")} - {"none"}
    smaller: Smaller = tests.pop() if len(tests) == 1 else "none"
    unfinished = smaller != "none" and finished[smaller == "second"] < finished[smaller == "first"]
    if unfinished:
        shares = " and ".join(_percent(share) for share in finished)
        smaller, reason = "none", f"of the loads {shares} finished; {reason}"
    by = tuple(name for name, order in orders.items() if order.smaller == smaller != "none")
    return Comparison(ratio, smaller, by, reason, unfinished)


def _by_ratio(ratio: ConfidenceInterval | None) -> Order:
    if ratio is None or ratio.low is None or ratio.high is None:
        return Order("none", "no interval can be had")
    if abs(ratio.estimate - 1) < EQUAL_TIMES or ratio.low <= 1 <= ratio.high:
        return Order("none", f"its interval {_format_bounds(ratio)} holds 1")
    return Order(
        "first" if ratio.high < 1 else "second", f"its interval {_format_bounds(ratio)} does not hold 1"
    )


EQUAL_TIMES = 1e-9
"""Largest relative difference of equal times; the engine's clock has a resolution of nanoseconds."""
