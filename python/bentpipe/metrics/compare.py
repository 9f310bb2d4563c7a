"""Paired comparison of metrics before and after a change: test, multiple-testing correction, verdict.

A comparison is one metric of one cell, flow and direction, with a pair of values for each seed. The test is Student's
t. A positive metric has paired log ratios; a share, a score and a count have paired differences. Holm's procedure
corrects within a family: the primary metric of all cells and flows, and all other metrics.
Decision: docs/decisions/0080-one-paired-comparison.md.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from bentpipe.metrics.intervals import CONFIDENCE, ConfidenceInterval, mean_ci
from bentpipe.metrics.registry import METRICS, Scope, compared
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.quantities import Probability, UnitError

if TYPE_CHECKING:
    import numpy
    import polars

    Values = numpy.typing.NDArray[numpy.float64]

__all__ = [
    "DELIVERY",
    "MIN_SEEDS",
    "NO_VERDICT",
    "OF_PROGRAMS",
    "OF_STORES",
    "Comparison",
    "Criteria",
    "Draws",
    "Equivalence",
    "MetricChange",
    "Pairs",
    "Scale",
    "Verdict",
    "compare_pairs",
    "equivalence",
    "holm",
    "paired_t",
    "scale_of",
]  # fmt: skip

Verdict = Literal["regression", "improvement", "none", "too few seeds", "equal differences", "no value"]

NO_VERDICT: frozenset[Verdict] = frozenset({"too few seeds", "equal differences", "no value"})
"""Verdicts of comparisons that prove neither a change nor its absence."""

MIN_SEEDS = 5
"""Fewest seeds for a verdict if the plan is stochastic.

With two equal builds, one is better in all of n pairs with probability 2 / 2^n. This is 1 in 8 for four pairs, 1 in 16
for five.
"""

THRESHOLD = 0.01
"""Smallest change of a metric's mean with a verdict, as a fraction of the mean before."""

EQUAL = 1e-12
"""Largest spread of equal differences, as a fraction of the values: rounding of binary64 arithmetic."""

_PROGRAMS = compared(Scope.PROGRAM)
OF_PROGRAMS = {metric.name: metric.better for metric in _PROGRAMS}
"""Metrics of a real program with a fixed workload over an emulated path (:mod:`bentpipe.build_comparison`), with the
sign of an improvement."""

OF_STORES = {metric.name: metric.better for metric in compared(*Scope) if metric not in _PROGRAMS}
"""Metrics of a comparison of stores, with the sign of an improvement."""

DELIVERY = frozenset({"goodput_bit_s"})
"""Metrics that are 0 only if a run delivered nothing.

A count of bundles may be 0 by chance, so its differences are tested.
"""


class Scale(StrEnum):
    """Scale of the comparison of a pair of values."""

    RATIO = "ratio"
    """after / before; the test uses its logarithm."""
    DIFFERENCE = "difference"
    """after - before."""


