"""Statistics of independent samples: boxes, distributions, orders, tests, ratios.

A sample is a sequence of numbers: one value a unit of a study, which is a seed here. Every function is pure and
deterministic and knows nothing of stores; docs/models/statistics.md has the formulas and when each is right. Medians
and their intervals are in :mod:`bentpipe.stats.intervals`, Jain's index is :func:`bentpipe.stats.metrics.jain_index`.

SciPy is imported where it is used, because importing it costs more than the rest of the command line.
"""

from __future__ import annotations

from bentpipe.stats.samples.autocorrelation import Autocorrelation, autocorrelation
from bentpipe.stats.samples.box import NotchedBox, notched_box
from bentpipe.stats.samples.ecdf import Ecdf, ecdf
from bentpipe.stats.samples.orders import (
    Comparison,
    Order,
    Smaller,
    compare_times,
    disjoint_intervals,
    stochastic_dominance,
)
from bentpipe.stats.samples.ratio import mean_ratio, median_ratio
from bentpipe.stats.samples.welch import Welch, welch

__all__ = [
    "Autocorrelation",
    "Comparison",
    "Ecdf",
    "NotchedBox",
    "Order",
    "Smaller",
    "Welch",
    "autocorrelation",
    "compare_times",
    "disjoint_intervals",
    "ecdf",
    "mean_ratio",
    "median_ratio",
    "notched_box",
    "stochastic_dominance",
    "welch",
]
