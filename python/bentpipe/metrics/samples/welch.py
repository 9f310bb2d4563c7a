"""Welch's t-test of equal means of two samples with different variances."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.metrics.intervals import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Welch:
    """Result of Welch's test: two-sided ``p``; ``difference`` is first minus second mean, with its interval."""

    t: float
    degrees: float
    p: float
    difference: float
    low: float
    high: float


def welch(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> Welch | None:
    """Test for equal means (Welch, Biometrika 34, 1947), by SciPy.

    It assumes independent values and approximately Gaussian means, which a few dozen values give unless the
    distribution is very skewed. The result is ``None`` with fewer than two values in a sample, or without spread in
    both.
    """
    if len(first) < 2 or len(second) < 2 or (len(set(first)) == 1 and len(set(second)) == 1):
        return None
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():  # one sample without spread is valid
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
