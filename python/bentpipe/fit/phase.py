"""Phase of the intervals: minimum spread of the delay within intervals, and begin of loss bursts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bentpipe.fit.model_comparison import runs
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from bentpipe.fit.model import Points

__all__ = ["Phase", "find", "refine_phase"]

BIN_S = 0.25
"""Resolution of the phase, s."""
MIN_INTERVALS = 4
MIN_POINTS = 10
"""Minimum points of an interval."""
SURROGATES = 99
"""Number of shuffled logs: a log without order passes in one of 100 cases."""
PIECES = 3
"""Pieces of an interval that keep their order in a shuffled log: longer than most other correlation."""
BURST_S, MIN_BURSTS = 0.15, 4
"""Minimum length of a handover's loss burst, s, and minimum number of bursts."""
NEAR_S, MAX_DEVIATION_S = 1.0, 0.1
"""Maximum distance of a burst from the phase, and maximum median deviation, s."""
CUT = (1, 95)
"""Percentiles at which values are clipped, so that handovers and bad intervals do not dominate."""


@dataclass(frozen=True)
class Phase:
    """Estimated phase."""

    phase_s: float
    """First boundary after second 0 of a minute (of the log, without time of day), s."""
    spread: float
    """Mean standard deviation within intervals at this phase."""
    worst: float
    """Maximum of the mean standard deviation: mostly half an interval off."""
    spreads: tuple[float, ...]
    """Mean standard deviation at each phase, every :data:`BIN_S`."""


def find(at_s: NDArray[np.float64], values: NDArray[np.float64], every_s: float, source: str) -> Phase:
    """Estimate the phase of intervals of ``every_s``.

    Args:
        at_s: times of the answered points, s.
        values: their values.
        every_s: length of an interval, s.
        source: name of the log.

    Raises:
        ScenarioError: the log is shorter than a few intervals, or its delay shows none.
    """
    span = float(at_s[-1] - at_s[0]) if len(at_s) else 0.0
    if span < (MIN_INTERVALS + 1) * every_s:
        text = (
            f"it has {span:.3g} s, expected at least {(MIN_INTERVALS + 1) * every_s:g} s: "
            f"{MIN_INTERVALS + 1} intervals"
        )
        raise ScenarioError([("", text)], source)
    if len(at_s) * every_s < MIN_POINTS * span:
        text = (
            f"it has {len(at_s) * every_s / span:.2g} points in {every_s:g} s, expected at least {MIN_POINTS}"
        )
        raise ScenarioError([("", text)], source)
    low, high = np.percentile(values, CUT)
    cut = np.clip(values, low, high)
    origin = np.floor(at_s[0] / every_s) * every_s
    index = np.floor((at_s - origin) / BIN_S).astype(np.int64)
    bins = np.zeros((3, int(index[-1]) + 1))
    centred = cut - cut.mean()
    for row, weights in enumerate((np.ones_like(cut), centred, centred * centred)):
        bins[row] = np.bincount(index, weights=weights, minlength=bins.shape[1])
    size = round(every_s / BIN_S)
    spreads = _spreads(bins, size)
    gain = float(spreads.max() - spreads.min())
    random = np.random.default_rng(1)
    block = size // PIECES
    whole = bins[:, : bins.shape[1] // block * block].reshape(3, -1, block)
    for _ in range(SURROGATES):
        mixed = whole[:, random.permutation(whole.shape[1])].reshape(3, -1)
        other = _spreads(mixed, size)
        if other.max() - other.min() >= gain:
            text = f"no intervals of {every_s:g} s found: the spread within them is {spreads.min():.4g} to "
            text += f"{spreads.max():.4g} at every phase, as in a shuffled log"
            raise ScenarioError([("", text)], source)
    best = int(np.argmin(spreads))
    # With samples a second apart several phases are equal; an interval begins with its first sample.
    for _ in range(size):
        if spreads[(best + 1) % size] > spreads[best] * (1 + 1e-9):
            break
        best = (best + 1) % size
    return Phase(
        best * BIN_S, float(spreads[best]), float(spreads.max()), tuple(float(one) for one in spreads)
    )


def refine_phase(points: Points, phase_s: float, every_s: float) -> float:
    """Return the phase at which bursts of loss begin, to 10 ms; ``phase_s`` without enough of them nearby."""
    starts, stops = runs(points)
    step_s = points.step_s()
    length = stops - starts
    off = (points.at_s[starts] - phase_s + every_s / 2) % every_s - every_s / 2
    near = off[(length >= 2) & (length * step_s >= BURST_S) & (np.abs(off) <= NEAR_S)]
    if len(near) < MIN_BURSTS:
        return phase_s
    middle = float(np.median(near))
    if float(np.median(np.abs(near - middle))) > max(MAX_DEVIATION_S, step_s):
        return phase_s
    return round((phase_s + middle) % every_s, 2) % every_s


def _median(values: NDArray[np.float64]) -> float:
    """Return the median; numpy's takes ten times as long for some tens of values."""
    known = np.sort(values)
    return float((known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2)


def _spreads(bins: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the mean standard deviation within intervals of ``size`` bins, for each phase.

    Intervals less than three quarters full are omitted.
    """
    found = np.full(size, np.inf)
    for phase in range(size):
        slots = (bins.shape[1] - phase) // size
        if slots < 1:
            continue
        n, total, square = bins[:, phase : phase + slots * size].reshape(3, slots, size).sum(axis=2)
        seen = n > 0
        full = n >= 0.75 * _median(n[seen]) if seen.any() else seen
        full &= n >= MIN_POINTS / 2
        if full.sum() >= MIN_INTERVALS - 1:
            mean = total[full] / n[full]
            found[phase] = np.sqrt(np.maximum(0.0, square[full] / n[full] - mean * mean)).mean()
    return np.where(np.isfinite(found), found, found[np.isfinite(found)].max(initial=0.0))
