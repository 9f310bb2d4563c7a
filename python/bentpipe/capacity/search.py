"""Search for the largest number of users for whom a criterion holds, seed by seed.

The search assumes that a further user never helps the others. For each seed it doubles its step until the criterion
changes, and then bisects. All seeds run at the same time, and a finished run is never repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from bentpipe.capacity.quality import Quality
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci

if TYPE_CHECKING:
    from bentpipe.capacity.config import CapacityConfig
    from bentpipe.capacity.estimate import Estimate

__all__ = ["Capacity", "Evaluation", "Probe", "find_limits"]

FIRST_STEP = 4
"""First step of the search, in numbers of users that it may run."""


@dataclass(frozen=True, order=True)
class Probe:
    """Number of users and seed to evaluate."""

    index: int
    """Place in the numbers of users that the search may run."""
    seed: int


@dataclass(frozen=True)
class Evaluation:
    """Run of the search with the quality of its users."""

    users: int
    counts: Mapping[str, int]
    """Number of users by kind."""
    seed: int
    quality: Quality
    failed: tuple[str, ...]
    """Parts of the criterion that do not hold."""


@dataclass(frozen=True)
class Capacity:
    """Result of a search."""

    config: CapacityConfig
    evaluations: tuple[Evaluation, ...]
    """By number of users, then by seed."""
    limits: Mapping[int, int]
    """Largest number of users for whom the criterion holds, by seed; 0 if it holds for none."""
    smallest: int
    """Smallest number of users of the search."""
    largest: int
    """Largest number of users of the search."""
    estimate: Estimate
    engine: str

    @cached_property
    def interval(self) -> ConfidenceInterval:
        """Mean of the limits with Student's interval over seeds."""
        return mean_ci([float(limit) for limit in self.limits.values()])

    @property
    def is_none(self) -> bool:
        """Whether the criterion holds for no number of users."""
        return not any(self.limits.values())

    @property
    def is_bounded_by_search(self) -> bool:
        """Whether the criterion holds for the largest number of users with some seed."""
        return self.largest in self.limits.values()

    def failed_at_limit(self, part: str) -> int:
        """Return the number of seeds in which ``part`` of the criterion fails just above the limit."""
        firsts = (
            next((one for one in self.evaluations if one.seed == seed and one.users > limit), None)
            for seed, limit in self.limits.items()
        )
        return sum(part in first.failed for first in firsts if first is not None)


def find_limits(
    size: int, seeds: Sequence[int], start: int, holds: Callable[[Sequence[Probe]], Mapping[Probe, bool]]
) -> dict[int, int]:
    """Return the largest index for which the criterion holds, by seed; -1 if it holds for none.

    Args:
        size: number of indices, from few users to many.
        seeds: seeds.
        start: index to evaluate first.
        holds: function that evaluates probes, one for each unfinished seed.
    """
    brackets = {seed: _Bracket(size, min(max(start, 0), size - 1)) for seed in seeds}
    while probes := {
        Probe(bracket.following, seed): bracket for seed, bracket in brackets.items() if not bracket.is_closed
    }:
        outcomes = holds(list(probes))
        for probe, bracket in probes.items():
            bracket.narrow(probe.index, holds=outcomes[probe])
    return {seed: bracket.low for seed, bracket in brackets.items()}


class _Bracket:
    """Largest index that holds, and smallest one that does not."""

    def __init__(self, size: int, start: int) -> None:
        self.low, self.high = -1, size
        self.size = size
        self.start = start
        self.step = FIRST_STEP

    @property
    def is_closed(self) -> bool:
        """Whether the limit is known."""
        return self.high - self.low <= 1

    @property
    def following(self) -> int:
        """Index to evaluate next."""
        if self.low < 0 and self.high == self.size:
            return self.start
        if self.high == self.size:
            return min(self.low + self.step, self.size - 1)
        if self.low < 0:
            return max(self.high - self.step, 0)
        return (self.low + self.high) // 2

    def narrow(self, index: int, *, holds: bool) -> None:
        """Add the outcome of an evaluation."""
        if self.low >= 0 or self.high < self.size:
            self.step *= 2
        if holds:
            self.low = index
        else:
            self.high = index
