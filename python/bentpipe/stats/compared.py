"""What two stores are compared by beside flows: loads of pages, calls, users of a link, clients of bundle nodes.

A kind has a row a run, flow and direction (of page loads, one a load), with its metrics; flows of a group are one, by
their mean, since they share a path and are no independent samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.stats.bundles import bundle_metrics
from bentpipe.stats.calls import judge
from bentpipe.stats.groups import as_groups
from bentpipe.stats.users import over_users, share, user_metrics

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["KINDS", "OF_KINDS", "OF_PAGES", "Kind"]

OF_PAGES: dict[str, int] = {"loads_finished": 1, "ttr_s": -1, "plt_s": -1}
"""Of loads of pages: whether more (1) or less (-1) is better. One that did not finish has no times, but counts as not
finished."""

OF_CALLS: dict[str, int] = {"mos": 1, "late_ratio": -1, "lost_ratio": -1, "delay_ms": -1}
"""Of calls and other datagrams, judged with their own codec and adaptive play-out."""

OF_USERS: dict[str, int] = {
    "user_goodput_min_bit_s": 1,
    "user_goodput_mean_bit_s": 1,
    "user_jain": 1,
    "user_wait_ms": -1,
}
"""Of the users who share a link: the least and the mean they have, how even it is, how long their packets wait."""

OF_BUNDLES: dict[str, int] = {
    "delivered_bundles": 1,
    "deleted_bundles": -1,
    "acknowledged_bit_s": 1,
    "generated_bit_s": 1,
    "bundle_delay_p50_s": -1,
}
"""Of clients of bundle nodes."""


@dataclass(frozen=True)
class Kind:
    """Something that two stores may both have."""

    metrics: Mapping[str, int]
    frame: Callable[[Store], pl.DataFrame]
    """``run, flow, direction``, what else pairs rows, and the metrics; without rows where a store has none."""
    pairing: tuple[str, ...] = ()

    def of(self, store: Store, keys: Sequence[str]) -> pl.DataFrame | None:
        """``KEYS..., seed, flow, direction``, what else pairs rows, and the metrics; None where a store has none."""
        found = self.frame(store)
        if not found.height:
            return None
        missing = [pl.lit(None, pl.String).alias(key) for key in keys if key not in store.columns]
        index = store.index.with_columns(missing).select("run", *keys, "seed")
        by = [*keys, "seed", "flow", "direction", *self.pairing]
        values = found.select(
            "run", "flow", "direction", *self.pairing, *(pl.col(one).cast(pl.Float64) for one in self.metrics)
        )
        return index.join(values, on="run", how="inner", maintain_order="left_right").select(
            *by, *self.metrics
        )


def _loads(store: Store) -> pl.DataFrame:
    pages = store.rows("pages")
    if not pages.height:
        return pages
    done = pl.col("finished") == 1
    return pages.select(
        "run", "flow", "load", direction=pl.lit("down"), loads_finished=done,
        ttr_s=pl.when(done).then("ttr_s"), plt_s=pl.when(done).then("plt_s"),
    )  # fmt: skip


def _calls(store: Store) -> pl.DataFrame:
    return _together(store, judge(store), OF_CALLS)


def _users(store: Store) -> pl.DataFrame:
    return over_users(user_metrics(store), list(store.columns)) if share(store) else pl.DataFrame()


def _bundles(store: Store) -> pl.DataFrame:
    found = bundle_metrics(store)
    return found.with_columns(direction=pl.lit("")) if found.height else found


def _together(store: Store, frame: pl.DataFrame, metrics: Mapping[str, int]) -> pl.DataFrame:
    """Flows of a group as one."""
    grouped = as_groups(frame, store.rows("summary")) if frame.height else frame
    return grouped.group_by("run", "flow", "direction", maintain_order=True).agg(pl.col(*metrics).mean())


KINDS = (
    Kind(OF_PAGES, _loads, ("load",)),
    Kind(OF_CALLS, _calls),
    Kind(OF_USERS, _users),
    Kind(OF_BUNDLES, _bundles),
)

OF_KINDS: dict[str, int] = {name: better for kind in KINDS for name, better in kind.metrics.items()}
"""Every metric of a kind, and whether more or less of it is better."""
