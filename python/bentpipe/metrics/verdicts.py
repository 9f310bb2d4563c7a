"""Verdicts on published numbers and statements: pure functions of numbers.

Few seeds cannot always decide, so there are three verdicts: agrees, differs and undecided. A number that
would agree
but had a part in fitting the model is calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bentpipe.metrics.format import format_mean
from bentpipe.metrics.intervals import CONFIDENCE, ConfidenceInterval, format_significant, mean_ci, t_quantile

__all__ = [
    "FLOOR",
    "Check",
    "Claim",
    "Fact",
    "Quantity",
    "Tolerance",
    "Verdict",
    "combine_verdicts",
    "expected_range",
]

FLOOR = 0.01
"""Relative tolerance, whatever the number of seeds.

A published goodput counts from the start of the stream at the receiver. It ends at a log line, of which there is one
every 0.5 s (0.2 % of 300 s). Headers differ by stack and by the length of connection ids (up to 18 of 1440 bytes).
"""


class Verdict(StrEnum):
    """Verdict on a number, a check or a claim."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"
    CALIBRATED = "calibrated"
    """It would agree, but had a part in fitting the model: no evidence."""


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a whole from the verdicts on its parts.

    The whole agrees when all parts agree, and differs when one differs. It is calibrated when a part is
    calibrated and all
    others agree.
    """
    if not verdicts or Verdict.NOT_RUN in verdicts:
        return Verdict.NOT_RUN
    if Verdict.DIFFERS in verdicts:
        return Verdict.DIFFERS
    if Verdict.UNDECIDED in verdicts:
        return Verdict.UNDECIDED
    return Verdict.CALIBRATED if Verdict.CALIBRATED in verdicts else Verdict.AGREES


@dataclass(frozen=True)
class Tolerance:
    """Claimed tolerance of a published number: ``points`` around it, or a factor of ``scale``."""

    text: str
    scale: float = 1.0
    points: float = 0.0

    def around(self, published: float) -> tuple[float, float]:
        """Return the range in which the measured number must lie."""
        return published / self.scale - self.points, published * self.scale + self.points


def expected_range(values: Sequence[float], upper_bound: float = math.inf) -> tuple[float, float] | None:
    """Return the 95 % range of one more run; ``None`` for one run.

    The range is mean ± t s sqrt(1 + 1/n), and at least ± ``FLOOR``. A published figure is one run. It is therefore
    compared with the spread of runs, not with the interval of their mean. The range is the prediction interval of a
    normal sample (Hahn and Meeker, Statistical Intervals, 1991, section 4.7).

    Args:
        values: one value for each seed.
        upper_bound: upper bound of the quantity (Jain's index: 1).
    """
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(CONFIDENCE, n - 1) * spread * math.sqrt(1 + 1 / n) if spread > 0 else 0.0
    half = max(half, FLOOR * abs(mean))
    return mean - half, min(mean + half, upper_bound)


@dataclass(frozen=True)
class Quantity:
    """Published number beside the measured values of all seeds."""

    name: str
    published: float
    values: tuple[float, ...]
    upper_bound: float = math.inf
    """Upper bound of the quantity."""
    tolerance: Tolerance | None = None
    """Claimed tolerance; ``None`` when the number is to lie where one more run would."""
    fitted: bool = False
    """Whether the number had a part in fitting the model."""
    lower_bound: float = -math.inf
    """Lower bound of the quantity."""

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Mean and its confidence interval over seeds."""
        return mean_ci(self.values) if self.values else None

    @property
    def expected(self) -> tuple[float, float] | None:
        """Range of one more run (:func:`expected_range`), or the range that the tolerance allows for the mean."""
        found = self.tolerance.around(self.published) if self.tolerance else expected_range(self.values)
        return None if found is None else (max(found[0], self.lower_bound), min(found[1], self.upper_bound))

    @property
    def verdict(self) -> Verdict:
        """Verdict: whether the number lies where one more run would, or the mean within the tolerance."""
        found = self._verdict
        return Verdict.CALIBRATED if self.fitted and found is Verdict.AGREES else found

    @property
    def _verdict(self) -> Verdict:
        if not self.values:
            return Verdict.NOT_RUN
        if self.tolerance is not None:
            low, high = self.tolerance.around(self.published)
            checks = (Check("", self.values, low), Check("", self.values, high, at_least=False))
            return combine_verdicts([check.verdict for check in checks])
        expected = self.expected
        if expected is None:
            return Verdict.UNDECIDED
        return Verdict.AGREES if expected[0] <= self.published <= expected[1] else Verdict.DIFFERS


@dataclass(frozen=True)
class Check:
    """One part of a claim: the mean of ``values`` (one for each seed) is at least, or at most, ``threshold``."""

    text: str
    values: tuple[float, ...]
    threshold: float
    at_least: bool = True

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Mean and its confidence interval over seeds."""
        return mean_ci(self.values) if self.values else None

    @property
    def verdict(self) -> Verdict:
        """Agrees or differs when the whole interval does (with one seed: the value), else undecided."""
        found = self.interval
        if found is None:
            return Verdict.NOT_RUN
        low = found.estimate if found.low is None else found.low
        high = found.estimate if found.high is None else found.high
        if not self.at_least:
            low, high = -high, -low
        threshold = self.threshold if self.at_least else -self.threshold
        if low >= threshold:
            return Verdict.AGREES
        return Verdict.DIFFERS if high < threshold else Verdict.UNDECIDED

    @property
    def measured(self) -> str:
        """Measured mean and interval, as text."""
        found = self.interval
        if found is None:
            return "–"
        return format_mean(found)

    @property
    def needed(self) -> str:
        """Condition that the mean must meet, as text."""
        return f"{'≥' if self.at_least else '≤'} {format_significant(self.threshold)}"


@dataclass(frozen=True)
class Fact:
    """One part of a claim that is not about a mean: an order of two samples, an interval, a count.

    The caller computes ``verdict`` by the rule that ``needed`` states.
    """

    text: str
    measured: str
    needed: str
    verdict: Verdict
    estimate: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Estimate and its interval, if the fact has one."""
        if self.estimate is None:
            return None
        return ConfidenceInterval(self.estimate, self.low, self.high, 0)


@dataclass(frozen=True)
class Claim:
    """Published statement as a criterion: checks that all must hold."""

    id: str
    text: str
    criterion: str
    interpretation: str
    checks: tuple[Check | Fact, ...]
    explanation: str = field(default="", compare=False)

    @property
    def verdict(self) -> Verdict:
        """Combined verdict of the checks (:func:`combine_verdicts`)."""
        return combine_verdicts([check.verdict for check in self.checks])
