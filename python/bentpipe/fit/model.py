"""Model of the reconfiguration intervals of a log, and samples of it.

It is a second implementation of the model (docs/explanation/path.md), which shares no code with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Bursts",
    "Distribution",
    "Floats",
    "Indices",
    "Model",
    "Points",
    "Rates",
    "interpolate",
    "numbers",
    "sample",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


MAX_VALID_S, MAX_VALID_STEPS = 1.0, 10
"""Maximum time and steps for which a point is valid; beyond either nothing is known."""


@dataclass(frozen=True)
class Distribution:
    """Values in rising order, each with a weight."""

    values: Floats
    weights: Floats

    @staticmethod
    def of(values: Floats, weights: Floats | None = None) -> Distribution:
        """Return the distribution of ``values``; without ``weights`` all weigh the same."""
        order = np.argsort(values, kind="stable")
        return Distribution(values[order], np.ones(len(values)) if weights is None else weights[order])

    @staticmethod
    def pooled(several: Sequence[Points]) -> Distribution:
        """Return the distribution of all delays of several series."""
        each = [one.delays for one in several]
        weights = np.concatenate([one.weights for one in each])
        return Distribution.of(np.concatenate([one.values for one in each]), weights)

    def quantiles(self, ranks: Floats | Sequence[float]) -> Floats:
        """Return values at ``ranks`` from 0 to 1, linear in between.

        With equal weights they are the sample quantiles of type 7 (Hyndman and Fan 1996).
        """
        reached = np.cumsum(self.weights) - (self.weights + self.weights[0]) / 2
        found: Floats = np.interp(np.asarray(ranks), reached / max(reached[-1], 1e-300), self.values)
        return found

    def averages(self, points: int) -> Floats:
        """Return the mean of the values within half a step of each of ``points`` even ranks.

        Lines between these keep the mean of all values, however far the largest is from the others; quantiles
        do not.
        """
        edges = np.clip((np.arange(points + 1) - 0.5) / (points - 1), 0, 1)
        ranks = np.concatenate([[0.0], np.cumsum(self.weights)]) / self.weights.sum()
        sums = np.concatenate([[0.0], np.cumsum(self.weights * self.values)]) / self.weights.sum()
        means = np.diff(np.interp(edges, ranks, sums)) / np.diff(edges)
        # Rounded sums may leave the range of the values, or fall.
        rising: Floats = np.maximum.accumulate(np.clip(means, self.values[0], self.values[-1]))
        return rising

    def below(self, values: Floats) -> Floats:
        """Return the ratio of weight at or below each of ``values``."""
        reached = np.concatenate([[0.0], np.cumsum(self.weights)])
        shares: Floats = reached[np.searchsorted(self.values, values, side="right")] / reached[-1]
        return shares


@dataclass(frozen=True)
class Points:
    """Delays over time; NaN is a loss. A point is valid until the next one."""

    at_s: Floats
    delay_ms: Floats

    @property
    def seen(self) -> Floats:
        """Delays of the points that were not lost, ms."""
        return self.delay_ms[~np.isnan(self.delay_ms)]

    @property
    def weights_s(self) -> Floats:
        """Time for which each point is valid, s."""
        step_s = self.step_s()
        gaps = np.diff(self.at_s, append=self.at_s[-1] + step_s)
        weights: Floats = np.minimum(gaps, max(MAX_VALID_S, MAX_VALID_STEPS * step_s))
        return weights

    @property
    def delays(self) -> Distribution:
        """Distribution of the delays that were not lost, weighted by time."""
        known = ~np.isnan(self.delay_ms)
        return Distribution.of(self.delay_ms[known], self.weights_s[known])

    @property
    def lost(self) -> float:
        """Ratio of time in which points were lost."""
        return float(np.average(np.isnan(self.delay_ms), weights=self.weights_s))

    def part(self, begin_s: float, end_s: float) -> Points:
        """Return the points in a part of the time."""
        inside = (self.at_s >= begin_s) & (self.at_s < end_s)
        return Points(self.at_s[inside], self.delay_ms[inside])

    def step_s(self) -> float:
        """Return the median time from one point to the next, s."""
        return max(1e-3, float(np.median(np.diff(self.at_s))))


@dataclass(frozen=True)
class Rates:
    """Rates of one direction over time, each valid until the next one, and the phase of their intervals."""

    at_s: Floats
    bit_s: Floats
    phase_s: float = 0.0

    def part(self, begin_s: float, end_s: float) -> Rates:
        """Return the rates in a part of the time."""
        inside = (self.at_s >= begin_s) & (self.at_s < end_s)
        return Rates(self.at_s[inside], self.bit_s[inside], self.phase_s)


@dataclass(frozen=True)
class Bursts:
    """Loss bursts at the start of intervals."""

    probability: float
    length_ms: tuple[float, ...]
    count: int = 0
    """Number of intervals of the log with a burst."""
    intervals: int = 0
    """Number of intervals whose start is in the log."""


@dataclass
class Model:
    """Reconfiguration intervals; distributions are quantiles at equally spaced probabilities."""

    every_s: float
    phase_s: float = 0.0
    delay_ms: list[float] = field(default_factory=list)
    jitter_ms: list[float] = field(default_factory=list)
    step_s: float = 0.01
    correlation: float = 0.0
    loss: list[float] = field(default_factory=list)
    bursts: Bursts | None = None
    rate_bit_s: dict[str, list[float]] = field(default_factory=dict)
    slots: int = 0
    most_loss: dict[str, float] = field(default_factory=dict)
    """Maximum mean of single losses of a direction, as TCP's retransmissions allow."""


