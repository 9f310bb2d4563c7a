"""Verdicts: does a published number agree with what was measured, and does a statement hold?

Pure functions of numbers. There are three answers, because a few seeds cannot always tell: agrees, differs, and
undecided. What would agree because it was fitted is calibrated.
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
"""Relative tolerance that no number of seeds takes away. A published goodput counts from the stream's start at the
receiver and ends at a log line every 0.5 s (0.2 % of 300 s each), and headers differ by stack and by the length of
connection ids (up to 18 of 1440 bytes)."""


class Verdict(StrEnum):
    """An answer."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"
    CALIBRATED = "calibrated"
    """It would agree, but had a part in fitting the model: no evidence for it."""


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a whole from those on its parts: it agrees when all do, differs when one does, and is calibrated
    when one is that would agree."""
    if not verdicts or Verdict.NOT_RUN in verdicts:
        return Verdict.NOT_RUN
    if Verdict.DIFFERS in verdicts:
        return Verdict.DIFFERS
    if Verdict.UNDECIDED in verdicts:
        return Verdict.UNDECIDED
    return Verdict.CALIBRATED if Verdict.CALIBRATED in verdicts else Verdict.AGREES


@dataclass(frozen=True)
class Tolerance:
    """What is claimed of a published number: it lies within ``points`` of the measured one, or within a ``factor``."""

    text: str
    scale: float = 1.0
    points: float = 0.0

    def around(self, published: float) -> tuple[float, float]:
        """Between what the measured number must lie."""
        return published / self.scale - self.points, published * self.scale + self.points


def expected_range(values: Sequence[float], most: float = math.inf) -> tuple[float, float] | None:
    """Where one more run would lie with 95 %: mean ± t s sqrt(1 + 1/n), and at least ± ``FLOOR``; ``None`` for one run.

    A published figure is one run, so it is compared with the spread of runs, not with the interval of their mean:
    the prediction interval of a normal sample (Hahn and Meeker, Statistical Intervals, 1991, section 4.7). ``most``
    bounds it above (Jain's index: 1).
    """
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(CONFIDENCE, n - 1) * spread * math.sqrt(1 + 1 / n) if spread > 0 else 0.0
    half = max(half, FLOOR * abs(mean))
    return mean - half, min(mean + half, most)


@dataclass(frozen=True)
class Quantity:
    """A published number beside the measured values of all seeds."""

    name: str
    published: float
    values: tuple[float, ...]
    most: float = math.inf
    tolerance: Tolerance | None = None
    """What is claimed, where that is not that it is one more run."""
    fitted: bool = False
    """It had a part in fitting the model."""
    least: float = -math.inf
    """What it cannot be less than, as ``most`` above."""

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Mean and its interval over seeds."""
        return mean_ci(self.values) if self.values else None

    @property
    def expected(self) -> tuple[float, float] | None:
        """See :func:`expected_range`; with a tolerance, between what the mean must lie."""
        found = self.tolerance.around(self.published) if self.tolerance else expected_range(self.values)
        return None if found is None else (max(found[0], self.least), min(found[1], self.most))

    @property
    def verdict(self) -> Verdict:
        """Whether the published number lies where one more run would, or the mean within the tolerance."""
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
    """One part of a claim: the mean of ``values`` (one a seed) is at least, or at most, ``threshold``."""

    text: str
    values: tuple[float, ...]
    threshold: float
    at_least: bool = True

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Mean and its interval over seeds."""
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
        """What was measured, as text."""
        found = self.interval
        if found is None:
            return "–"
        return format_mean(found)

    @property
    def needed(self) -> str:
        """What is needed for it to hold, as text."""
        return f"{'≥' if self.at_least else '≤'} {format_significant(self.threshold)}"


@dataclass(frozen=True)
class Fact:
    """One part of a claim that is not about a mean: an order of two samples, an interval, a count.

    ``verdict`` is worked out by whoever makes it, with the rule that ``needed`` states.
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
        """Its number and interval, where it has one."""
        if self.estimate is None:
            return None
        return ConfidenceInterval(self.estimate, self.low, self.high, 0)


@dataclass(frozen=True)
class Claim:
    """A published statement as a criterion: checks that all must hold."""

    id: str
    text: str
    criterion: str
    interpretation: str
    checks: tuple[Check | Fact, ...]
    explanation: str = field(default="", compare=False)

    @property
    def verdict(self) -> Verdict:
        """See :func:`together`."""
        return combine_verdicts([check.verdict for check in self.checks])
