"""Differences of load times at one round-trip time: sizes at which split TCP is faster or slower, and by how much."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.break_even.ratios import break_even_size
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.break_even.ratios import Cell, Map
    from bentpipe.metrics.intervals import ConfidenceInterval

__all__ = [
    "MANY_SEEDS",
    "WORTH",
    "Extreme",
    "Gain",
    "Range",
    "Unfinished",
    "gain",
    "gains",
    "is_gain",
    "is_loss",
]

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
    """Largest or smallest ratio of load times in ranges of object size."""

    ratio: ConfidenceInterval
    size: str
    bound: str = ""
    """``≥`` or ``≤`` if unfinished loads make the ratio a bound."""
    is_only: bool = False
    """Whether the ranges have one object size of the map."""


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
    cells: tuple[Cell, ...]
    """Cells with a ratio, in the order of object size."""
    unfinished: Unfinished | None = None
    """Object that the alternative does not finish."""
    split_unfinished: Unfinished | None = None
    """Object that split TCP does not finish."""

    @property
    def is_worth(self) -> bool:
        """Whether a gain by more than chance is worth a proxy."""
        return any(is_gain(cell) and (cell.estimate or 0) >= WORTH for cell in self.cells)

    @property
    def is_harmful(self) -> bool:
        """Whether split TCP is slower for some objects by as much as a gain that is worth a proxy."""
        return any(is_loss(cell) and (cell.estimate or 1) <= 1 / WORTH for cell in self.cells)

    @property
    def worth(self) -> list[Range]:
        """Ranges of :attr:`faster` with a gain that is worth a proxy."""
        cells = [cell for cell in self.cells if (cell.estimate or 0) >= WORTH]
        return [one for one in self.faster if _cells_in(cells, [one])]

    @property
    def harm(self) -> list[Range]:
        """Ranges of :attr:`slower` with as large a loss."""
        cells = [cell for cell in self.cells if (cell.estimate or 1) <= 1 / WORTH]
        return [one for one in self.slower if _cells_in(cells, [one])]

    @property
    def largest(self) -> Extreme:
        """Largest ratio of the objects for which split TCP is faster; of all objects if there are none."""
        return _extreme(_cells_in(self.cells, self.faster) or self.cells, 1.0)

    @property
    def smallest(self) -> Extreme:
        """Smallest ratio of the objects for which split TCP is slower; of all objects if there are none."""
        return _extreme(_cells_in(self.cells, self.slower) or self.cells, -1.0)

    def largest_in(self, ranges: Sequence[Range]) -> Extreme | None:
        """Return the largest ratio of the objects in ``ranges``; None without an object of the map."""
        cells = _cells_in(self.cells, ranges)
        return _extreme(cells, 1.0) if cells else None

    def smallest_in(self, ranges: Sequence[Range]) -> Extreme | None:
        """Return the smallest ratio of the objects in ``ranges``; None without an object of the map."""
        cells = _cells_in(self.cells, ranges)
        return _extreme(cells, -1.0) if cells else None

    def as_row(self) -> dict[str, Any]:
        """Return the gain as plain data, sizes in bytes and times in seconds."""
        row: dict[str, Any] = {
            "variant": self.alternative, "proxy": self.proxy, "rtt_s": Duration.parse(self.rtt).ns / 1e9,
            "faster_from_to_bytes": [[_round_size(limit) for limit in limits] for limits in self.faster],
            "slower_from_to_bytes": [[_round_size(limit) for limit in limits] for limits in self.slower],
        }  # fmt: skip
        for name, extreme in (("largest_ratio", self.largest), ("smallest_ratio", self.smallest)):
            row[name], row[f"{name}_bound"] = extreme.ratio.estimate, extreme.bound
            row[f"{name}_low"], row[f"{name}_high"] = extreme.ratio.low, extreme.ratio.high
            row[f"{name}_bytes"] = Size.parse(extreme.size).bytes
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
    row = [cell for cell in result.of(alternative, proxy) if cell.rtt == rtt]
    row.sort(key=lambda cell: Size.parse(cell.size).bytes)
    cells = [cell for cell in row if cell.ratio is not None]
    if not cells:
        return None
    split = next(one.name for one in result.config.split if one.proxy == proxy)
    return Gain(
        alternative, proxy, rtt, _ranges(row, is_gain, 1.0), _ranges(row, is_loss, -1.0), tuple(cells),
        _unfinished(result, (alternative, split), [cell for cell in cells if cell.bound == "≥"]),
        _unfinished(result, (split, alternative), [cell for cell in cells if cell.bound == "≤"]),
    )  # fmt: skip


def _ranges(cells: Sequence[Cell], counts: Callable[[Cell], bool], sign: float) -> tuple[Range, ...]:
    """Return the ranges of neighbouring cells on one side of the ratio 1, if a ratio of them ``counts``.

    A range has no cell without a ratio, and no cell with an interval that contains 1 unless it counts. It ends at the
    size with the ratio 1, or at its last object if the next one has no ratio beyond 1.

    Args:
        cells: cells of all object sizes, in their order.
        counts: whether the side of the ratio is decided.
        sign: positive for ratios above 1, negative for those below.
    """

    def belongs(place: int) -> bool:
        cell = cells[place]
        if not cell.estimate or sign * math.log(cell.estimate) <= 0:
            return False
        return counts(cell) or not cell.is_uncertain

    groups = [list(places) for is_in, places in itertools.groupby(range(len(cells)), belongs) if is_in]
    return tuple(
        (_limit(cells, places[0], -1), _limit(cells, places[-1], 1))
        for places in groups
        if any(counts(cells[place]) for place in places)
    )


def _limit(cells: Sequence[Cell], place: int, step: int) -> float | None:
    """Return the limit of a range that ends at ``place`` in the direction ``step``."""
    if not 0 <= place + step < len(cells):
        return None
    size = break_even_size(cells[place], cells[place + step])
    return Size.parse(cells[place].size).bytes if size is None else size


def _cells_in(cells: Sequence[Cell], ranges: Sequence[Range]) -> list[Cell]:
    return [
        cell
        for cell in cells
        if any((low or 0) <= Size.parse(cell.size).bytes <= (high or math.inf) for low, high in ranges)
    ]


def _extreme(cells: Sequence[Cell], sign: float) -> Extreme:
    """Return the largest ratio of cells with a ratio, or the smallest if ``sign`` is negative."""
    ratio, cell = max(
        ((cell.ratio, cell) for cell in cells if cell.ratio is not None),
        key=lambda pair: sign * pair[0].estimate,
    )
    return Extreme(ratio, cell.size, cell.bound, len(cells) == 1)


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
    if cell.ratio is None or cell.ratio.estimate < EVEN or cell.bound == "≤":
        return False
    return cell.verdict in ("PEP faster", MANY_SEEDS)


def is_loss(cell: Cell) -> bool:
    """Return whether split TCP is slower by more than chance, or at all with too few seeds for a verdict."""
    if cell.ratio is None or cell.ratio.estimate > 1 / EVEN or cell.bound == "≥":
        return False
    return cell.verdict in ("PEP slower", MANY_SEEDS)


def _round_size(size: float | None) -> int | None:
    return None if size is None else round(size)
