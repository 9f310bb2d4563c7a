"""Reconfiguration intervals for formats without random numbers: a few, drawn once, that repeat.

The draws are stratified: a table of quantiles has one value in each of :data:`COUNT` parts of equal probability, in a
fixed random order. Their mean is therefore close to the mean of the table.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.preset_export.quantiles import quantile

if TYPE_CHECKING:
    from bentpipe.preset_export.access import AccessDirection

__all__ = ["COUNT", "DrawnInterval", "draw_intervals"]

COUNT = 12
"""Intervals of a schedule or of a trace."""


@dataclass(frozen=True)
class DrawnInterval:
    """Values of one interval; ``None``: the intervals do not change this quantity."""

    rate_bit_s: int | None
    delay_ns: int | None
    loss: float | None
    burst_ns: int
    """Duration of the burst of losses at its start, ns; 0: none."""


def draw_intervals(direction: AccessDirection, side: str) -> list[DrawnInterval]:
    """Return the intervals of one direction; empty without reconfiguration intervals.

    As in the model, both directions share the ranks of the delay and the bursts, and have their own rates and losses.

    Args:
        direction: the direction.
        side: its name, ``down`` or ``up``.
    """
    intervals = direction.intervals
    if intervals is None:
        return []
    delay_ranks, rate_ranks, loss_ranks = _ranks("delay"), _ranks(f"rate {side}"), _ranks(f"loss {side}")
    jitter_ns = quantile(intervals.jitter_ns, 0.5) if intervals.jitter_ns else 0
    bursts = _bursts(intervals.burst_probability, intervals.burst_ns)
    return [
        DrawnInterval(
            round(quantile(intervals.rate_bit_s, rate_ranks[index])) if intervals.rate_bit_s else None,
            round(quantile(intervals.delay_ns, delay_ranks[index]) + jitter_ns)
            if intervals.delay_ns
            else None,
            quantile(intervals.loss, loss_ranks[index]) if intervals.loss else None,
            bursts.get(index, 0),
        )
        for index in range(COUNT)
    ]


def _ranks(purpose: str) -> list[float]:
    """Return a probability in each of the parts, in the order of the intervals."""
    # Python guarantees the sequence of random() for a seed, but not that of shuffle().
    draws = random.Random(purpose)  # noqa: S311
    keys = [draws.random() for _ in range(COUNT)]
    order = sorted(range(COUNT), key=keys.__getitem__)
    ranks = [0.0] * COUNT
    for place, index in enumerate(order):
        ranks[index] = (place + 0.5) / COUNT
    return ranks


def _bursts(probability: float, durations_ns: Sequence[int]) -> dict[int, int]:
    """Return the durations of bursts by interval. The first interval has none, as that of a run."""
    number = min(round(probability * COUNT), COUNT - 1)
    ranks = _ranks("burst")
    later = sorted(range(1, COUNT), key=ranks.__getitem__)[:number]
    return {index: round(quantile(durations_ns, (place + 0.5) / number)) for place, index in enumerate(later)}
