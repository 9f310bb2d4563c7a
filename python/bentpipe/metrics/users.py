"""Metrics of the users of a shared link: goodput, fairness and packet outcomes.

A user is a terminal. Its goodput is the sum over its flows in a direction. The users of one run share a link and are
not independent samples. Minimum, mean, maximum, standard deviation and Jain's index are over the users of a run,
intervals over seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics import compute
from bentpipe.metrics.intervals import mean_columns
from bentpipe.metrics.registry import Scope, select
from bentpipe.store.scan import GROUP

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = [
    "GOODPUT_METRICS",
    "SERVICE_METRICS",
    "SHARED",
    "aggregate_cells",
    "aggregate_users",
    "has_scheduler",
    "has_shared_link",
    "user_metrics",
]

GOODPUT_METRICS = tuple(metric.name for metric in select(Scope.USERS) if not metric.is_service)
"""Goodput metrics of :func:`aggregate_users`."""

SERVICE_METRICS = tuple(metric.name for metric in select(Scope.USERS) if metric.is_service)
"""Packet outcomes, queueing delays and airtime of :func:`aggregate_users`."""

SHARED = (*GOODPUT_METRICS, *SERVICE_METRICS)
"""All metrics of :func:`aggregate_users`."""

_COUNTERS = (
    "arrived_packets", "sent_packets", "queueing_sum_s", "queueing_max_s", "dropped_overflow_packets",
    "dropped_deadline_packets", "best_channel_s", "best_channel_periods", "airtime_s", "coded_bits", "decoded_packets",
    "decoded_after_0_packets", "dropped_retry_limit_packets",
)  # fmt: skip
_LINK = ["run", "link", "user", "direction"]


def has_scheduler(store: Store) -> bool:
    """Return whether any run has a scheduler."""
    return "user" in store.rows("user_queues").columns


def has_shared_link(store: Store) -> bool:
    """Return whether several users share a radio link or a scheduler in any run."""
    tables = (store.rows(name) for name in ("user_queues", "radio_users"))
    return any("user" in rows.columns and rows["user"].n_unique() > 1 for rows in tables)


def user_metrics(store: Store, flow_metrics: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return one row per run, user and direction; empty without per-user data.

    Args:
        store: store of the runs.
        flow_metrics: :func:`bentpipe.metrics.compute.run_metrics` of the store, if already computed.

    Returns:
        ``run, seed, KEYS..., flow, user, direction, flows, goodput_bit_s, link``, queue and airtime counters of the
        user, and ``end_s`` of the run. ``flow`` is the scenario's table of flows of the user. The goodput is the sum
        over its ``flows``. The counters are those of the first link of the direction that has them, else null.
    """
    users = _users_of_flows(store)
    if not users.height:
        return pl.DataFrame()
    flow_metrics = compute.run_metrics(store) if flow_metrics is None else flow_metrics
    group = pl.col(GROUP) if GROUP in flow_metrics.columns else pl.col("flow")
    by = ["run", "user", "direction"]
    rows = (
        flow_metrics.with_columns(table=group)
        .join(users, on=["run", "flow"], how="inner", maintain_order="left")
        .group_by(by, maintain_order=True)
        .agg(
            pl.col("seed", *store.columns).first(),
            flow=pl.col("table").first(),
            flows=pl.len(),
            goodput_bit_s=pl.col("goodput_bit_s").sum(),
        )
    )
    rows = rows.join(_link_counters(store), on=by, how="left", maintain_order="left")
    rows = rows.join(store.ends, on="run", how="left", maintain_order="left")
    first = ["run", "seed", *store.columns, "flow", "user", "direction", "flows", "goodput_bit_s", "link"]
    return rows.select(*first, *_COUNTERS, "end_s")


def _users_of_flows(store: Store) -> pl.DataFrame:
    """Return ``run, flow, user`` of the runs with several users."""
    rows = []
    for run, spec in store.specs(store.index["run"].to_list()).items():
        flows = [(run, flow["name"], flow.get("user", 0)) for flow in spec["flows"]]
        if len({user for _, _, user in flows}) > 1 or any("user" in flow for flow in spec["flows"]):
            rows += flows
    schema = {"run": pl.String, "flow": pl.String, "user": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _link_counters(store: Store) -> pl.DataFrame:
    """Return ``run, user, direction, link`` and the counters of the first link that has them."""
    direction = pl.col("link").str.split(".").list.last().alias("direction")
    frames = []
    queues = store.rows("user_queues")
    if "user" in queues.columns:
        frames.append(queues.with_columns(direction))
    radio = store.rows("radio_users")
    if "user" in radio.columns:
        last = radio.group_by("run", "link", "user", maintain_order=True).last()
        decoded = [name for name in radio.columns if name.startswith("decoded_")]
        frames.append(last.with_columns(direction, decoded_packets=pl.sum_horizontal(decoded)).drop("time_s"))
    if not frames:
        schema: dict[str, Any] = {
            "run": pl.String,
            "user": pl.Int64,
            "direction": pl.String,
            "link": pl.String,
        }
        return pl.DataFrame(schema=schema | dict.fromkeys(_COUNTERS, pl.Float64))
    counters = frames[0]
    if len(frames) > 1:
        counters = counters.join(frames[1], on=_LINK, how="full", coalesce=True, maintain_order="left_right")
    missing = [pl.lit(None, pl.Float64).alias(name) for name in _COUNTERS if name not in counters.columns]
    counters = counters.with_columns(*missing).select(
        *_LINK, *(pl.col(name).cast(pl.Float64) for name in _COUNTERS)
    )
    return counters.group_by("run", "user", "direction", maintain_order=True).first()


def aggregate_users(users: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Aggregate :func:`user_metrics` over users: one row per run, table of flows and direction.

    The result has :data:`SHARED`, whose expressions the registry has, and the count ``users``.
    """
    return users.group_by(["run", *keys, "flow", "direction"], maintain_order=True).agg(
        pl.col("seed").first(), pl.len().alias("users"), *compute.evaluate(select(Scope.USERS))
    )


def aggregate_cells(runs: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Aggregate :func:`aggregate_users` over seeds: one row per cell, table of flows and direction.

    Args:
        runs: :func:`aggregate_users`.
        keys: columns of the sweep.

    Returns:
        ``KEYS..., flow, direction, users, seeds`` and :func:`bentpipe.metrics.intervals.mean_columns` of
        :data:`SHARED`.
    """
    by = [*keys, "flow", "direction"]
    rows = []
    for cell, group in runs.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, cell, strict=True))
        row |= {"users": group["users"].max(), "seeds": group.height}
        for name in SHARED:
            row |= mean_columns(name, group[name].drop_nulls().to_list())
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
