"""Autocorrelation of a sample in the order of its values, as a test of independence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.metrics.intervals import CONFIDENCE

MIN_VALUES = 8
"""Smallest sample; fewer values would have less than two lags."""

MAX_LAGS = 40
"""Largest number of lags by default, as in the rule of Brockwell and Davis."""


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """Coefficients at lags 1, 2, ... and the zone of 95 % of the coefficients of independent values.

    ``far`` is the wider zone that any coefficient of independent values leaves in 2.5 % of the cases.
    """

    coefficients: tuple[float, ...]
    zone: float
    far: float
    n: int
    confidence: float

    @property
    def lags(self) -> int:
        """Number of lags."""
        return len(self.coefficients)

    @property
    def outside(self) -> int:
        """Number of coefficients outside the zone."""
        return sum(abs(r) > self.zone for r in self.coefficients)

    @property
    def expected(self) -> float:
        """Expected number of coefficients of independent values outside the zone."""
        return self.lags * (1 - self.confidence)

    @property
    def chance(self) -> float:
        """Probability of at least as many coefficients outside for independent values (binomial over the lags)."""
        p = 1 - self.confidence
        return math.fsum(
            math.comb(self.lags, k) * p**k * (1 - p) ** (self.lags - k)
            for k in range(self.outside, self.lags + 1)
        )

    @property
    def independent(self) -> bool:
        """Whether the test does not reject independence.

        It rejects if the probability of as many coefficients outside the zone is below 2.5 %. It also rejects if one
        lies outside the wider zone, with a probability of about 2.5 % too. Brockwell and Davis, Introduction to Time
        Series and Forecasting (2016), section 1.6 (a), use the same two criteria. True is not a proof of independence.
        """
        limit = (1 - self.confidence) / 2
        return self.chance >= limit and max(map(abs, self.coefficients)) <= self.far

    @property
    def reason(self) -> str:
        """Sentence with the numbers of the test."""
        text = f"{self.outside} of {self.lags} lags outside ±{self.zone:.2f}, {self.expected:.1f} expected"
        largest = max(self.coefficients, key=abs)
        if abs(largest) > self.far:
            return f"{text}; {largest:.2f} at lag {self.coefficients.index(largest) + 1} is far outside"
        return text


def autocorrelation(
    values: Sequence[float], lags: int | None = None, confidence: float = CONFIDENCE
) -> Autocorrelation | None:
    """Return the sample autocorrelation of ``values`` at lags 1 to ``lags``.

    r(k) = sum (x(t) - m)(x(t + k) - m) / sum (x(t) - m)^2. For independent values r(k) is approximately Gaussian with
    variance 1/n. The zone at 95 % is therefore +-1.96 / sqrt(n) (Le Boudec 2010, section 2.3.2; Brockwell and Davis,
    section 1.6). Lags beyond n / 4 have too few products (Box, Jenkins, Reinsel and Ljung 2015, chapter 2).

    Args:
        values: sample in the order of its values.
        lags: number of lags; by default a quarter of the number of values, at most 40.
        confidence: level of the zone.

    Returns:
        The coefficients and zones; ``None`` for fewer than 8 values or equal values.

    Raises:
        ValueError: ``lags`` is not from 1 to n - 1.
    """
    n = len(values)
    if lags is not None and not 1 <= lags < max(n, 2):
        raise ValueError(f"lags: {lags} is not from 1 to {n - 1}")
    if n < MIN_VALUES or len(set(values)) == 1:
        return None
    from scipy.special import ndtri

    count = min(n // 4, MAX_LAGS) if lags is None else lags
    mean = math.fsum(values) / n
    parts = [value - mean for value in values]
    power = math.fsum(part * part for part in parts)
    coefficients = tuple(
        math.fsum(parts[t] * parts[t + lag] for t in range(n - lag)) / power for lag in range(1, count + 1)
    )
    tail = (1 - confidence) / 2
    return Autocorrelation(
        coefficients=coefficients,
        zone=float(ndtri(1 - tail)) / math.sqrt(n),
        far=float(ndtri(1 - tail / 2 / count)) / math.sqrt(n),
        n=n,
        confidence=confidence,
    )
