"""The median of ratios, with a bootstrap interval: how many times larger is one sample than the other?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bentpipe.stats.intervals import CONFIDENCE, RESAMPLES, Interval

SEED = 20250101
"""Seed of the resampling: the same values in the same order have the same interval."""


def median_ratio(
    above: Sequence[float],
    below: Sequence[float],
    *,
    paired: bool,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Interval:
    """Median of ``above / below`` with its percentile bootstrap interval (SciPy's, seeded by a constant).

    Paired, the ratios are those of values at the same place (the same seed), and pairs are drawn together; otherwise
    they are those of every value of ``above`` to every value of ``below``, and each sample is drawn by itself: that is
    the Hodges-Lehmann estimate of the shift between logarithms. ``n`` of the result is the number of pairs, or of
    values of the smaller sample; one value has no interval.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13; Hodges and Lehmann,
    Annals of Mathematical Statistics 34 (1963).
    Raises ValueError when a sample is empty or holds a value that is not above 0, or when pairs do not fit.
    """
    if not above or not below or (paired and len(above) != len(below)):
        raise ValueError(
            f"{'pairs' if paired else 'two samples'} are needed, not {len(above)} and {len(below)} values"
        )
    if min(*above, *below) <= 0:
        raise ValueError("a ratio is of values above 0")
    import numpy
    from scipy.stats import bootstrap

    # SciPy calls this with resamples in rows and values along ``axis``.
    def statistic(a: Any, b: Any, axis: int = -1) -> Any:
        if paired:
            return numpy.median(a / b, axis=axis)
        a, b = numpy.moveaxis(a, axis, -1), numpy.moveaxis(b, axis, -1)
        ratios = a[..., :, None] / b[..., None, :]
        return numpy.median(ratios.reshape(*ratios.shape[:-2], -1), axis=-1)

    one, two = numpy.asarray(above, dtype=float), numpy.asarray(below, dtype=float)
    estimate, n = float(statistic(one, two)), min(len(above), len(below))
    if n == 1:
        return Interval(estimate, None, None, 1)
    found = bootstrap(
        (one, two), statistic, paired=paired, vectorized=True, method="percentile", n_resamples=resamples,
        confidence_level=confidence, batch=250, rng=numpy.random.Generator(numpy.random.PCG64(SEED)),
    )  # fmt: skip
    return Interval(estimate, float(found.confidence_interval.low), float(found.confidence_interval.high), n)
