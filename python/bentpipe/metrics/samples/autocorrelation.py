"""Autocorrelation of a sample in the order in which it was taken: is each value independent of those before it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.metrics.intervals import CONFIDENCE

FEWEST = 8
"""Values below which nothing is said: there would be less than two lags."""

MOST_LAGS = 40
"""Lags that are looked at by default, however many values there are: those of Brockwell and Davis' rule."""


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """Coefficients at lags 1, 2, ... and the zone in which independent values leave 95 % of them.

    ``far`` is the wider zone that independent values leave at any of the lags in 2.5 % of the cases.
    """

    coefficients: tuple[float, ...]
    zone: float
    far: float
    n: int
    confidence: float

    @property
    def lags(self) -> int:
        """How many lags there are."""
        return len(self.coefficients)

    @property
    def outside(self) -> int:
        """How many of them lie outside the zone."""
        return sum(abs(r) > self.zone for r in self.coefficients)

    @property
    def expected(self) -> float:
        """How many of independent values would, on average."""
        return self.lags * (1 - self.confidence)

    @property
    def chance(self) -> float:
        """Probability that of independent values as many or more lie outside (binomial over the lags)."""
        p = 1 - self.confidence
        return math.fsum(
            math.comb(self.lags, k) * p**k * (1 - p) ** (self.lags - k)
            for k in range(self.outside, self.lags + 1)
        )

    @property
    def independent(self) -> bool:
        """The verdict: False where the coefficients speak against independence.

        They do when so many lie outside the zone that chance does it in under 2.5 % of the cases, or when one lies
        outside the wider zone, which chance does in about 2.5 % too. Brockwell and Davis, Introduction to Time Series
        and Forecasting (2016), section 1.6 (a), reject on the same two signs: more outside than the expected few, or
        one far outside. True is no proof: it is the absence of a sign.
        """
        limit = (1 - self.confidence) / 2
        return self.chance >= limit and max(map(abs, self.coefficients)) <= self.far

    @property
    def reason(self) -> str:
        """The verdict in words."""
        counted = f"{self.outside} of {self.lags} lags outside ±{self.zone:.2f}, {self.expected:.1f} expected"
        largest = max(self.coefficients, key=abs)
        if abs(largest) > self.far:
            return f"{counted}; {largest:.2f} at lag {self.coefficients.index(largest) + 1} is far outside"
        return counted


def autocorrelation(
    values: Sequence[float], lags: int | None = None, confidence: float = CONFIDENCE
) -> Autocorrelation | None:
    """Sample autocorrelation of ``values`` at lags 1 to ``lags``; by default a quarter of their number, at most 40.

    r(k) = sum (x(t) - m)(x(t + k) - m) / sum (x(t) - m)^2. Of independent values r(k) is about Gaussian with variance
    1/n, so the zone is +-1.96 / sqrt(n) at 95 % (Le Boudec 2010, section 2.3.2; Brockwell and Davis, section 1.6);
    lags beyond n / 4 have too few products (Box, Jenkins, Reinsel and Ljung 2015, chapter 2).
    ``None`` for fewer than 8 values or values without spread. Raises ValueError when ``lags`` is not from 1 to n - 1.
    """
    n = len(values)
    if lags is not None and not 1 <= lags < max(n, 2):
        raise ValueError(f"lags: {lags} is not from 1 to {n - 1}")
    if n < FEWEST or len(set(values)) == 1:
        return None
    from scipy.special import ndtri

    count = min(n // 4, MOST_LAGS) if lags is None else lags
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
