"""Intervals: how far a figure from a few seeds can be trusted.

All functions are pure and deterministic: the same values in the same order give the same interval, on every
machine. An interval that cannot be had from the values (one seed, too few for an order statistic) is ``None``,
never a guess. SciPy and NumPy are imported where they are used, because importing them costs more than the rest
of the command line.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bentpipe.metrics.t_distribution import STUDENT_T

CONFIDENCE = 0.95
"""Level of every interval that is printed or drawn, unless an argument says otherwise."""

RESAMPLES = 2000
"""Bootstrap resamples; Efron and Tibshirani (1993), section 13.3, ask for at least 1000 for a 95 % interval."""


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """An estimate and its interval, in the unit of the values; ``n`` values went in."""

    estimate: float
    low: float | None
    high: float | None
    n: int

    @property
    def known(self) -> bool:
        """Whether there is an interval at all."""
        return self.low is not None and self.high is not None


def format_significant(value: float | None, digits: int = 4) -> str:
    """``value`` to ``digits`` significant digits, as text; a dash for a missing one.

    Whole numbers that have more digits than that are printed whole: 12345.6 is ``12346``, not ``12350``.
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    magnitude = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - magnitude)
    if magnitude < -4 or magnitude >= 15:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_significant(value: float | None, digits: int = 6) -> float | None:
    """``value`` rounded to ``digits`` significant digits, for machine-readable output."""
    if value is None or math.isnan(value) or math.isinf(value):
        return None
    return float(f"{value:.{digits - 1}e}")


def median(values: Sequence[float]) -> float:
    """The median; the mean of the two middle values when their number is even. Raises ValueError when empty."""
    if not values:
        raise ValueError("the median of no values")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@functools.cache
def median_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Ranks (from 1) of the order statistics that enclose the median with at least ``confidence``.

    Le Boudec, Performance Evaluation of Computer and Communication Systems (2010), theorem 2.1:
    P(x_(j) <= median <= x_(k)) >= P(j <= B <= k - 1) with B binomial(n, 1/2), for any distribution. The ranks taken
    are the innermost symmetric ones (k = n + 1 - j). ``None`` when even the extremes do not reach ``confidence``:
    at 95 % that is fewer than 6 values.
    """
    if n < 2:
        return None
    rank, exact = n // 2, n <= MOST_EXACT
    whole = 1 << n if exact else 1.0
    term = math.comb(n, rank) if exact else _central_probability(n)
    inside = term if n % 2 == 0 else 2 * term  # of an odd n the two middle terms are the same
    while 1 - (whole - inside) / whole < confidence:
        if rank == 1:
            return None
        term = term * rank // (n - rank + 1) if exact else term * rank / (n - rank + 1)
        rank -= 1
        inside += 2 * term
    return rank, n + 1 - rank


MOST_EXACT = 10_000
"""Values up to which binomial coefficients are whole numbers; above, their middle one would take 0.2 s (of 10^5)."""


def _central_probability(n: int) -> float:
    """P(B = n // 2) of B binomial(n, 1/2), of a large ``n``, to the last digit of a float.

    Stirling's series (DLMF 5.11.1) of the central binomial coefficient of 2 m; of an odd ``n`` it is that of n + 1,
    because C(n + 1, (n + 1) / 2) = 2 C(n, n // 2).
    """
    m = (n + 1) // 2
    return math.exp(-1 / (8 * m) + 1 / (192 * m**3)) / math.sqrt(math.pi * m)


def median_ci(values: Sequence[float], confidence: float = CONFIDENCE) -> ConfidenceInterval:
    """Median with its order-statistic interval (:func:`median_ranks`); it assumes nothing but independent values."""
    ordered = sorted(values)
    ranks = median_ranks(len(ordered), confidence)
    if ranks is None:
        return ConfidenceInterval(median(ordered), None, None, len(ordered))
    return ConfidenceInterval(median(ordered), ordered[ranks[0] - 1], ordered[ranks[1] - 1], len(ordered))


def t_quantile(confidence: float, degrees: int) -> float:
    """Two-sided quantile of Student's t distribution."""
    if confidence == CONFIDENCE and 1 <= degrees <= len(STUDENT_T):
        return STUDENT_T[degrees - 1]
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def mean_ci(values: Sequence[float], confidence: float = CONFIDENCE) -> ConfidenceInterval:
    """Mean with Student's t interval over independent values (seeds); no interval for a single value.

    Values that are all the same have an interval of no width. Raises ValueError when empty.
    """
    n = len(values)
    if n == 0:
        raise ValueError("the mean of no values")
    mean = math.fsum(values) / n
    if n == 1:
        return ConfidenceInterval(mean, None, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_quantile(confidence, n - 1) * math.sqrt(variance / n) if variance > 0 else 0.0
    return ConfidenceInterval(mean, mean - half, mean + half, n)


def mean_columns(name: str, values: Sequence[float]) -> dict[str, float | int | None]:
    """``NAME, NAME_low, NAME_high, NAME_n`` of a row of a table over seeds: :func:`mean_interval` of ``values``.

    Without values they are null, and ``NAME_n`` is 0.
    """
    found = mean_ci(values) if values else None
    ends = (None, None, None) if found is None else (found.estimate, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)) | {f"{name}_n": len(values)}


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    statistic: Callable[[Sequence[float], Sequence[float]], float],
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> ConfidenceInterval:
    """Percentile bootstrap interval of ``statistic(before, after)`` where the values come in pairs.

    Pairs are drawn together, so what both have in common (the seed, the cell) cancels out. The resampling is seeded
    by a constant. Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13.
    Raises ValueError when the lengths differ or there is no pair; one pair has no interval.
    """
    if len(before) != len(after) or not before:
        raise ValueError(f"pairs are needed, not {len(before)} and {len(after)} values")
    estimate = statistic(before, after)
    n = len(before)
    if n == 1:
        return ConfidenceInterval(estimate, None, None, 1)
    import numpy

    draws = numpy.random.Generator(numpy.random.PCG64(20250101)).integers(0, n, size=(resamples, n)).tolist()
    samples = sorted(statistic([before[i] for i in draw], [after[i] for i in draw]) for draw in draws)
    edge = (1 - confidence) / 2
    low = samples[math.floor(edge * (resamples - 1))]
    high = samples[math.ceil((1 - edge) * (resamples - 1))]
    return ConfidenceInterval(estimate, low, high, n)


def mean_difference(before: Sequence[float], after: Sequence[float]) -> float:
    """Mean of the paired differences ``after - before``."""
    return math.fsum(b - a for a, b in zip(before, after, strict=True)) / len(before)


def ratio_of_means(before: Sequence[float], after: Sequence[float]) -> float:
    """Sum of ``after`` over the sum of ``before``; infinite when all of ``before`` is 0."""
    total = math.fsum(before)
    return math.fsum(after) / total if total else math.inf
