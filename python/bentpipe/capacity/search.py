"""Search for the largest number of users for whom a criterion holds, seed by seed.

The search assumes that a further user never helps the others. For each seed it doubles its step until the criterion
changes, and then bisects. The first seeds of a search give the start of the others. A finished run is never repeated.

The limit of a seed is the largest number of users below the first one that fails. The result is the median of the
limits. All seeds run the numbers of users around it, so that their means are over the same seeds. If a seed then fails
below its limit, its limit is searched again below that number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bentpipe.capacity.quality import Quality
from bentpipe.metrics.intervals import ConfidenceInterval, median_ci, round_significant

if TYPE_CHECKING:
    import polars as pl

    from bentpipe.capacity.advice import Advice
    from bentpipe.capacity.config import CapacityConfig
    from bentpipe.capacity.estimate import Estimate

__all__ = ["PARTS", "Capacity", "Evaluation", "Probe", "find_limits"]

PARTS = ("mos", "page")
"""Parts of a criterion."""

FIRST_STEP = 4
"""First step of the first seeds, in numbers of users that the search may run."""

FIRST_SEEDS = 2
"""Number of seeds that begin at the estimate. It does not depend on the number of processors: same seed, same runs."""


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
    utilisation: Mapping[str, float] = field(default_factory=dict)
    """Utilisation of the busiest link by direction over the whole run, of those with a constant rate."""

    def as_row(self, share: float) -> dict[str, Any]:
        """Return the evaluation as plain data.

        Args:
            share: share of the users of each kind that the criterion requires.
        """
        quality = self.quality
        values = {
            "mos": quality.mos_of(share), "mos_median": quality.mos_of(0.5), "page_s": quality.page_of(share),
            "page_median_s": quality.page_of(0.5),
        }  # fmt: skip
        counts = {f"{kind}_users": number for kind, number in self.counts.items()}
        rounded = {name: round_significant(value) for name, value in values.items()}
        return {"users": self.users, **counts, "seed": self.seed, **rounded, "holds": not self.failed}


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
    page: str = ""
    """Page that the users load, with its requests and bytes; empty without such users."""
    advice: Advice | None = None
    """Causes and changes, if the criterion holds for no number of users."""

    def __repr__(self) -> str:
        """Return the access and the number of users."""
        return f"<bentpipe capacity: {self.config.access.title}, {self.users} users>"

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()

    def frame(self) -> pl.DataFrame:
        """Return one row for each run.

        Returns:
            Columns ``users, call_users, page_users`` (and those of further kinds), ``seed, mos, mos_median, page_s,
            page_median_s, holds``. ``mos`` and ``page_s`` are the worst values of the share of the users that the
            criterion requires.
        """
        import polars as pl

        floats = ("mos", "mos_median", "page_s", "page_median_s")
        rows = [one.as_row(self.config.criterion.share) for one in self.evaluations]
        return pl.DataFrame(rows, schema_overrides=dict.fromkeys(floats, pl.Float64))

    @cached_property
    def users(self) -> int:
        """Largest number of users for whom the criterion holds in more than half of the seeds; 0 if for none.

        It is the lower median of the limits.
        """
        return sorted(self.limits.values())[(len(self.limits) - 1) // 2]

    @property
    def all_seeds(self) -> int:
        """Largest number of users up to which the criterion holds in every seed."""
        return min(self.limits.values())

    @cached_property
    def interval(self) -> ConfidenceInterval:
        """Median of the limits with its distribution-free interval, which needs six seeds."""
        return median_ci([float(limit) for limit in self.limits.values()])

    @property
    def bounds(self) -> tuple[int, int]:
        """Interval of the median; with fewer seeds the range of the limits."""
        interval = self.interval
        if interval.low is None or interval.high is None:
            return min(self.limits.values()), max(self.limits.values())
        return int(interval.low), int(interval.high)

    @property
    def is_uncertain(self) -> bool:
        """Whether the interval is wider than half of the result."""
        low, high = self.bounds
        return high - low > self.users / 2

    @property
    def first_failing(self) -> int | None:
        """Smallest tested number of users above the result; None at the end of the search."""
        return min((one.users for one in self.evaluations if one.users > self.users), default=None)

    @property
    def is_none(self) -> bool:
        """Whether the criterion holds for no number of users in most seeds."""
        return self.users == 0

    @property
    def is_bounded_by_search(self) -> bool:
        """Whether the criterion holds for the largest number of users in most seeds."""
        return self.users == self.largest

    def at(self, users: int) -> list[Evaluation]:
        """Return the evaluations of a number of users, by seed."""
        return [one for one in self.evaluations if one.users == users]

    def failures(self, users: int) -> dict[str, int]:
        """Return the number of seeds in which each part of the criterion fails for a number of users."""
        failed = [part for one in self.at(users) for part in one.failed]
        return {part: failed.count(part) for part in PARTS if part in failed}


def find_limits(
    size: int, seeds: Sequence[int], start: int, holds: Callable[[Sequence[Probe]], Mapping[Probe, bool]]
) -> dict[int, int]:
    """Return the largest index for which the criterion holds, by seed; -1 if it holds for none.

    Args:
        size: number of indices, from few users to many.
        seeds: seeds.
        start: index to evaluate first.
        holds: function that evaluates probes, each only once.
    """
    search = _Search(size, holds)
    search.narrow({seed: _Bracket(size, start, FIRST_STEP) for seed in seeds[:FIRST_SEEDS]})
    found = sorted(bracket.low for bracket in search.brackets.values())
    search.narrow({seed: _Bracket(size, found[(len(found) - 1) // 2], 1) for seed in seeds[FIRST_SEEDS:]})
    while missing := search.missing():
        search.evaluate(missing)
        search.narrow({seed: search.bracket(seed) for seed in seeds})
    return {seed: search.brackets[seed].low for seed in seeds}


class _Search:
    """Outcomes of a search, and its brackets by seed."""

    def __init__(self, size: int, holds: Callable[[Sequence[Probe]], Mapping[Probe, bool]]) -> None:
        self.brackets: dict[int, _Bracket] = {}
        self._size = size
        self._holds = holds
        self._outcomes: dict[Probe, bool] = {}

    def narrow(self, brackets: Mapping[int, _Bracket]) -> None:
        """Evaluate until every bracket is closed, one index of each at a time."""
        self.brackets |= brackets
        while probes := {
            Probe(bracket.following, seed): bracket
            for seed, bracket in brackets.items()
            if not bracket.is_closed
        }:
            self.evaluate(list(probes))
            for probe, bracket in probes.items():
                bracket.narrow(probe.index, holds=self._outcomes[probe])

    def evaluate(self, probes: Sequence[Probe]) -> None:
        """Add the outcomes of probes."""
        self._outcomes |= self._holds(probes)

    def missing(self) -> list[Probe]:
        """Return the probes around the result that no seed has yet: the median, the next number, the smallest limit."""
        limits = sorted(bracket.low for bracket in self.brackets.values())
        middle = limits[(len(limits) - 1) // 2]
        indices = sorted({limits[0], middle, middle + 1} & set(range(self._size)))
        probes = [Probe(index, seed) for index in indices for seed in self.brackets]
        return [probe for probe in probes if probe not in self._outcomes]

    def bracket(self, seed: int) -> _Bracket:
        """Return the bracket of the outcomes of a seed: below the first index that fails."""
        outcomes = {probe.index: holds for probe, holds in self._outcomes.items() if probe.seed == seed}
        bracket = _Bracket(self._size, 0, 1)
        bracket.high = min((index for index, holds in outcomes.items() if not holds), default=self._size)
        bracket.low = max(
            (index for index, holds in outcomes.items() if holds and index < bracket.high), default=-1
        )
        return bracket


class _Bracket:
    """Largest index that holds, and smallest one that does not."""

    def __init__(self, size: int, start: int, step: int) -> None:
        self.low, self.high = -1, size
        self.size = size
        self.start = min(max(start, 0), size - 1)
        self.step = step

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
