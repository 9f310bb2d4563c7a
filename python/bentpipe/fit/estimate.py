"""Distributions of what slots have, out of a log and the phase of its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.fit.model import Bursts, Distribution, Model, Points, Rates, drawn, numbers, sample
from bentpipe.fit.model_comparison import autocorrelation, distance, gridded, rate_means
from bentpipe.fit.outages import outages
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.model import Floats, Indices

__all__ = ["fit_delays", "fit_rates"]

QUANTILES = (41, 101, 201, 401, 801)
"""Points of a table: the first of these with which its tails are right, and no more than there are values."""
TAILS = (0.001, 0.005, 0.01, 0.02, 0.98, 0.99, 0.995, 0.999)
"""Ranks at which a table is held against the values..."""
TAIL_ERROR = 0.02
"""... from which it differs by this share at most."""
LEVELS = (0.05, 0.5)
"""A slot's delay is a quantile of it, and what is around that is jitter; a minimum would hang on one point."""
ENDS = (0.001, 0.999)
"""The least and the largest jitter are these quantiles, for the same reason."""
LEAST_SHARE, LEAST_SEEN = 1 / 3, 10
"""Least share of a slot that the log covers, and least answers in it. Single losses need the same outside outages."""
STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2)
LAGS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SEEDS = (1, 2, 3)


def _table(values: Distribution) -> list[float]:
    """Return quantiles at even ranks, so many that the tails between them are right."""
    tails = values.quantiles(TAILS)
    table: Floats = values.quantiles([0.0, 1.0])
    for points in QUANTILES:
        table = values.quantiles(np.linspace(0, 1, max(2, min(points, len(values.values)))))
        away = np.abs(drawn(table, np.asarray(TAILS)) - tails)
        if points >= len(values.values) or (away <= TAIL_ERROR * np.abs(tails)).all():
            break
    return [float(one) for one in table]


def _averages(values: Sequence[float]) -> list[float]:
    """Return a table of as many points as keep the values apart, from which their mean is drawn."""
    points = min(QUANTILES[-1], 2 * len(values) + 1)
    return [float(one) for one in Distribution.of(np.asarray(values)).averages(points)]


def fit_delays(points: Points, model: Model) -> None:
    """The delay of slots, its jitter and its correlation, outages and single losses."""
    slots = numbers(points.at_s, model.every_s, model.phase_s)
    weights_s = points.weights_s
    insides, singles, lengths = [], [], []
    boundaries, known = 0, outages(points, model.every_s, model.phase_s)
    for number in np.unique(slots):
        inside = np.flatnonzero(slots == number)
        if weights_s[inside].sum() < LEAST_SHARE * model.every_s:
            continue  # the first and the last one, and what a log leaves out
        if float(number) * model.every_s + model.phase_s >= points.at_s[0]:
            boundaries += 1
            if (lost_s := known.lost_s.get(int(number), 0.0)) > 0:
                lengths.append(1000 * lost_s)
        lost = np.isnan(points.delay_ms[inside])
        rest = ~known.inside[inside]
        if rest.sum() >= LEAST_SEEN and weights_s[inside][rest].sum() >= LEAST_SHARE * model.every_s:
            singles.append(float(np.average(lost[rest], weights=weights_s[inside][rest])))
        if (~lost).sum() >= LEAST_SEEN:
            insides.append(inside)
    if not insides:
        text = f"no slot of {model.every_s:g} s with {LEAST_SEEN} answers at least in it"
        raise ScenarioError([("", text)])
    model.slots = len(insides)
    if singles and np.isnan(points.delay_ms).any():
        model.loss = _averages(singles)
    if lengths:
        model.bursts = Bursts(len(lengths) / boundaries, tuple(_averages(lengths)))
    _around(points, insides, model)


def _around(points: Points, insides: Sequence[Indices], model: Model) -> None:
    """The delay of slots, what is around it, how long that holds and how it is correlated.

    Of a few levels and steps, those whose samples are nearest to the log, in distribution and memory. A step's
    correlation is that of the jitter's normal scores at its lag. As nobody overtakes, what a dense flow sees is the
    more above the table the shorter a jitter holds: no step gets both.
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
            here = points.delay_ms[inside]
            known = ~np.isnan(here)
            inner = Distribution.of(here[known], weights_s[inside][known])
            levels.append(float(inner.quantiles([level])[0]))
            around[inside] = here - levels[-1]
        known = ~np.isnan(around)
        low, high = (float(one) for one in Distribution.of(around[known], weights_s[known]).quantiles(ENDS))
        # no slot gets below what the log has been
        below = min(max(0.0, -low), max(0.0, min(levels) - least))
        tried = Model(model.every_s, model.phase_s)
        tried.delay_ms = _table(Distribution.of(np.asarray(levels) - below))
        cut = np.clip(around[known], -below, high) + below
        tried.jitter_ms = _table(Distribution.of(cut, weights_s[known]))
        grid = gridded(Points(points.at_s, _scores(around)))
        for tried.step_s in [step for step in STEPS_S if step >= 0.75 * spacing] or [spacing]:
            tried.correlation = _correlation(grid, max(1, round(tried.step_s / spacing)))
            samples = [sample(tried, points.at_s, seed) for seed in SEEDS]
            memory = np.mean([autocorrelation(one, lags) for one in samples], axis=0)
            away = distance(delays, Distribution.pooled(samples))
            away += float(np.abs(memory - data).mean())
            if away < best:
                best, model.delay_ms, model.jitter_ms = away, tried.delay_ms, tried.jitter_ms
                model.step_s, model.correlation = tried.step_s, tried.correlation


def _scores(values: Floats) -> Floats:
    """Normal scores of what is known."""
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
    """The rate of slots: the mean of each."""
    means = rate_means(rates, model.every_s)
    model.rate_bit_s[toward] = _table(Distribution.of(np.maximum(1.0, means)))
    model.slots = max(model.slots, len(means))
