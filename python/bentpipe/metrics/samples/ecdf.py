"""The empirical distribution function: which part of a sample is at most x."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Ecdf:
    """A step function: ``counts[i]`` of ``n`` values are at most ``values[i]``; ``values`` are distinct and rise."""

    values: tuple[float, ...]
    counts: tuple[int, ...]
    n: int

    def count(self, x: float) -> int:
        """How many values are at most ``x``."""
        place = bisect_right(self.values, x)
        return self.counts[place - 1] if place else 0

    def __call__(self, x: float) -> float:
        """The part of the values that are at most ``x``, from 0 to 1."""
        return self.count(x) / self.n


def ecdf(values: Sequence[float]) -> Ecdf:
    """The empirical distribution of ``values``. Raises ValueError when there are none."""
    if not values:
        raise ValueError("the distribution of no values")
    distinct, counts, total = [], [], 0
    for value, group in groupby(sorted(values)):
        total += sum(1 for _ in group)
        distinct.append(value)
        counts.append(total)
    return Ecdf(tuple(distinct), tuple(counts), total)
