"""Quality of the users of a run: mean opinion score of each call, page load time of each user.

A run has a warm-up, which does not count. A load counts if it ends after the warm-up. A load that has not ended counts
with its time so far, if that is already too long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.call_quality.rating import RatingConfig, rate_rows
from bentpipe.metrics.compute import bottlenecks, link_metrics

if TYPE_CHECKING:
    from bentpipe.capacity.config import CapacityConfig, Criterion
    from bentpipe.store.reader import Store

__all__ = ["Quality", "read_quality", "read_utilisation"]


@dataclass(frozen=True)
class Quality:
    """Values of the users of a run, the best first."""

    mos: tuple[float, ...] = ()
    """Mean opinion score of each call in its worse direction."""
    page_s: tuple[float, ...] = ()
    """Median page load time of each user who loads pages."""
    mos_by_direction: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Mean opinion score of each call by direction, the best first."""

    def direction_mos_of(self, share: float) -> dict[str, float]:
        """Return the largest score that this share of the calls reaches, by direction."""
        scores = {side: _value_of(values, share) for side, values in self.mos_by_direction.items()}
        return {side: score for side, score in scores.items() if score is not None}

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
    by_direction = _scores(store, runs, config)
    mos = _by_run(by_direction.group_by("run", "flow", maintain_order=True).agg(pl.col("mos").min()), "mos")
    sides = {
        side: _by_run(by_direction.filter(direction=side), "mos")
        for side in by_direction["direction"].unique()
    }
    pages = _page_load_times(store, runs, config)
    return {
        run: Quality(
            tuple(sorted(mos.get(run, ()), reverse=True)),
            tuple(sorted(pages.get(run, ()))),
            {
                side: tuple(sorted(values.get(run, ()), reverse=True))
                for side, values in sorted(sides.items())
            },
        )
        for run in runs
    }


def _scores(store: Store, runs: Sequence[str], config: CapacityConfig) -> pl.DataFrame:
    """Return the mean opinion score of each call and direction."""
    counted = pl.col("window_s") >= config.warm_up_s
    calls, delays = (store.rows(name, runs=runs, where=counted) for name in ("calls", "call_delays"))
    if not calls.height:
        return pl.DataFrame(schema={"run": str, "flow": str, "direction": str, "mos": float})
    return (
        rate_rows(calls, delays, RatingConfig()).drop_nulls("mos").select("run", "flow", "direction", "mos")
    )


def read_utilisation(store: Store, runs: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the utilisation of the busiest link by run and direction, of those with a constant rate.

    Args:
        store: store of the runs.
        runs: ids of finished runs.
    """
    found: dict[str, dict[str, float]] = {}
    busiest = bottlenecks(link_metrics(store)).filter(pl.col("run").is_in(runs))
    for run, side, share in busiest.select("run", "direction", "utilisation").drop_nulls().iter_rows():
        found.setdefault(run, {})[side] = share
    return found


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
