"""Page load times and ratios from the store of a map, and the break-even line where a ratio is 1."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from bentpipe.break_even.config import BreakEvenConfig, Variant, duration_ns
from bentpipe.metrics.compare import MIN_SEEDS, Draws, Pairs, compare_pairs
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.scenario.sweep_columns import LABELS
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from bentpipe.metrics.compare import MetricChange, Verdict

__all__ = [
    "Cell",
    "CellVerdict",
    "Load",
    "LoadTimes",
    "Map",
    "break_even_size",
    "build_map",
    "read_map",
    "size_text",
]

METRIC = "plt_s"
"""Metric of the comparison: the page load time."""

CellVerdict = Literal["PEP faster", "PEP slower", "none", "too few seeds"]

_VERDICTS: dict[Verdict, CellVerdict] = {
    "regression": "PEP faster", "improvement": "PEP slower", "too few seeds": "too few seeds",
}  # fmt: skip
"""Verdicts of a comparison from split TCP (before) to the variant without a proxy (after)."""


@dataclass(frozen=True, slots=True)
class Load:
    """Times of one load in s after the request was queued: request sent, first byte and last byte received."""

    sent: float
    first_byte: float
    end: float


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Load times of one variant, object size and RTT.

    A load that did not finish counts with the duration of its run, ``limit_s``.
    """

    by_seed: Mapping[int, float]
    limit_s: float
    unfinished: int = 0
    loads: Mapping[int, Load] = field(default_factory=dict)
    """Phases of the finished loads, by seed."""

    @property
    def mean(self) -> ConfidenceInterval | None:
        """Mean over the seeds; a lower bound if a load did not finish."""
        return mean_ci(tuple(self.by_seed.values())) if self.by_seed else None

    @property
    def typical(self) -> tuple[int, Load] | None:
        """Seed and phases of the finished load whose time is nearest to the median over the seeds."""
        if not self.loads:
            return None
        middle = median(self.by_seed.values())
        return min(self.loads.items(), key=lambda item: (abs(self.by_seed[item[0]] - middle), item[0]))


@dataclass(frozen=True, slots=True)
class Cell:
    """Comparison of a variant without a proxy with split TCP, for one object size and RTT."""

    alternative: str
    """Name of the variant without a proxy."""
    proxy: str
    """Kind of the proxies of split TCP."""
    size: str
    rtt: str
    ratio: ConfidenceInterval | None
    """Load time of the alternative relative to that of split TCP, paired by seed: geometric mean and interval.

    Above 1, split TCP is faster. None if no pair of runs exists, or no load of either side finished.
    """
    bound: str = ""
    """``≥`` or ``≤`` if unfinished loads make the ratio a bound."""
    verdict: CellVerdict = "none"
    """Whether split TCP is faster or slower by more than chance and 1 %."""
    times_s: tuple[float | None, float | None] = (None, None)
    """Mean load times of the alternative and of split TCP, with unfinished loads at the limit."""

    @property
    def estimate(self) -> float | None:
        """Ratio without its interval."""
        return None if self.ratio is None else self.ratio.estimate

    @property
    def is_equal(self) -> bool:
        """Whether all seeds, enough for a verdict, have the same ratio: no random event changed the loads."""
        ratio = self.ratio
        return ratio is not None and not self.bound and ratio.n >= MIN_SEEDS and ratio.low == ratio.high

    @property
    def is_uncertain(self) -> bool:
        """Whether the interval of the ratio contains 1."""
        ratio = self.ratio
        if ratio is None or ratio.low is None or ratio.high is None:
            return False
        return ratio.low <= 1 <= ratio.high and ratio.low != ratio.high

    def as_row(self) -> dict[str, Any]:
        """Return the cell as plain data, sizes in bytes and times in seconds."""
        low, high = (None, None) if self.ratio is None else (self.ratio.low, self.ratio.high)
        return {
            "variant": self.alternative, "proxy": self.proxy, "bytes": Size.parse(self.size).bytes,
            "rtt_s": Duration.parse(self.rtt).ns / 1e9, "plt_s": self.times_s[0], "split_plt_s": self.times_s[1],
            "ratio": self.estimate, "ratio_low": low, "ratio_high": high, "bound": self.bound,
            "seeds": 0 if self.ratio is None else self.ratio.n, "verdict": self.verdict,
        }  # fmt: skip


Key = tuple[str, str, str]
"""Name of a variant, object size and RTT."""


@dataclass(frozen=True, repr=False)
class Map:
    """Results of a map."""

    config: BreakEvenConfig
    times: Mapping[Key, LoadTimes]
    cells: tuple[Cell, ...]
    engine: str

    def __repr__(self) -> str:
        """Return the access and the number of ratios."""
        return f"<bentpipe break-even map: {self.config.access.title}, {len(self.cells)} ratios>"

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()

    def frame(self) -> pl.DataFrame:
        """Return one row for each variant without a proxy, kind of proxy, object size and round-trip time.

        Returns:
            Columns ``variant, proxy, bytes, rtt_s, plt_s, split_plt_s, ratio, ratio_low, ratio_high, bound, seeds,
            verdict``. Above a ratio of 1, split TCP is faster than the variant.
        """
        floats = ("rtt_s", "plt_s", "split_plt_s", "ratio", "ratio_low", "ratio_high")
        rows = [cell.as_row() for cell in self.cells]
        return pl.DataFrame(rows, schema_overrides=dict.fromkeys(floats, pl.Float64))

    def of(self, alternative: str, proxy: str) -> tuple[Cell, ...]:
        """Return the cells of a variant without a proxy and a kind of proxy."""
        return tuple(cell for cell in self.cells if (cell.alternative, cell.proxy) == (alternative, proxy))

    @property
    def seeds(self) -> int:
        """Largest number of seeds of a ratio."""
        return max((cell.ratio.n for cell in self.cells if cell.ratio is not None), default=0)

    @property
    def confident(self) -> bool:
        """Whether ratios have intervals."""
        return any(cell.ratio is not None and cell.ratio.known for cell in self.cells)