def numbers(at_s: Floats, every_s: float, phase_s: float) -> Indices:
    """Return the number of the interval of each instant."""
    return np.floor((at_s - phase_s) / every_s).astype(np.int64)


def interpolate(table: Sequence[float] | Floats, ranks: Floats) -> Floats:
    """Return the values of a table of quantiles at ``ranks``, linear in between."""
    values: Floats = np.interp(ranks, np.linspace(0, 1, len(table)), np.asarray(table, float))
    return values


def sample(model: Model, at_s: Floats, seed: int = 1) -> Points:
    """Return delays and losses of the model at rising instants; packets do not overtake."""
    from scipy.signal import lfilter
    from scipy.stats import norm

    random = np.random.default_rng(seed)
    slots = numbers(at_s, model.every_s, model.phase_s)
    first = int(slots[0])
    count, place = int(slots[-1]) - first + 1, slots - first
    within_s = at_s - slots * model.every_s - model.phase_s
    base = interpolate(model.delay_ms, random.random(count))[place]
    steps = max(1, int(np.ceil(model.every_s / model.step_s)))
    innovations = random.standard_normal((count, steps)) * np.sqrt(1 - model.correlation**2)
    initial = random.standard_normal((count, 1))
    scores, _ = lfilter([1.0], [1.0, -model.correlation], innovations, axis=1, zi=model.correlation * initial)
    step = np.clip((within_s / model.step_s).astype(np.int64), 0, steps - 1)
    delay = base + interpolate(model.jitter_ms, norm.cdf(scores[place, step]))
    arrived = np.maximum.accumulate(at_s * 1000 + delay)
    delay = arrived - at_s * 1000
    lost = np.zeros(len(at_s), bool)
    if model.loss:
        lost |= random.random(len(at_s)) < interpolate(model.loss, random.random(count))[place]
    if model.bursts is not None:
        is_one = random.random(count) < model.bursts.probability
        length = np.where(is_one, interpolate(model.bursts.length_ms, random.random(count)), 0.0)
        lost |= within_s * 1000 < length[place]
    return Points(at_s, np.where(lost, np.nan, delay))