class Draws(StrEnum):
    """Dependence of a run's plan on the seed (:mod:`bentpipe.plan.randomness`)."""

    NOTHING = "nothing"
    """Deterministic: one pair gives the verdict."""
    UNKNOWN = "unknown"
    """Only user-supplied code, real time or the packet numbers of QUIC can depend on it.

    Equal differences of several seeds rule that out.
    """
    RARELY = "rarely"
    """Stochastic, but many runs meet no random event, such as the loss of one of their packets.

    Equal differences of several seeds are a result about runs without such an event.
    """
    SOMETHING = "something"
    """Stochastic."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Metrics of a comparison and the smallest change of each with a verdict."""

    threshold: float = THRESHOLD
    """Smallest change, as a fraction of the mean before."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Smallest change of single metrics."""
    metrics: tuple[str, ...] = ()
    """Metrics of the comparison, which form the primary family; empty: all metrics."""

    def threshold_of(self, metric: str) -> float:
        """Return the smallest change of ``metric`` with a verdict."""
        return self.thresholds.get(metric, self.threshold)

    def select(self, metrics: Iterable[str]) -> list[str]:
        """Return the members of ``metrics`` to compare."""
        return [metric for metric in metrics if not self.metrics or metric in self.metrics]

    @classmethod
    def parse(cls, thresholds: Sequence[str], only: Sequence[str], known: Iterable[str]) -> Criteria:
        """Parse texts such as ``"5 %"`` and ``"plt_s=10 %"``, and names of metrics.

        Raises:
            ScenarioError: a threshold is not a percentage, or a metric is not in ``known``.
        """
        names = list(known)
        threshold, by_metric = THRESHOLD, {}
        for text in thresholds:
            metric, equals, share = text.rpartition("=")
            if equals and metric not in names:
                raise ScenarioError([("threshold", unknown_name(metric, names, "metric"))], SOURCE_ARGUMENT)
            try:
                value = Probability.parse(share).value
            except UnitError as error:
                raise ScenarioError([("threshold", str(error))], SOURCE_ARGUMENT) from None
            if equals:
                by_metric[metric] = value
            else:
                threshold = value
        for metric in only:
            if metric not in names:
                raise ScenarioError([("metric", unknown_name(metric, names, "metric"))], SOURCE_ARGUMENT)
        return cls(threshold, by_metric, tuple(only))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Values of one metric in one cell, flow and direction.

    ``before`` and ``after`` are aligned: one value for each seed, None without a value. Pairs without either value do
    not count.
    """

    metric: str
    before: Sequence[float | None]
    after: Sequence[float | None]
    cell: Mapping[str, str | None] = field(default_factory=dict)
    flow: str = ""
    direction: str = ""
    primary: bool = False
    draws: Draws = Draws.SOMETHING
    limit_s: float | None = None
    """Restriction time of a restricted mean or quantile."""
    censored: tuple[int, int] = (0, 0)
    """Runs before and after whose value is the limit, because too few transfers finished."""


@dataclass(frozen=True, slots=True)
class MetricChange:
    """Outcome of one comparison.

    ``before`` and ``after`` are means over ``seeds`` pairs, in the metric's unit. ``effect`` is the geometric mean of
    the ratios, or the mean difference, with its interval at the level of the comparison, uncorrected.
    """

    metric: str
    cell: Mapping[str, str | None]
    flow: str
    direction: str
    seeds: int
    before: float | None
    after: float | None
    scale: Scale
    effect: ConfidenceInterval | None
    p: float | None
    """Two-sided p-value of the paired t-test; None without a test."""
    p_adjusted: float | None
    """Holm's adjusted p-value within the family."""
    primary: bool
    verdict: Verdict
    reason: str = ""
    limit_s: float | None = None
    censored: tuple[int, int] = (0, 0)


@dataclass(frozen=True, repr=False, slots=True)
class Comparison:
    """All changes, the numbers of unpaired flows of each side, and notes for the reader."""

    changes: tuple[MetricChange, ...]
    only_before: int = 0
    only_after: int = 0
    notes: tuple[str, ...] = ()
    repetition: str = "seeds"
    """Name of the pairs of a comparison: ``seeds``, or ``rounds`` of programs."""

    def __repr__(self) -> str:
        """Return the numbers of changes by verdict."""
        verdicts = Counter(change.verdict for change in self.changes)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        return f"<bentpipe comparison: {len(self.changes)} changes{f' ({counts})' if counts else ''}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return notes + self.frame()._repr_html_()

    @property
    def regressed(self) -> bool:
        """Whether any metric regressed: exit status 1 of ``bentpipe diff``."""
        return any(change.verdict == "regression" for change in self.changes)

    @property
    def undecided(self) -> bool:
        """Whether a comparison of the primary family has no verdict, so that a regression may remain unknown."""
        return any(change.primary and change.verdict in NO_VERDICT for change in self.changes)

    def frame(self) -> polars.DataFrame:
        """Return one row for each change, numbers to six significant digits."""
        from bentpipe.metrics.change_table import frame

        return frame(self.changes)


def scale_of(metric: str) -> Scale:
    """Return the scale of comparisons of ``metric``."""
    return Scale.DIFFERENCE if METRICS[metric].is_difference else Scale.RATIO


