"""Where slots begin: where the spread of the delay within slots is smallest, and bursts of loss begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bentpipe.fit.model_comparison import runs
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from bentpipe.fit.model import Points

__all__ = ["Phase", "find", "refined"]

BIN_S = 0.25
"""To which a phase is found."""
LEAST_SLOTS = 4
LEAST_POINTS = 10
"""Of a slot."""
SURROGATES = 99
"""A log whose order is lost has a phase as good as a slot's by chance in one of 100 cases."""
PIECES = 3
"""A slot's pieces keep their order in a surrogate: longer than most of what is correlated for other reasons."""
BURST_S, LEAST_BURSTS = 0.15, 4
"""What may be a hand-over's loss, and how many of them say when it is..."""
NEAR_S, TOGETHER_S = 1.0, 0.1
"""... so near to the phase, with this median deviation at most."""
CUT = (1, 95)
"""Percentiles at which values are cut, so that hand-overs and bad slots do not count for more than others."""


@dataclass(frozen=True)
class Phase:
    """What was found."""

    phase_s: float
    """The first boundary after second 0 of a minute (of the log, where it has no time of day)."""
    spread: float
    """Mean standard deviation within slots there..."""
    worst: float
    """... and where it is largest: mostly half a slot off."""
    spreads: tuple[float, ...]
    """For every phase, each :data:`BIN_S`."""


def find(at_s: NDArray[np.float64], values: NDArray[np.float64], every_s: float, source: str) -> Phase:
    """The phase of slots of ``every_s`` in points of a log, of which all were seen; ``source`` is what it is called.

    Raises:
        ScenarioError: a log shorter than a few slots, or one whose delay does not know of slots.
    """
    span = float(at_s[-1] - at_s[0]) if len(at_s) else 0.0
    if span < (LEAST_SLOTS + 1) * every_s:
        text = f"it has {span:.3g} s, expected at least {(LEAST_SLOTS + 1) * every_s:g} s: {LEAST_SLOTS + 1} slots"
        raise ScenarioError([("", text)], source)
    if len(at_s) * every_s < LEAST_POINTS * span:
        text = f"it has {len(at_s) * every_s / span:.2g} points in {every_s:g} s, expected at least {LEAST_POINTS}"
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
            text = f"no slots of {every_s:g} s in it: the spread within them is {spreads.min():.4g} to "
            text += f"{spreads.max():.4g} whatever the phase is, as in a log without order"
            raise ScenarioError([("", text)], source)
    best = int(np.argmin(spreads))
    for _ in range(
        size
    ):  # of samples a second apart several phases are as good: a slot begins with its first one
        if spreads[(best + 1) % size] > spreads[best] * (1 + 1e-9):
            break
        best = (best + 1) % size
    return Phase(
        best * BIN_S, float(spreads[best]), float(spreads.max()), tuple(float(one) for one in spreads)
    )


def refined(points: Points, phase_s: float, every_s: float) -> float:
    """The phase at which bursts of loss begin, to 10 ms, if enough begin together near ``phase_s``; else that."""
    starts, stops = runs(points)
    step_s = points.step_s()
    length = stops - starts
    off = (points.at_s[starts] - phase_s + every_s / 2) % every_s - every_s / 2
    near = off[(length >= 2) & (length * step_s >= BURST_S) & (np.abs(off) <= NEAR_S)]
    if len(near) < LEAST_BURSTS:
        return phase_s
    middle = float(np.median(near))
    if float(np.median(np.abs(near - middle))) > max(TOGETHER_S, step_s):
        return phase_s
    return round((phase_s + middle) % every_s, 2) % every_s


def _median(values: NDArray[np.float64]) -> float:
    """As numpy's, which takes ten times as long for some tens of values."""
    known = np.sort(values)
    return float((known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2)


def _spreads(bins: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Mean standard deviation within slots of ``size`` bins, for each phase; slots less than three quarters full are
    left out."""
    found = np.full(size, np.inf)
    for phase in range(size):
        slots = (bins.shape[1] - phase) // size
        if slots < 1:
            continue
        n, total, square = bins[:, phase : phase + slots * size].reshape(3, slots, size).sum(axis=2)
        seen = n > 0
        full = n >= 0.75 * _median(n[seen]) if seen.any() else seen
        full &= n >= LEAST_POINTS / 2
        if full.sum() >= LEAST_SLOTS - 1:
            mean = total[full] / n[full]
            found[phase] = np.sqrt(np.maximum(0.0, square[full] / n[full] - mean * mean)).mean()
    return np.where(np.isfinite(found), found, found[np.isfinite(found)].max(initial=0.0))
