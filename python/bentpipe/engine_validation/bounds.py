"""Largest differences between simulation and emulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.metrics.compare import Equivalence, equivalence

__all__ = ["BOUNDS", "Bound", "verdict"]


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


def verdict(metric: str, simulated: float, differences: Sequence[float], tests: int = 1) -> Equivalence:
    """Return whether the mean of ``differences`` is within the bound of the metric.

    Args:
        metric: name of the metric.
        simulated: mean of the simulated values.
        differences: real minus simulated, one for each seed.
        tests: number of metrics of one kind that are tested together.
    """
    bound = BOUNDS.get(metric)
    if bound is None or not differences:
        return Equivalence.UNBOUNDED
    return equivalence(differences, bound.of(simulated), tests)
