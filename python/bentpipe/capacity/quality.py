"""Quality of the users of a run: mean opinion score of each call, page load time of each user.

A run has a warm-up, which does not count. A load counts if it ends after the warm-up. A load that has not ended counts
with its time so far, if that is already too long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.call_quality.rating import RatingConfig, rate_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.capacity.config import CapacityConfig, Criterion
    from bentpipe.store.reader import Store

__all__ = ["Quality", "read_quality"]


@dataclass(frozen=True)
class Quality:
    """Values of the users of a run, the best first."""

    mos: tuple[float, ...] = ()
    """Mean opinion score of each call in its worse direction."""
    page_s: tuple[float, ...] = ()
    """Median page load time of each user who loads pages."""

    def mos_of(self, share: float) -> float | None:
        """Return the largest score that this share of the calls reaches; None without calls."""
        return _value_of(self.mos, share)

    def page_of(self, share: float) -> float | None:
        """Return the shortest time in which this share of the users loads pages; None without page loads."""
        return _value_of(self.page_s, share)

    def failures(self, criterion: Criterion) -> tuple[str, ...]:
        """Return the parts of the criterion that do not hold: ``mos``, ``page``."""
        failed = []
        if criterion.mos is not None:
            mos = self.mos_of(criterion.share)
            failed += ["mos"] if mos is None or mos < criterion.mos else []
        if criterion.page is not None:
            page_s = self.page_of(criterion.share)
            failed += ["page"] if page_s is None or page_s > criterion.page.ns / 1e9 else []
        return tuple(failed)


def _value_of(best_first: Sequence[float], share: float) -> float | None:
    """Return the worst value among the best ``share`` of the values."""
    if not best_first:
        return None
    # 0.95 of 20 users are 19, though 0.95 * 20 is a little more as a float
    return best_first[math.ceil(share * len(best_first) - 1e-9) - 1]


def read_quality(store: Store, runs: Sequence[str], config: CapacityConfig) -> Mapping[str, Quality]:
    """Return the quality of each of ``runs``.

    Args:
        store: store of the runs.
        runs: ids of finished runs.
        config: the search.
    """
    mos = _scores(store, runs, config)
    pages = _page_load_times(store, runs, config)
    return {
        run: Quality(tuple(sorted(mos.get(run, ()), reverse=True)), tuple(sorted(pages.get(run, ()))))
        for run in runs
    }


def _scores(store: Store, runs: Sequence[str], config: CapacityConfig) -> dict[str, list[float]]:
    counted = pl.col("window_s") >= config.warm_up_s
    calls, delays = (store.rows(name, runs=runs, where=counted) for name in ("calls", "call_delays"))
    if not calls.height:
        return {}
    rated = rate_rows(calls, delays, RatingConfig()).drop_nulls("mos")
    worse = rated.group_by("run", "flow", maintain_order=True).agg(pl.col("mos").min())
    return _by_run(worse, "mos")


def _page_load_times(store: Store, runs: Sequence[str], config: CapacityConfig) -> dict[str, list[float]]:
    loads = store.rows("pages", ["flow", "start_s", "plt_s", "completed"], runs)
    if not loads.height:
        return {}
    limit = config.criterion.page
    too_long_s = (config.duration_s - config.warm_up_s) / 2 if limit is None else limit.ns / 1e9
    has_ended = pl.col("completed") == 1
    elapsed_s = config.duration_s - pl.col("start_s")
    loads = loads.with_columns(load_s=pl.when(has_ended).then(pl.col("plt_s")).otherwise(elapsed_s))
    counted = pl.when(has_ended).then(pl.col("start_s") + pl.col("plt_s") >= config.warm_up_s)
    users = loads.filter(counted.otherwise(elapsed_s > too_long_s)).group_by(
        "run", "flow", maintain_order=True
    )
    return _by_run(users.agg(pl.col("load_s").median()), "load_s")


def _by_run(users: pl.DataFrame, column: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for run, value in users.select("run", column).iter_rows():
        found.setdefault(run, []).append(value)
    return found
