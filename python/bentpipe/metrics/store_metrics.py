"""All metrics of a store in two tables: of each run, and of each cell over its seeds.

They join the metrics of flows with those of calls, users, bundle clients and page loads. Each number of
``bentpipe show`` is in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.bundles import OVER_SEEDS as OF_BUNDLES
from bentpipe.metrics.bundles import bundle_metrics
from bentpipe.metrics.call_quality import aggregate_runs, blocked_calls, rate_calls
from bentpipe.metrics.compute import aggregate_seeds
from bentpipe.metrics.groups import as_groups, group_metrics
from bentpipe.metrics.registry import METRICS, OVER_SEEDS, Scope, select
from bentpipe.metrics.users import SHARED, aggregate_users, user_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.store.reader import Store

__all__ = ["cell_metrics", "page_loads", "store_metrics"]

_BY = ["run", "flow", "direction"]
_OF_LOADS = ["load", "protocol"]


def store_metrics(store: Store, flows: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return one row per run, flow (or group) and direction, with the metrics of every scope.

    Without calls, users, bundles and pages it is :func:`bentpipe.metrics.groups.group_metrics`. Calls and users add
    columns. Each bundle client, and each load of a page (``load, protocol``), adds a row without direction.

    Args:
        store: store of the runs.
        flows: :func:`bentpipe.metrics.groups.group_metrics` of the store, if already computed.
    """
    flows = group_metrics(store) if flows is None else flows
    frame = flows.drop("seed", *store.columns)
    directed = [part for part in (_calls(store), _users(store)) if part is not None]
    for part in directed:
        frame = frame.join(part, on=_BY, how="full", coalesce=True, maintain_order="left_right")
    others = [part for part in (_bundles(store), page_loads(store)) if part is not None]
    if not directed and not others:
        return flows
    frame = pl.concat([frame, *others], how="diagonal_relaxed")
    keys = [name for name in _OF_LOADS if name in frame.columns]
    frame = frame.select(*_BY, *keys, pl.exclude(*_BY, *keys))
    order = store.index.with_row_index("__order")
    rows = order.join(frame, on="run", how="inner", maintain_order="left_right")
    return rows.sort(["__order", "flow", "direction", *keys], nulls_last=True, maintain_order=True).drop(
        "__order"
    )


def cell_metrics(metrics: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return :func:`store_metrics` over seeds, one row for each metric.

    Args:
        metrics: :func:`store_metrics`.
        keys: columns of the sweep.
    """
    of_flows = [*OVER_SEEDS, *(metric.name for metric in select(Scope.GROUP))]
    names = [name for name in dict.fromkeys((*of_flows, *METRICS)) if name in metrics.columns]
    return aggregate_seeds(metrics, keys, names)


def page_loads(store: Store) -> pl.DataFrame | None:
    """Return ``run, flow, load, protocol`` and the metrics of each page load; None without page loads.

    A load that did not finish has ``loads_finished`` 0 and no times.
    """
    pages = store.rows("pages")
    if not pages.height:
        return None
    pages = as_groups(pages, store.rows("flow_summary"))
    pages = pages.with_columns(connect_s=pl.col("connect_end_s") - pl.col("connect_start_s"))
    times = [metric.name for metric in select(Scope.PAGE) if metric.name in pages.columns]
    finished = pl.col("completed") == 1
    return pages.select(
        "run", "flow", *_OF_LOADS, finished.cast(pl.Float64).alias("loads_finished"),
        *(pl.when(finished).then(name).alias(name) for name in times),
    )  # fmt: skip


def _calls(store: Store) -> pl.DataFrame | None:
    calls = rate_calls(store)
    if not calls.height:
        return None
    runs = aggregate_runs(calls, [], blocked_calls(store))
    names = [metric.name for metric in select(Scope.CALL) if metric.name in runs.columns]
    return runs.select(*_BY, "source", "calls", *names)


def _users(store: Store) -> pl.DataFrame | None:
    users = user_metrics(store)
    return aggregate_users(users, []).select(*_BY, "users", *SHARED) if users.height else None


def _bundles(store: Store) -> pl.DataFrame | None:
    bundles = bundle_metrics(store)
    return bundles.select("run", "flow", "client", *OF_BUNDLES) if bundles.height else None