def read_map(store: Path, config: BreakEvenConfig, draws: Collection[str] = ()) -> Map:
    """Read the map of a store, which may lack runs.

    Args:
        store: store of the runs.
        config: input of the map.
        draws: names of the variants whose runs depend on the seed.

    Raises:
        StoreError: the store is missing or damaged.
    """
    results = open_store(store)
    labels = [f"{LABELS}{axis}" for axis in ("variant", "size", "rtt")]
    requests = results.rows("requests", ["queued_s", "sent_s", "response_start_s", "end_s"])
    pages = results.rows("pages", [METRIC, "completed"])
    frame = results.index.select("run", "seed", *labels).join(pages, on="run", how="left")
    frame = frame.join(requests, on="run", how="left").sort("seed")
    limits = {size: duration_ns(size, config) / 1e9 for size in config.sizes}
    times: dict[Key, LoadTimes] = {}
    columns = ["seed", *labels, METRIC, "completed", *requests.columns[1:]]
    for seed, variant, size, rtt, plt, completed, queued_s, *timestamps in frame.select(columns).iter_rows():
        key, limit_s = (variant, size, rtt), limits[size]
        old = times.get(key, LoadTimes({}, limit_s))
        load = {seed: Load(*(timestamp - queued_s for timestamp in timestamps))} if completed else {}
        times[key] = LoadTimes(
            {**old.by_seed, seed: plt if completed else limit_s}, limit_s,
            old.unfinished + (not completed), {**old.loads, **load},
        )  # fmt: skip
    return build_map(config, times, results.engine, draws)


def build_map(
    config: BreakEvenConfig, times: Mapping[Key, LoadTimes], engine: str, draws: Collection[str] = ()
) -> Map:
    """Compare the load times of all variants without a proxy with those of split TCP.

    Args:
        config: input of the map.
        times: load times.
        engine: version of the engine.
        draws: names of the variants whose runs depend on the seed.
    """
    keys = [
        (alternative, split, size, rtt)
        for alternative in config.alternatives
        for split in config.split
        for rtt in config.rtts
        for size in config.sizes
    ]
    pairs = [_pairs(times, *key, draws, primary=key[-1] == config.own_rtt) for key in keys]
    changes = iter(compare_pairs(pair for pair in pairs if pair is not None))
    cells = []
    for (alternative, split, size, rtt), pair in zip(keys, pairs, strict=True):
        cell = Cell(alternative.name, split.proxy, size, rtt, None)
        cells.append(cell if pair is None else _compared(cell, pair, next(changes)))
    return Map(config, times, tuple(cells), engine)


def _pairs(
    times: Mapping[Key, LoadTimes],
    alternative: Variant,
    split: Variant,
    size: str,
    rtt: str,
    draws: Collection[str],
    *,
    primary: bool,
) -> Pairs | None:
    """Return the load times of both variants by seed; None without a common seed.

    The row of the user is the ``primary`` family of tests: the recommendation is about it.
    """
    names = (split.name, alternative.name)
    before, after = (times.get((name, size, rtt)) for name in names)
    if before is None or after is None:
        return None
    seeds = sorted(before.by_seed.keys() | after.by_seed.keys())
    sides = [
        # The one run of a variant that draws nothing stands for every seed.
        side.by_seed if name in draws else dict.fromkeys(seeds, next(iter(side.by_seed.values())))
        for name, side in zip(names, (before, after), strict=True)
    ]
    seeds = [seed for seed in seeds if all(seed in side for side in sides)]
    if not seeds:
        return None
    values = [[side[seed] for seed in seeds] for side in sides]
    censored = [sum(value >= before.limit_s for value in side) for side in values]
    return Pairs(
        METRIC, values[0], values[1], {"size": size, "rtt": rtt}, primary=primary,
        draws=Draws.RARELY if set(names) & set(draws) else Draws.NOTHING,
        limit_s=before.limit_s, censored=(censored[0], censored[1]),
    )  # fmt: skip


def _compared(cell: Cell, pair: Pairs, change: MetricChange) -> Cell:
    split_censored, other_censored = pair.censored
    ratio, verdict, bound = change.effect, _VERDICTS.get(change.verdict, "none"), ""
    if other_censored and split_censored:
        # Loads of both sides are cut off, so that the ratio has no bound.
        ratio, verdict = None, "none"
    elif other_censored or split_censored:
        bound = "≥" if other_censored else "≤"
    return Cell(
        cell.alternative,
        cell.proxy,
        cell.size,
        cell.rtt,
        ratio,
        bound,
        verdict,
        (change.after, change.before),
    )


def break_even_size(one: Cell, other: Cell) -> float | None:
    """Return the object size in bytes at which the ratio is 1, by log-log interpolation between two cells.

    Returns:
        None if both ratios are above 1, or both below, or one is missing.
    """
    if not one.estimate or not other.estimate:
        return None
    (x0, y0), (x1, y1) = (
        (math.log(Size.parse(cell.size).bytes), math.log(cell.estimate or 1.0)) for cell in (one, other)
    )
    if y0 == y1 or y0 * y1 > 0:
        return None
    return math.exp(x0 + (x1 - x0) * y0 / (y0 - y1))


def size_text(size: float) -> str:
    """Format an object size with two digits."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if size >= 0.9995 * scale:
            return f"{size / scale:.2g} {unit}" if size / scale < 99.5 else f"{size / scale:.0f} {unit}"
    return f"{size:.0f} B"
