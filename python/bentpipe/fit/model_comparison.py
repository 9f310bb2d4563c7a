"""How far two sets of points are apart: distributions, autocorrelation, runs of loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.fit.model import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.model import Distribution, Floats, Indices, Points, Rates

__all__ = ["autocorrelation", "distance", "gridded", "rate_means", "runs", "runs_of_loss"]

FULL = 0.75
"""Of a slot whose rate counts: part of it that the log has."""


def distance(one: Distribution, other: Distribution) -> float:
    """Return Kolmogorov's distance: the largest difference of the shares below a value."""
    values = np.unique(np.concatenate([one.values, other.values]))
    return float(np.abs(one.below(values) - other.below(values)).max())


def gridded(points: Points) -> Floats:
    """The delays on a grid of the points' step, less their mean; what is lost or missing is NaN."""
    index = np.round((points.at_s - points.at_s[0]) / points.step_s()).astype(np.int64)
    grid = np.full(int(index[-1]) + 1, np.nan)
    grid[index] = points.delay_ms
    grid -= np.nanmean(grid)
    return grid


def autocorrelation(points: Points, lags_s: Sequence[float]) -> list[float]:
    """Of the delay, over time; what is lost is left out."""
    grid = gridded(points)
    variance = float(np.nanmean(grid * grid))
    found = []
    for lag in lags_s:
        apart = max(1, round(lag / points.step_s()))
        product = grid[:-apart] * grid[apart:] if apart < len(grid) else np.array([np.nan])
        known = ~np.isnan(product)
        found.append(float(product[known].mean() / variance) if known.any() and variance > 0 else 0.0)
    return found


def runs(points: Points) -> tuple[Indices, Indices]:
    """Where runs of losses begin, and where they have ended."""
    lost = np.concatenate([[False], np.isnan(points.delay_ms), [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(lost)).astype(np.int64)
    return edges[::2], edges[1::2]


def runs_of_loss(points: Points) -> dict[int, int]:
    """How many losses in a row there are, and how often."""
    starts, stops = runs(points)
    lengths, counts = np.unique(stops - starts, return_counts=True)
    return {int(length): int(count) for length, count in zip(lengths, counts, strict=True)}


def rate_means(rates: Rates, every_s: float) -> Floats:
    """The mean rate of each slot that the log has nearly whole, bit/s."""
    slots = numbers(rates.at_s, every_s, rates.phase_s)
    which, place, counts = np.unique(slots, return_inverse=True, return_counts=True)
    totals = np.bincount(place, weights=rates.bit_s, minlength=len(which))
    full = counts >= FULL * counts.max()
    means: Floats = totals[full] / counts[full]
    return means
