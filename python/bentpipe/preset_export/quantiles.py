"""Distributions as tables of quantiles, for equally spaced probabilities from 0 to 1, linear between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["mean_quantile", "median_sum", "quantile"]

STEPS = 200
"""Values of each distribution for the median of a sum."""


def quantile(table: Sequence[float], probability: float) -> float:
    """Return a quantile of a table, linear between its values."""
    position = probability * (len(table) - 1)
    below = min(int(position), len(table) - 1)
    above = min(below + 1, len(table) - 1)
    return table[below] + (position - below) * (table[above] - table[below])


def mean_quantile(table: Sequence[float]) -> float:
    """Return the mean of the distribution of a table of quantiles."""
    if len(table) < 2:
        return float(table[0]) if table else 0.0
    return sum((low + high) / 2 for low, high in pairwise(table)) / (len(table) - 1)


def median_sum(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the median of the sum of two independent quantities. It is not the sum of the medians."""
    ranks = [(step + 0.5) / STEPS for step in range(STEPS)]
    others = [quantile(other, rank) for rank in ranks]
    sums = sorted(quantile(one, rank) + added for rank in ranks for added in others)
    return (sums[len(sums) // 2 - 1] + sums[len(sums) // 2]) / 2
