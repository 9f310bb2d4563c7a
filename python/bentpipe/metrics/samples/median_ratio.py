"""Ratios of two samples with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bentpipe.metrics.intervals import CONFIDENCE, RESAMPLES, ConfidenceInterval, mean_ci
from bentpipe.metrics.samples.welch import welch

SEED = 20250101
"""Seed of the resampling: equal values in equal order have the same interval."""


def mean_ratio(
    above: Sequence[float], below: Sequence[float], *, paired: bool, confidence: float = CONFIDENCE
) -> ConfidenceInterval:
    """Return the geometric mean of ``above / below`` with the interval of the mean logarithm.

    Args:
        above: positive values of the numerator.
        below: positive values of the denominator; if paired, values at the same position have the same seed.
        paired: use Student's t of the pairs' log ratios; otherwise Welch's interval of the difference of mean
            logarithms.
        confidence: level of the interval.

    Returns:
        Ratio with its interval; ``n`` is the number of pairs, or of values of the smaller sample. One value has no
        interval.

    Raises:
        ValueError: a sample is empty, a value is not above 0, or paired samples differ in length.
    """
    _check(above, below, paired=paired)
    if paired:
        found = mean_ci([math.log(a / b) for a, b in zip(above, below, strict=True)], confidence)
        ends = [None if end is None else math.exp(end) for end in (found.low, found.high)]
        return ConfidenceInterval(math.exp(found.estimate), ends[0], ends[1], found.n)
    one, two = ([math.log(value) for value in values] for values in (above, below))
    difference = math.fsum(one) / len(one) - math.fsum(two) / len(two)
    n = min(len(one), len(two))
    if n == 1:
        return ConfidenceInterval(math.exp(difference), None, None, 1)
    test = welch(one, two, confidence)
    low, high = (difference, difference) if test is None else (test.low, test.high)
    return ConfidenceInterval(math.exp(difference), math.exp(low), math.exp(high), n)


def median_ratio(
    above: Sequence[float],
    below: Sequence[float],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> ConfidenceInterval:
    """Return the median of the paired ratios ``above / below`` with its percentile bootstrap interval.

    Values at the same position have the same seed. SciPy resamples pairs with a constant seed. ``n`` of the result is
    the number of pairs; one pair has no interval.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13.

    Raises:
        ValueError: a sample is empty, a value is not above 0, or the samples differ in length.
    """
    _check(above, below, paired=True)
    import numpy
    from scipy.stats import bootstrap

    # SciPy calls this with resamples in rows and values along ``axis``.
    def statistic(a: Any, b: Any, axis: int = -1) -> Any:
        return numpy.median(a / b, axis=axis)

    one, two = numpy.asarray(above, dtype=float), numpy.asarray(below, dtype=float)
    estimate, n = float(statistic(one, two)), len(above)
    if n == 1:
        return ConfidenceInterval(estimate, None, None, 1)
    found = bootstrap(
        (one, two), statistic, paired=True, vectorized=True, method="percentile", n_resamples=resamples,
        confidence_level=confidence, batch=250, rng=numpy.random.Generator(numpy.random.PCG64(SEED)),
    )  # fmt: skip
    return ConfidenceInterval(
        estimate, float(found.confidence_interval.low), float(found.confidence_interval.high), n
    )


def _check(above: Sequence[float], below: Sequence[float], *, paired: bool) -> None:
    """Check that two samples have a ratio, else raise ValueError."""
    if not above or not below or (paired and len(above) != len(below)):
        raise ValueError(
            f"{'pairs' if paired else 'two samples'} are needed, not {len(above)} and {len(below)} values"
        )
    if min(*above, *below) <= 0:
        raise ValueError("a ratio is of values above 0")