def paired_t(before: Values, after: Values, scale: Scale) -> tuple[Values, Values, Values]:
    """Compute Student's paired t-test of each row.

    Args:
        before: values of shape (rows, pairs); positive on the ratio scale.
        after: values of the other side, of the same shape.
        scale: differences or log ratios.

    Returns:
        Mean of the differences (or log ratios) of each row, its standard error, and the two-sided p-value. Equal
        differences have the standard error 0. Their p-value is 1 if they are 0, else NaN: the sample has no variance to
        test against. One pair has the standard error NaN.
    """
    import numpy as np
    from scipy.special import stdtr

    size = np.maximum(np.abs(before), np.abs(after)).max(axis=1)
    if scale is Scale.RATIO:
        difference, size = np.log(after) - np.log(before), np.ones(len(before))
    else:
        difference = after - before
    count = difference.shape[1]
    mean = difference.mean(axis=1)
    spread = difference.max(axis=1) - difference.min(axis=1)
    equal = spread <= EQUAL * size
    zero = equal & (np.abs(mean) <= EQUAL * size)
    mean = np.where(zero, 0.0, mean)
    if count < 2:
        return mean, np.full(len(mean), np.nan), np.where(zero, 1.0, np.nan)
    error = np.where(equal, 0.0, difference.std(axis=1, ddof=1) / np.sqrt(count))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stdtr(count - 1, -np.abs(mean / error))
    return mean, error, np.where(zero, 1.0, np.where(equal, np.nan, p))


class Equivalence(StrEnum):
    """Result of an equivalence test."""

    WITHIN = "within"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"
    UNBOUNDED = ""
    """The metric has no bound."""


