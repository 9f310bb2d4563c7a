"""Empirical distribution function (ECDF)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Ecdf:
    """Step function: ``counts[i]`` of ``n`` values are at most ``values[i]``; ``values`` are distinct and ascending."""

    values: tuple[float, ...]
    counts: tuple[int, ...]
    n: int

    def count(self, x: float) -> int:
        """Return the number of values that are at most ``x``."""
        place = bisect_right(self.values, x)
        return self.counts[place - 1] if place else 0

    def __call__(self, x: float) -> float:
        """Return the share of values that are at most ``x``, from 0 to 1."""
        return self.count(x) / self.n


def ecdf(values: Sequence[float]) -> Ecdf:
    """Return the empirical distribution of ``values``.

    Raises:
        ValueError: ``values`` is empty.
    """
    if not values:
        raise ValueError("the distribution of no values")
    distinct, counts, total = [], [], 0
    for value, group in groupby(sorted(values)):
        total += sum(1 for _ in group)
        distinct.append(value)
        counts.append(total)
    return Ecdf(tuple(distinct), tuple(counts), total)
