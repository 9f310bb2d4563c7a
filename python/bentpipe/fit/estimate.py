"""Distributions of interval properties, from a log and the phase of its intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.fit.model import Bursts, Distribution, Model, Points, Rates, interpolate, numbers, sample
from bentpipe.fit.model_comparison import autocorrelation, distance, rate_means, to_grid
from bentpipe.fit.outages import outages
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.model import Floats, Indices

__all__ = ["fit_delays", "fit_rates"]

QUANTILES = (41, 101, 201, 401, 801)
"""Sizes of a table: the first with accurate tails is taken, at most as many as there are values."""
TAILS = (0.001, 0.005, 0.01, 0.02, 0.98, 0.99, 0.995, 0.999)
"""Ranks at which a table is compared with the values."""
TAIL_ERROR = 0.02
"""Maximum relative difference at these ranks."""
LEVELS = (0.05, 0.5)
"""Quantiles that may be the delay of an interval; the rest is jitter. A minimum would depend on one point."""
ENDS = (0.001, 0.999)
"""Quantiles that are the minimum and maximum jitter, for the same reason."""
MIN_COVERAGE_RATIO, MIN_ANSWERS = 1 / 3, 10
"""Minimum covered ratio of an interval, and minimum answers in it; single losses need both outside outages."""
STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2)
LAGS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SEEDS = (1, 2, 3)


def _table(values: Distribution) -> list[float]:
    """Return quantiles at even ranks, so many that the tails between them are right."""
    tails = values.quantiles(TAILS)
    table: Floats = values.quantiles([0.0, 1.0])
    for points in QUANTILES:
        table = values.quantiles(np.linspace(0, 1, max(2, min(points, len(values.values)))))
        error = np.abs(interpolate(table, np.asarray(TAILS)) - tails)
        if points >= len(values.values) or (error <= TAIL_ERROR * np.abs(tails)).all():
            break
    return [float(one) for one in table]


def _averages(values: Sequence[float]) -> list[float]:
    """Return a table of as many points as keep the values apart, from which their mean is drawn."""
    points = min(QUANTILES[-1], 2 * len(values) + 1)
    return [float(one) for one in Distribution.of(np.asarray(values)).averages(points)]


def fit_delays(points: Points, model: Model) -> None:
    """Fit delay, jitter, correlation, outages and single losses of the intervals to ``model``.

    Raises:
        ScenarioError: no interval has enough answers.
    """
    slots = numbers(points.at_s, model.every_s, model.phase_s)
    weights_s = points.weights_s
    insides, singles, lengths = [], [], []
    boundaries, known = 0, outages(points, model.every_s, model.phase_s)
    for number in np.unique(slots):
        inside = np.flatnonzero(slots == number)
        if weights_s[inside].sum() < MIN_COVERAGE_RATIO * model.every_s:
            continue  # the first and last interval, and gaps of the log
        if float(number) * model.every_s + model.phase_s >= points.at_s[0]:
            boundaries += 1
            if (lost_s := known.lost_s.get(int(number), 0.0)) > 0:
                lengths.append(1000 * lost_s)
        lost = np.isnan(points.delay_ms[inside])
        rest = ~known.inside[inside]
        if rest.sum() >= MIN_ANSWERS and weights_s[inside][rest].sum() >= MIN_COVERAGE_RATIO * model.every_s:
            singles.append(float(np.average(lost[rest], weights=weights_s[inside][rest])))
        if (~lost).sum() >= MIN_ANSWERS:
            insides.append(inside)
    if not insides:
        text = f"no interval of {model.every_s:g} s with at least {MIN_ANSWERS} answers"
        raise ScenarioError([("", text)])
    model.slots = len(insides)
    if singles and np.isnan(points.delay_ms).any():
        model.loss = _averages(singles)
    if lengths:
        model.bursts = Bursts(len(lengths) / boundaries, tuple(_averages(lengths)), len(lengths), boundaries)
    _fit_jitter(points, insides, model)


def _fit_jitter(points: Points, insides: Sequence[Indices], model: Model) -> None:
    """Fit the delay of intervals, the jitter, its step and its correlation.

    The fit tries a few levels and steps. It takes those with samples nearest to the log in distribution and
    autocorrelation. The correlation of a step is that of the jitter's normal scores at its lag. Packets do not
    overtake, so a shorter jitter step raises the delay of a dense flow above the table: no step matches both.
    """
    spacing = points.step_s()
    lags = [lag for lag in LAGS_S if lag >= spacing] or [spacing]
    data = np.asarray(autocorrelation(points, lags))
    delays, weights_s = points.delays, points.weights_s
    least, best = float(delays.quantiles(ENDS)[0]), np.inf
    for level in LEVELS:
        around = np.full(len(points.at_s), np.nan)
        levels = []
        for inside in insides:
            delays_ms = points.delay_ms[inside]
            known = ~np.isnan(delays_ms)
            inner = Distribution.of(delays_ms[known], weights_s[inside][known])
            levels.append(float(inner.quantiles([level])[0]))
            around[inside] = delays_ms - levels[-1]
        known = ~np.isnan(around)
        low, high = (float(one) for one in Distribution.of(around[known], weights_s[known]).quantiles(ENDS))
        # no interval gets below the minimum of the log
        below = min(max(0.0, -low), max(0.0, min(levels) - least))
        candidate = Model(model.every_s, model.phase_s)
        candidate.delay_ms = _table(Distribution.of(np.asarray(levels) - below))
        cut = np.clip(around[known], -below, high) + below
        candidate.jitter_ms = _table(Distribution.of(cut, weights_s[known]))
        grid = to_grid(Points(points.at_s, _scores(around)))
        for candidate.step_s in [step for step in STEPS_S if step >= 0.75 * spacing] or [spacing]:
            candidate.correlation = _correlation(grid, max(1, round(candidate.step_s / spacing)))
            samples = [sample(candidate, points.at_s, seed) for seed in SEEDS]
            sample_autocorrelation = np.mean([autocorrelation(one, lags) for one in samples], axis=0)
            error = distance(delays, Distribution.pooled(samples))
            error += float(np.abs(sample_autocorrelation - data).mean())
            if error < best:
                best, model.delay_ms, model.jitter_ms = error, candidate.delay_ms, candidate.jitter_ms
                model.step_s, model.correlation = candidate.step_s, candidate.correlation


def _scores(values: Floats) -> Floats:
    """Return the normal scores of the known values."""
    from scipy.stats import norm, rankdata

    known = ~np.isnan(values)
    scores = np.full(len(values), np.nan)
    scores[known] = norm.ppf((rankdata(values[known]) - 0.5) / known.sum())
    return scores


def _correlation(grid: Floats, apart: int) -> float:
    pairs = grid[:-apart] * grid[apart:]
    both = ~np.isnan(pairs)
    spread = float(np.nanmean(grid * grid))
    return float(np.clip(pairs[both].mean() / spread, 0, 0.999)) if both.any() and spread else 0.0


def fit_rates(rates: Rates, toward: str, model: Model) -> None:
    """Fit the rate of intervals: the mean of each, bit/s."""
    means = rate_means(rates, model.every_s)
    model.rate_bit_s[toward] = _table(Distribution.of(np.maximum(1.0, means)))
    model.slots = max(model.slots, len(means))