def equivalence(differences: Sequence[float], limit: float, tests: int = 1) -> Equivalence:
    """Return whether the mean of ``differences`` is within ± ``limit``.

    It is within the limit if its whole 95 % interval is, and exceeds it if the whole interval is outside. Otherwise,
    and for a single value, which has no interval, the result is undecided. A test that finds no difference would not
    show equivalence (Schuirmann, J. Pharmacokinet. Biopharm. 15, 657-680, 1987).

    Args:
        differences: one value for each seed.
        limit: largest difference of equivalent means.
        tests: number of tests of one family; their intervals hold simultaneously (Bonferroni correction).
    """
    interval = mean_ci(differences, 1 - (1 - CONFIDENCE) / tests)
    if interval.low is None or interval.high is None or not math.isfinite(interval.low + interval.high):
        return Equivalence.UNDECIDED
    if -limit <= interval.low and interval.high <= limit:
        return Equivalence.WITHIN
    return Equivalence.EXCEEDED if interval.low > limit or interval.high < -limit else Equivalence.UNDECIDED


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values of a family, in the order of ``p``.

    Source: Holm, A simple sequentially rejective multiple test procedure (1979), Scand. J. Statist. 6, 65-70.
    """
    adjusted = [0.0] * len(p)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = largest
    return adjusted


def compare_pairs(
    pairs: Iterable[Pairs], confidence: float = CONFIDENCE, criteria: Criteria | None = None
) -> tuple[MetricChange, ...]:
    """Test all comparisons of two sides, correct each family and return the verdicts.

    Args:
        pairs: comparisons, in the order of the result; comparisons without any value have no result.
        confidence: level of the intervals; the family-wise error of each family is 1 - ``confidence``.
        criteria: smallest changes with a verdict.
    """
    criteria = criteria or Criteria()
    tests = [_PairedTest.compute(item, confidence) for item in pairs if _has_value(item)]
    families: dict[bool, list[_PairedTest]] = {}
    for test in tests:
        if test.p is not None:
            families.setdefault(test.pairs.primary, []).append(test)
    for family in families.values():
        for test, p in zip(family, holm([test.p for test in family if test.p is not None]), strict=True):
            test.p_adjusted = p
    return tuple(test.change(1 - confidence, criteria.threshold_of(test.pairs.metric)) for test in tests)


def _has_value(pairs: Pairs) -> bool:
    return any(value is not None for value in (*pairs.before, *pairs.after))


@dataclass(slots=True)
class _PairedTest:
    """A comparison with its test, before the correction."""

    pairs: Pairs
    before: list[float]
    after: list[float]
    """Values of the complete pairs."""
    missing: tuple[int, int]
    """Numbers of pairs without the value before and after."""
    scale: Scale
    effect: ConfidenceInterval | None = None
    equal: bool = False
    p: float | None = None
    p_adjusted: float | None = None

    @classmethod
    def compute(cls, pairs: Pairs, confidence: float) -> _PairedTest:
        import numpy as np

        from bentpipe.metrics.intervals import t_quantile

        both = [
            (x, y) for x, y in zip(pairs.before, pairs.after, strict=True) if x is not None and y is not None
        ]
        missing = (
            sum(x is None and y is not None for x, y in zip(pairs.before, pairs.after, strict=True)),
            sum(y is None and x is not None for x, y in zip(pairs.before, pairs.after, strict=True)),
        )
        before, after = [x for x, _ in both], [y for _, y in both]
        # A ratio to 0 has no logarithm: then all pairs of the comparison use differences, and the pair stays.
        positive = all(x > 0 and y > 0 for x, y in both)
        scale = scale_of(pairs.metric) if positive else Scale.DIFFERENCE
        test = cls(pairs, before, after, missing, scale)
        if not both or min(pairs.censored) == len(both):
            return test
        mean, error, p = (float(row[0]) for row in paired_t(np.array([before]), np.array([after]), scale))
        count = len(both)
        low = high = None
        if count > 1:
            half = t_quantile(confidence, count - 1) * error
            low, high = mean - half, mean + half
        ends = [mean, low, high]
        if scale is Scale.RATIO:
            ends = [None if end is None else _exp(end) for end in ends]
        test.effect = ConfidenceInterval(ends[0] or 0.0, ends[1], ends[2], count)
        test.equal = count == 1 or error == 0
        if count >= MIN_SEEDS and not math.isnan(p):
            test.p = p
        return test

    def change(self, alpha: float, threshold: float) -> MetricChange:
        pairs, count = self.pairs, len(self.before)
        mean = [sum(side) / count if count else None for side in (self.before, self.after)]
        verdict, reason = self._verdict(alpha, threshold)
        return MetricChange(
            pairs.metric, pairs.cell, pairs.flow, pairs.direction, count, mean[0], mean[1], self.scale, self.effect,
            self.p, self.p_adjusted, pairs.primary, verdict, reason, pairs.limit_s, pairs.censored,
        )  # fmt: skip

    def _verdict(self, alpha: float, threshold: float) -> tuple[Verdict, str]:
        stalled = self._stalled_runs()
        if stalled > 0:
            return "regression", f"{stalled} of {len(self.before)} runs deliver nothing"
        verdict, reason = self._test_verdict(alpha, threshold)
        # A side without some values has lost its worst runs: the remaining ones cannot prove it better.
        missing_before, missing_after = self.missing
        lost = max(missing_before, missing_after)
        if lost:
            side = "after" if missing_after >= missing_before else "before"
            if verdict != ("regression" if side == "after" else "improvement"):
                return "no value", f"no value {side} in {lost} of {len(self.before) + sum(self.missing)} runs"
        return verdict, reason

    def _stalled_runs(self) -> int:
        """Return the runs that deliver nothing after, minus those that deliver nothing before."""
        if self.pairs.metric not in DELIVERY:
            return 0
        return sum((y == 0) - (x == 0) for x, y in zip(self.before, self.after, strict=True))

    def _test_verdict(self, alpha: float, threshold: float) -> tuple[Verdict, str]:
        if self.effect is None:
            return "none", ""
        change = self.effect.estimate - (1.0 if self.scale is Scale.RATIO else 0.0)
        if change == 0 and self.equal:
            return "none", ""
        draws, count = self.pairs.draws, len(self.before)
        if draws is Draws.NOTHING and self.equal:
            significant = True
        elif count < MIN_SEEDS:
            return "too few seeds", f"{count} of {MIN_SEEDS}"
        elif self.equal:
            if draws is Draws.SOMETHING:
                return "equal differences", "all differences are equal although the plan draws"
            significant = True
        else:
            significant = self.p_adjusted is not None and self.p_adjusted < alpha
        smallest = threshold
        if self.scale is Scale.DIFFERENCE:
            smallest *= abs(sum(self.before) / count)
        if not significant or abs(change) <= smallest:
            return "none", ""
        sign = METRICS[self.pairs.metric].better
        return ("improvement" if change * sign > 0 else "regression"), ""


def _exp(value: float) -> float:
    """Return e to the power of ``value``; infinity on overflow."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
