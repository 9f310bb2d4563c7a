"""Statistics of independent samples.

- ``autocorrelation``: autocorrelation and test of independence
- ``box_plot``: statistics of a notched box plot
- ``ecdf``: empirical distribution function
- ``median_ratio``: ratios of two samples with intervals
- ``ordering``: order of two samples by intervals and distributions
- ``welch``: Welch's t-test

A sample is a sequence of numbers with one value for each seed. Every function is pure, deterministic and independent of
stores. docs/explanation/statistics.md has the formulas and their conditions. Medians and their intervals are in
:mod:`~bentpipe.metrics.intervals`, Jain's index is ``compute.jain_index``.

Functions import SciPy locally, because importing it costs more than the rest of the command line.
"""

from __future__ import annotations

from bentpipe.metrics.samples.autocorrelation import Autocorrelation, autocorrelation
from bentpipe.metrics.samples.box_plot import NotchedBox, notched_box
from bentpipe.metrics.samples.ecdf import Ecdf, ecdf
from bentpipe.metrics.samples.median_ratio import mean_ratio, median_ratio
from bentpipe.metrics.samples.ordering import (
    Comparison,
    Order,
    Smaller,
    compare_times,
    disjoint_intervals,
    stochastic_dominance,
)
from bentpipe.metrics.samples.welch import Welch, welch

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
