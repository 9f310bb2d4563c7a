"""Differences of two series: distributions, autocorrelation, runs of loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.fit.model import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.model import Distribution, Floats, Indices, Points, Rates

__all__ = ["autocorrelation", "distance", "rate_means", "runs", "runs_of_loss", "to_grid"]

MIN_COVERAGE_RATIO = 0.75
"""Minimum covered ratio of an interval whose rate counts."""


def distance(one: Distribution, other: Distribution) -> float:
    """Return the Kolmogorov distance: the maximum difference of the distribution functions."""
    values = np.unique(np.concatenate([one.values, other.values]))
    return float(np.abs(one.below(values) - other.below(values)).max())


def to_grid(points: Points) -> Floats:
    """Return the delays on a grid of the points' step, less their mean; lost or missing ones are NaN."""
    index = np.round((points.at_s - points.at_s[0]) / points.step_s()).astype(np.int64)
    grid = np.full(int(index[-1]) + 1, np.nan)
    grid[index] = points.delay_ms
    grid -= np.nanmean(grid)
    return grid


def autocorrelation(points: Points, lags_s: Sequence[float]) -> list[float]:
    """Return the autocorrelation of the delay over time at each lag; losses are omitted."""
    grid = to_grid(points)
    variance = float(np.nanmean(grid * grid))
    found = []
    for lag in lags_s:
        apart = max(1, round(lag / points.step_s()))
        product = grid[:-apart] * grid[apart:] if apart < len(grid) else np.array([np.nan])
        known = ~np.isnan(product)
        found.append(float(product[known].mean() / variance) if known.any() and variance > 0 else 0.0)
    return found


def runs(points: Points) -> tuple[Indices, Indices]:
    """Return begin and end indices of runs of losses."""
    lost = np.concatenate([[False], np.isnan(points.delay_ms), [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(lost)).astype(np.int64)
    return edges[::2], edges[1::2]


def runs_of_loss(points: Points) -> dict[int, int]:
    """Return the number of runs by their length in losses."""
    starts, stops = runs(points)
    lengths, counts = np.unique(stops - starts, return_counts=True)
    return {int(length): int(count) for length, count in zip(lengths, counts, strict=True)}


def rate_means(rates: Rates, every_s: float) -> Floats:
    """Return the mean rate of each interval that the log has nearly whole, bit/s."""
    slots = numbers(rates.at_s, every_s, rates.phase_s)
    which, place, counts = np.unique(slots, return_inverse=True, return_counts=True)
    totals = np.bincount(place, weights=rates.bit_s, minlength=len(which))
    full = counts >= MIN_COVERAGE_RATIO * counts.max()
    means: Floats = totals[full] / counts[full]
    return means
