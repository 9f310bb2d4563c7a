"""Outages: runs of losses that are hardly single losses, and their time in each interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bentpipe.fit.model import numbers
from bentpipe.fit.model_comparison import runs

if TYPE_CHECKING:
    from bentpipe.fit.model import Floats, Indices, Points

__all__ = ["Outages", "outages"]

NEAR_S = (-0.75, 1.0)
"""Range around a boundary in which a handover begins; the phase is known to about half a second."""
RARE = 1e-3
"""Maximum probability that single losses of an interval make a run as long as an outage."""
KNOWN_ANSWERS = 10
"""Weight of the log's loss probability, in answers of an interval."""


@dataclass(frozen=True)
class Outages:
    """Outages of a log."""

    inside: NDArray[np.bool_]
    """Whether each point is lost in an outage."""
    lost_s: dict[int, float]
    """Time in outages by interval, s. One that begins shortly before a boundary belongs to the intervals behind it."""


def outages(points: Points, every_s: float, phase_s: float) -> Outages:
    """Find runs of losses too long for chance, and intervals without an answer.

    One run may be long by chance near an expected handover. Elsewhere an interval has as many starts as points.
    """
    lost = np.isnan(points.delay_ms)
    slots = numbers(points.at_s, every_s, phase_s)
    first, counts, chances = _chances(lost, slots)
    inside = np.zeros(len(lost), bool)
    lost_s: dict[int, float] = {}
    weights_s = points.weights_s
    for start, stop in zip(*runs(points), strict=True):
        slot = int(slots[start])
        within_s = float(points.at_s[start]) - slot * every_s - phase_s
        early = within_s >= every_s + NEAR_S[0]
        places = 1 if early or within_s < NEAR_S[1] else int(counts[slot - first])
        count = int(stop - start)
        if count < 2 or places * float(chances[slot - first]) ** count >= RARE:
            continue
        inside[start:stop] = True
        own = slots[start:stop]
        if early:
            since_s = points.at_s[start:stop] - points.at_s[start]
            own = slot + 1 + np.floor(since_s / every_s).astype(np.int64)
        for number in np.unique(own):
            took_s = float(weights_s[start:stop][own == number].sum())
            lost_s[int(number)] = lost_s.get(int(number), 0.0) + took_s
    answers = np.bincount(slots - first, weights=~lost)
    silent = (answers == 0)[slots - first]
    inside |= silent
    whole = dict.fromkeys((int(slot) for slot in np.unique(slots[silent])), every_s)
    return Outages(inside, {slot: min(took_s, every_s) for slot, took_s in (lost_s | whole).items()})


def _chances(lost: NDArray[np.bool_], slots: Indices) -> tuple[int, Indices, Floats]:
    """Return the number of the first slot, and of each one on from it its points and its chance of a single loss.

    The chance is the share of answers behind which a loss follows: a run counts once, however long it is. It is the
    log's at least.
    """
    first = int(slots[0])
    place = slots - first
    counts = np.bincount(place)
    answers = np.bincount(place, weights=~lost)
    follows = ~lost[:-1] & lost[1:]
    begun = np.bincount(place[:-1], weights=follows, minlength=len(counts))
    whole = float(begun.sum() / max(1.0, answers.sum()))
    chances: Floats = np.maximum(whole, (begun + KNOWN_ANSWERS * whole) / (answers + KNOWN_ANSWERS))
    return first, counts, chances
