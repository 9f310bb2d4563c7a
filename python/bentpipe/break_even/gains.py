"""Differences of load times at one round-trip time: sizes at which split TCP is faster or slower, and by how much."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.break_even.ratios import break_even
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.break_even.ratios import Cell, Map
    from bentpipe.metrics.intervals import ConfidenceInterval

__all__ = ["MANY_SEEDS", "Extreme", "Gain", "Range", "Unfinished", "gain", "gains", "is_gain", "is_loss"]

EVEN = 1.005
"""Lowest ratio that counts as a gain; the map displays lower ratios as 1.00."""

WORTH = 1.1
"""Lowest largest gain for which a proxy is worth its upkeep."""

MANY_SEEDS = "too few seeds"
"""Verdict of a ratio of a stochastic cell with fewer seeds than a verdict needs."""

Range = tuple[float | None, float | None]
"""Range of object size in bytes; None stands for a limit beyond the map."""


@dataclass(frozen=True)
class Extreme:
    """Largest or smallest ratio of load times among the objects that both sides finish."""

    ratio: ConfidenceInterval
    size: str


@dataclass(frozen=True)
class Unfinished:
    """Smallest object that one side does not finish within its run, though the other side does."""

    size: str
    limit_s: float
    """Duration of the run."""
    is_always: bool
    """Whether no seed finishes."""
    other_s: float | None
    """Mean load time of the other side, s."""


@dataclass(frozen=True)
class Gain:
    """Load times over one variant without a proxy relative to those over split TCP, at one round-trip time."""

    alternative: str
    """Name of the variant without a proxy."""
    proxy: str
    rtt: str
    faster: tuple[Range, ...]
    """Object sizes for which split TCP is faster."""
    slower: tuple[Range, ...]
    """Object sizes for which split TCP is slower."""
    worth: tuple[Range, ...]
    """Object sizes for which split TCP is faster by a factor of :data:`WORTH`."""
    harm: tuple[Range, ...]
    """Object sizes for which split TCP is slower by a factor of :data:`WORTH`."""
    largest: Extreme | None
    """Largest ratio; None if no object is finished by both sides."""
    smallest: Extreme | None
    """Smallest ratio."""
    unfinished: Unfinished | None = None
    """Object that the alternative does not finish."""
    split_unfinished: Unfinished | None = None
    """Object that split TCP does not finish."""

    @property
    def is_worth(self) -> bool:
        """Whether the gain is worth a proxy."""
        return bool(self.worth)

    @property
    def is_harmful(self) -> bool:
        """Whether split TCP is slower for some objects by as much as a gain that is worth a proxy."""
        return bool(self.harm)

    def as_row(self) -> dict[str, Any]:
        """Return the gain as plain data, sizes in bytes and times in seconds."""
        row: dict[str, Any] = {
            "variant": self.alternative, "proxy": self.proxy, "rtt_s": Duration.parse(self.rtt).ns / 1e9,
            "faster_from_to_bytes": [[_round_size(limit) for limit in limits] for limits in self.faster],
            "slower_from_to_bytes": [[_round_size(limit) for limit in limits] for limits in self.slower],
        }  # fmt: skip
        for name, extreme in (("largest_ratio", self.largest), ("smallest_ratio", self.smallest)):
            ratio = None if extreme is None else extreme.ratio
            row[name] = None if ratio is None else ratio.estimate
            row[f"{name}_low"] = None if ratio is None else ratio.low
            row[f"{name}_high"] = None if ratio is None else ratio.high
            row[f"{name}_bytes"] = None if extreme is None else Size.parse(extreme.size).bytes
        for name, one in (
            ("unfinished_bytes", self.unfinished),
            ("split_unfinished_bytes", self.split_unfinished),
        ):
            row[name] = None if one is None else Size.parse(one.size).bytes
        return row


def gains(result: Map, rtt: str | None = None) -> list[Gain]:
    """Return the gain of each kind of proxy over each variant without one, if a pair of loads exists.

    Args:
        result: the map.
        rtt: round-trip time (default: that of the access).
    """
    config = result.config
    found = (
        gain(result, alternative.name, proxy, rtt or config.own_rtt)
        for proxy in config.proxies
        for alternative in config.alternatives
    )
    return [one for one in found if one is not None]


def gain(result: Map, alternative: str, proxy: str, rtt: str) -> Gain | None:
    """Return the gain of a kind of proxy over ``alternative`` at ``rtt``; None without a ratio.

    With seeds enough for a verdict, a range of sizes counts only if a ratio in it differs from 1 by more than chance.
    """
    cells = [cell for cell in result.of(alternative, proxy) if cell.rtt == rtt and cell.ratio is not None]
    if not cells:
        return None
    cells.sort(key=lambda cell: Size.parse(cell.size).bytes)
    finished = [(cell, cell.ratio) for cell in cells if cell.ratio is not None and not cell.bound]
    largest = smallest = None
    if finished:
        cell, ratio = max(finished, key=lambda pair: (is_gain(pair[0]), pair[1].estimate))
        largest = Extreme(ratio, cell.size)
        cell, ratio = min(finished, key=lambda pair: (not is_loss(pair[0]), pair[1].estimate))
        smallest = Extreme(ratio, cell.size)
    split = next(one.name for one in result.config.split if one.proxy == proxy)
    return Gain(
        alternative, proxy, rtt, _ranges(cells, rtt, is_gain), _ranges(cells, rtt, is_loss),
        _ranges(cells, rtt, lambda cell: is_gain(cell) and (cell.estimate or 0) >= WORTH, WORTH),
        _ranges(cells, rtt, lambda cell: is_loss(cell) and (cell.estimate or 1) <= 1 / WORTH, 1 / WORTH),
        largest, smallest,
        _unfinished(result, (alternative, split), [cell for cell in cells if cell.bound == "≥"]),
        _unfinished(result, (split, alternative), [cell for cell in cells if cell.bound == "≤"]),
    )  # fmt: skip


def _ranges(
    cells: Sequence[Cell], rtt: str, counts: Callable[[Cell], bool], level: float = 1.0
) -> tuple[Range, ...]:
    """Return the ranges between the sizes with the ratio ``level`` in which a ratio ``counts``."""
    limits = [None, *break_even(cells, rtt, level), None]
    sizes = [Size.parse(cell.size).bytes for cell in cells if counts(cell)]
    return tuple(
        (low, high)
        for low, high in itertools.pairwise(limits)
        if any((low or 0) <= size <= (high or math.inf) for size in sizes)
    )


def _unfinished(result: Map, names: tuple[str, str], cells: Sequence[Cell]) -> Unfinished | None:
    """Return the smallest object that the first of two variants does not finish; ``cells`` are in the order of size."""
    if not cells:
        return None
    times, other = (result.times[name, cells[0].size, cells[0].rtt] for name in names)
    mean = other.mean
    return Unfinished(
        cells[0].size, times.limit_s, times.unfinished == len(times.by_seed), None if mean is None else mean.estimate
    )  # fmt: skip


def is_gain(cell: Cell) -> bool:
    """Return whether split TCP is faster by more than chance, or at all with too few seeds for a verdict."""
    if cell.ratio is None or cell.ratio.estimate < EVEN:
        return False
    return cell.verdict in ("regression", MANY_SEEDS)


def is_loss(cell: Cell) -> bool:
    """Return whether split TCP is slower by more than chance, or at all with too few seeds for a verdict."""
    if cell.ratio is None or cell.ratio.estimate > 1 / EVEN:
        return False
    return cell.verdict in ("improvement", MANY_SEEDS)


def _round_size(size: float | None) -> int | None:
    return None if size is None else round(size)
