"""How near the two clocks have to be, and when a number may be judged at all.

Agreement is an equivalence: the data must show that the difference is small, not fail to show that it is there
(Schuirmann, J. Pharmacokinet. Biopharm. 15, 657-680, 1987). So an interval decides, not an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bentpipe.metrics.intervals import CONFIDENCE, mean_ci

__all__ = ["BOUNDS", "Bound", "Verdict", "verdict"]


class Verdict(StrEnum):
    """On one number."""

    WITHIN = "within"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"
    SHOWN = ""
    """It has no bound."""


@dataclass(frozen=True)
class Bound:
    """The largest difference: of the mean, relative, or in the number's own unit; either is enough."""

    relative: float = 0.0
    absolute: float = 0.0
    text: str = ""

    def of(self, simulated: float) -> float:
        """Return the largest difference from ``simulated``, in the number's unit."""
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
"""By metric. What has none is shown and not judged."""


def verdict(metric: str, simulated: float, differences: Sequence[float], among: int = 1) -> Verdict:
    """Judge the mean of ``differences`` (real minus simulated, one a seed) by the metric's bound.

    It is within the bound if its whole 95 % interval is, and exceeds it if the whole interval lies beyond; else, and
    for one seed, which has no interval, it is undecided. Where it is one ``among`` several numbers of a kind, their
    intervals hold together at 95 % (Bonferroni's correction).
    """
    bound = BOUNDS.get(metric)
    if bound is None or not differences:
        return Verdict.SHOWN
    found = mean_ci(differences, 1 - (1 - CONFIDENCE) / among)
    if found.low is None or found.high is None or not math.isfinite(found.low + found.high):
        return Verdict.UNDECIDED
    largest = bound.of(simulated)
    if -largest <= found.low and found.high <= largest:
        return Verdict.WITHIN
    return Verdict.EXCEEDED if found.low > largest or found.high < -largest else Verdict.UNDECIDED
