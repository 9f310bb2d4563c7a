"""Welch's t-test: do two samples with variances of their own have the same mean?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.metrics.intervals import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Welch:
    """``p`` is two-sided; ``difference`` is the first mean less the second, with its interval, in the values' unit."""

    t: float
    degrees: float
    p: float
    difference: float
    low: float
    high: float


def welch(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> Welch | None:
    """The test of equal means (Welch, Biometrika 34, 1947), by SciPy.

    It assumes independent values and means that are about Gaussian, which a few dozen values give unless the
    distribution is very skewed. ``None`` where there is no test: under two values, or no spread in either sample.
    """
    if len(first) < 2 or len(second) < 2 or (len(set(first)) == 1 and len(set(second)) == 1):
        return None
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():  # a sample without spread beside one with spread is in order
        warnings.filterwarnings("ignore", message="Precision loss occurred", category=RuntimeWarning)
        found = ttest_ind(list(first), list(second), equal_var=False)
    interval = found.confidence_interval(confidence)
    return Welch(
        t=float(found.statistic),
        degrees=float(found.df),
        p=float(found.pvalue),
        difference=float((interval.low + interval.high) / 2),
        low=float(interval.low),
        high=float(interval.high),
    )
