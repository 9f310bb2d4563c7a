"""Largest differences between simulation and emulation, and the equivalence test of a metric.

Agreement is an equivalence: the data must show that the difference is small. A test that does not find a difference is
not enough (Schuirmann, J. Pharmacokinet. Biopharm. 15, 657-680, 1987). Therefore the interval decides, not the
estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bentpipe.metrics.intervals import CONFIDENCE, mean_ci

__all__ = ["BOUNDS", "Bound", "Verdict", "verdict"]


class Verdict(StrEnum):
    """Verdict on one metric."""

    WITHIN = "within"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"
    SHOWN = ""
    """The metric has no bound."""


@dataclass(frozen=True)
class Bound:
    """Largest difference, relative to the mean or in the unit of the metric; the larger one applies."""

    relative: float = 0.0
    absolute: float = 0.0
    text: str = ""

    def of(self, simulated: float) -> float:
        """Return the largest difference from ``simulated``, in the unit of the metric."""
        return max(self.relative * abs(simulated), self.absolute)


BOUNDS: dict[str, Bound] = {
    "goodput_bit_s": Bound(relative=0.05, text="5 %"),
    "goodput_sum_bit_s": Bound(relative=0.05, text="5 %"),
    "share_percent": Bound(relative=0.05, text="5 %"),
    "delivered_bundles": Bound(relative=0.03, text="3 %"),
    "ttr_s": Bound(absolute=0.025, text="25 ms"),
    "loads_finished": Bound(text="none"),
    "plt_s": Bound(relative=0.03, absolute=0.05, text="3 % or 50 ms"),
    "decoded_ratio": Bound(absolute=0.01, text="1 point"),
    "rating": Bound(absolute=1.0, text="1"),
    "mos": Bound(absolute=0.05, text="0.05"),
}
"""Bounds by metric. Metrics without a bound are shown without a verdict."""


def verdict(metric: str, simulated: float, differences: Sequence[float], among: int = 1) -> Verdict:
    """Compare the mean difference with the bound of the metric.

    The mean is within the bound if its whole 95 % interval is, and exceeds it if the whole interval is outside.
    Otherwise, and for a single seed, which has no interval, it is undecided.

    Args:
        metric: name of the metric.
        simulated: mean of the simulated values.
        differences: real minus simulated, one for each seed.
        among: number of metrics of the same kind that are tested together; their intervals hold simultaneously at
            95 % (Bonferroni correction).
    """
    bound = BOUNDS.get(metric)
    if bound is None or not differences:
        return Verdict.SHOWN
    interval = mean_ci(differences, 1 - (1 - CONFIDENCE) / among)
    if interval.low is None or interval.high is None or not math.isfinite(interval.low + interval.high):
        return Verdict.UNDECIDED
    limit = bound.of(simulated)
    if -limit <= interval.low and interval.high <= limit:
        return Verdict.WITHIN
    return Verdict.EXCEEDED if interval.low > limit or interval.high < -limit else Verdict.UNDECIDED
