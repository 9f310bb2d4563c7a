"""Model beside data: fitted to the whole log, and fitted to the first half and tested on the second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.fit.estimate import fit_delays, fit_rates
from bentpipe.fit.losses import single_loss_bound
from bentpipe.fit.model import Distribution, Model, interpolate, sample
from bentpipe.fit.model_comparison import autocorrelation, distance, rate_means
from bentpipe.fit.phase import find, refine_phase
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from bentpipe.fit.log_merge import MergedLogs
    from bentpipe.fit.model import Points, Rates

__all__ = ["DISTANCE", "SEEDS", "GoodnessOfFit", "Half", "evaluate_fit", "fit_model", "half_of"]

SEEDS = range(1, 21)
"""Seeds of samples of the log's length, so that the chance of the model averages out."""
SHARES = (5, 50, 95, 99)
MIN_INTERVALS = 2
"""Minimum number of intervals of a half."""
DISTANCE = "Kolmogorov-Smirnov distance, %"
"""Maximum distance of distributions from the data.

That of the test data is their distance from the training data, which no model of these can be expected to beat.
"""
COLUMNS = ("data", "model", "test data", "model of training data")
"""The whole log and its model; the second half of the log and a model of the first half."""


@dataclass(frozen=True)
class Half:
    """Model of the first half of a log, and the second half."""

    model: Model
    first: Points
    second: Points
    own_phase: bool
    """Whether the first half alone determines the phase; else the whole log does."""


@dataclass(frozen=True)
class GoodnessOfFit:
    """Numbers of data and model, by name."""

    rows: list[dict[str, Any]]
    slots: int
    """Number of intervals that the half's model was fitted to; 0 when the log is too short for halves."""
    half: Half | None
    """Model and halves of the delays."""


def fit_model(found: MergedLogs, every_s: float) -> Model:
    """Return the model of the whole log."""
    model = Model(every_s, found.phase_s)
    if found.points is not None:
        fit_delays(found.points, model)
    for side, rates in found.rates.items():
        fit_rates(rates, side, model)
    bounds = {side: single_loss_bound(transfer) for side, transfer in found.transfers.items()}
    model.most_loss = {side: bound for side, bound in bounds.items() if bound is not None}
    return model


def evaluate_fit(found: MergedLogs, model: Model) -> GoodnessOfFit:
    """Compare models with the data of their fit, and with data outside it."""
    columns: dict[str, dict[str, float]] = {name: {} for name in COLUMNS}
    slots, half = 0, None
    if found.points is not None:
        _delays(found.points, model, columns["data"], columns["model"])
        half = half_of(found.points, model)
        if half is not None:
            slots = half.model.slots
            _delays(half.second, half.model, columns["test data"], columns["model of training data"])
            columns["test data"][DISTANCE] = 100 * distance(half.first.delays, half.second.delays)
    for side, rates in found.rates.items():
        _rates(rates, model.rate_bit_s[side], side, model.every_s, columns["data"], columns["model"])
        middle = _middle(rates.at_s[0], rates.at_s[-1], rates.phase_s, model.every_s)
        first, second_rates = rates.part(-np.inf, middle), rates.part(middle, np.inf)
        if (
            min(
                len(rate_means(part, model.every_s)) if len(part.at_s) else 0
                for part in (first, second_rates)
            )
            < MIN_INTERVALS
        ):
            continue
        other = Model(model.every_s)
        fit_rates(first, side, other)
        slots = max(slots, other.slots)
        _rates(
            second_rates, other.rate_bit_s[side], side, model.every_s,
            columns["test data"], columns["model of training data"],
        )  # fmt: skip
    rows = [
        {"quantity": name, **{column: cells.get(name) for column, cells in columns.items()}}
        for name in columns["model"]
    ]
    return GoodnessOfFit(rows, slots, half)


def _middle(begin: float, end: float, phase: float, every: float) -> float:
    return float(np.floor(((begin + end) / 2 - phase) / every) * every + phase)


def half_of(points: Points, model: Model) -> Half | None:
    """Return the log in two halves; ``None`` when it is too short."""
    begin, end = float(points.at_s[0]), float(points.at_s[-1])
    middle = _middle(begin, end, model.phase_s, model.every_s)
    if middle - begin < MIN_INTERVALS * model.every_s or end - middle < MIN_INTERVALS * model.every_s:
        return None
    first, second = points.part(begin, middle), points.part(middle, np.inf)
    half = Model(model.every_s, model.phase_s)
    own_phase = True
    known = ~np.isnan(first.delay_ms)
    try:
        first_phase_s = find(first.at_s[known], first.delay_ms[known], model.every_s, "").phase_s
        half.phase_s = refine_phase(first, first_phase_s, model.every_s)
    except ScenarioError:
        own_phase = False
    if not known.any() or np.isnan(second.delay_ms).all():
        return None
    fit_delays(first, half)
    return Half(half, first, second, own_phase)


def _delays(points: Points, model: Model, data: dict[str, float], modelled: dict[str, float]) -> None:
    samples = [sample(model, points.at_s, seed) for seed in SEEDS]
    both = points.delays, Distribution.pooled(samples)
    for share in SHARES:
        name = f"{share}th percentile of the delay, ms"
        data[name], modelled[name] = (float(of.quantiles([share / 100])[0]) for of in both)
    data["lost, %"], modelled["lost, %"] = (
        100 * points.lost,
        100 * float(np.mean([one.lost for one in samples])),
    )
    span = float(points.at_s[-1] - points.at_s[0])
    for lag in (0.1, 1.0, 5.0):
        if points.step_s() <= lag < span / 2:
            name = f"autocorrelation at {lag:g} s"
            data[name] = autocorrelation(points, [lag])[0]
            modelled[name] = float(np.mean([autocorrelation(one, [lag])[0] for one in samples]))
    modelled[DISTANCE] = 100 * distance(*both)


def _rates(
    rates: Rates,
    table: list[float],
    side: str,
    every_s: float,
    data: dict[str, float],
    modelled: dict[str, float],
) -> None:
    means = rate_means(rates, every_s) / 1e6
    ranks = np.linspace(0, 1, 1001)
    values = interpolate(table, ranks) / 1e6
    for share in (5, 50, 95):
        name = f"{share}th percentile of interval rates {side}, Mbit/s"
        data[name], modelled[name] = (float(np.percentile(of, share)) for of in (means, values))
    name = f"mean of intervals {side}, Mbit/s"
    data[name], modelled[name] = float(means.mean()), float(values.mean())
