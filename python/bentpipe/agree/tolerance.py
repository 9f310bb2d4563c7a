"""How near the two clocks have to be, and when a number may be judged at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from bentpipe.plan.chance import Draw, drawn
from bentpipe.stats.intervals import CONFIDENCE, Interval, mean_interval

if TYPE_CHECKING:
    from bentpipe.plan.spec import RunSpec

__all__ = ["BOUNDS", "Bound", "Kind", "Verdict", "kind", "verdict"]


class Verdict(StrEnum):
    """On one number."""

    WITHIN = "within"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"
    SHOWN = ""
    """It has no bound."""


class Kind(StrEnum):
    """What a difference may come from."""

    SINGLE = "single"
    """One flow over a path without chance."""
    CHANCE = "chance"
    """The path draws, so that not the same packets are lost or late on both clocks; or flows compete."""


@dataclass(frozen=True)
class Bound:
    """The largest difference: of the mean, relative, or in the number's own unit; either is enough."""

    relative: float = 0.0
    absolute: float = 0.0
    text: str = ""

    def holds(self, simulated: float, difference: float) -> bool:
        """Whether ``difference`` from ``simulated`` is small enough."""
        return abs(difference) <= max(self.relative * abs(simulated), self.absolute)


BOUNDS: dict[str, Bound] = {
    "goodput_bit_s": Bound(relative=0.05, text="5 %"),
    "goodput_sum_bit_s": Bound(relative=0.05, text="5 %"),
    "share_percent": Bound(relative=0.05, text="5 %"),
    "delivered_bundles": Bound(relative=0.03, text="3 %"),
    "ttr_s": Bound(absolute=0.025, text="25 ms"),
    "plt_s": Bound(relative=0.03, absolute=0.05, text="3 % or 50 ms"),
    "decoded_ratio": Bound(absolute=0.01, text="1 point"),
    "rating": Bound(absolute=1.0, text="1"),
    "mos": Bound(absolute=0.05, text="0.05"),
}
"""By metric. What has none is shown and not judged."""


def kind(spec: RunSpec) -> Kind:
    """What a difference in this resolved run may come from."""
    return Kind.CHANCE if len(spec["flows"]) > 1 or Draw.PATH in drawn(spec) else Kind.SINGLE


def verdict(
    metric: str, which: Kind, simulated: float, differences: Sequence[float], among: int = 1
) -> Verdict:
    """Whether the mean of ``differences`` (real minus simulated, one a seed) is within the metric's bound.

    Without chance, the bound is on the mean. With it, a difference that the seeds cannot tell from none is within too:
    one whose 95 % interval holds 0. One seed has no interval, so beyond the bound it is undecided. Where it is one
    ``among`` several numbers of a kind, these have 95 % intervals together (Bonferroni's): of ten users alike on both
    clocks, every second comparison would else find one that is not.
    """
    bound = BOUNDS.get(metric)
    if bound is None or not differences:
        return Verdict.SHOWN
    found: Interval = mean_interval(differences, 1 - (1 - CONFIDENCE) / among)
    if bound.holds(simulated, found.estimate):
        return Verdict.WITHIN
    if which is Kind.SINGLE:
        return Verdict.EXCEEDED
    if found.low is None or found.high is None or math.isnan(found.low):
        return Verdict.UNDECIDED
    return Verdict.WITHIN if found.low <= 0 <= found.high else Verdict.EXCEEDED
