"""Statistics of a notched box plot: extremes, quartiles, median and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from bentpipe.metrics.intervals import CONFIDENCE, median_ci


@dataclass(frozen=True, slots=True)
class NotchedBox:
    """Five-number summary of ``n`` values and the median's interval, in the unit of the values.

    ``notch_low`` and ``notch_high`` are ``None`` with too few values for an interval (below 6 at 95 %). The notch can
    exceed the box, because the interval of a small sample's median may be wider than its interquartile range.
    """

    n: int
    low: float
    quartile_1: float
    median: float
    quartile_3: float
    high: float
    notch_low: float | None
    notch_high: float | None


def notched_box(values: Sequence[float], confidence: float = CONFIDENCE) -> NotchedBox:
    """Return the notched box of ``values``.

    Whiskers end at the extremes, so no value is hidden as an outlier. Quartiles are interpolated linearly between order
    statistics at (n - 1) p (definition 7 of Hyndman and Fan, The American Statistician 50(4), 1996). The notch is the
    interval by order statistics (Le Boudec 2010, theorem 2.1). The notch of McGill, Tukey and Larsen (1978), 1.57 IQR /
    sqrt(n), assumes that the middle of the distribution is Gaussian.

    Raises:
        ValueError: ``values`` is empty.
    """
    middle = median_ci(values, confidence)
    if len(values) == 1:
        first = third = middle.estimate
    else:
        first, _, third = quantiles(values, n=4, method="inclusive")
    return NotchedBox(
        len(values), min(values), first, middle.estimate, third, max(values), middle.low, middle.high
    )
