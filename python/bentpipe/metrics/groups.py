"""Metrics of groups of flows (``[[flow]] count``): one row for all flows of a group.

The flows of one run share a path and are not independent samples. Hence a group counts as one value for each run, the
mean over its flows, and intervals are over seeds. Separate metrics have the spread within the group.
"""

from __future__ import annotations

import polars as pl

from bentpipe.metrics import compute
from bentpipe.metrics.registry import Metric, Scope, select
from bentpipe.store.reader import Store
from bentpipe.store.scan import GROUP

__all__ = [
    "OVER_FLOWS",
    "accesses_as_groups",
    "as_groups",
    "group_metrics",
    "grouped",
]

_COUNTS = ("sent_bytes", "received_bytes", "congestion_events", "ptos")
OVER_FLOWS = tuple(metric.name for metric in select(Scope.GROUP) if metric.name != "flows")
"""Metrics that only groups have: spread and sum over the flows."""

_OF_RUN = (
    "jain", "convergence_s", "convergence_reason", "bottleneck_bit_s", "utilisation", "queueing_p50_ms",
    "queueing_p95_ms", "queueing_p99_ms",
)  # fmt: skip


def grouped(frame: pl.DataFrame) -> bool:
    """Return whether ``frame`` (``flow_summary`` or metrics) has groups."""
    return GROUP in frame.columns


def as_groups(frame: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Replace each flow of ``frame`` by its group; without groups in the store, return it unchanged."""
    if not grouped(summary):
        return frame
    members = dict(summary.select("flow", GROUP).unique(maintain_order=True).iter_rows())
    group = pl.col("flow").replace_strict(list(members), list(members.values()), return_dtype=pl.String)
    return frame.with_columns(group.alias("flow"))


def accesses_as_groups(links: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Rename the access link of each grouped flow of ``links`` to that of the group, as in the table ``links``."""
    if not grouped(summary):
        return links
    members = (
        summary.filter(pl.col("flow") != pl.col(GROUP)).select("flow", GROUP).unique(maintain_order=True)
    )
    names = {f"{flow}.access.{direction}": f"{group}.access.{direction}"
             for flow, group in members.iter_rows() for direction in ("up", "down")}  # fmt: skip
    return links.with_columns(pl.col("link").replace(names))


def group_metrics(store: Store, flow_metrics: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return :func:`compute.run_metrics` with one row for each group in place of its flows.

    Without groups it returns the metrics of the flows unchanged.

    Args:
        store: store of the runs.
        flow_metrics: :func:`compute.run_metrics` of the store, if already computed.

    Returns:
        A group's row has means over its flows. ``retransmission_ratio`` is over the bytes of all flows, quantiles of
        completion times over the streams of all flows. The data lasts from the start of the first flow to the end of
        the last; ``finished`` holds if all flows have finished. Additional columns: the metrics of groups of the
        registry. All but ``flows`` are null for a flow without group.
    """
    flow_metrics = compute.run_metrics(store) if flow_metrics is None else flow_metrics
    if not grouped(flow_metrics):
        return flow_metrics
    by = ["run", GROUP, "direction"]
    ends = pl.col("data_start_s") + pl.col("duration_s")
    rows = flow_metrics.group_by(by, maintain_order=True).agg(
        pl.col("seed", *store.columns, "congestion").first(),
        pl.col("data_start_s").min(),
        pl.col("data_end_s").max(),
        (ends.max() - pl.col("data_start_s").min()).alias("duration_s"),
        pl.col("finished").all(),
        *(pl.col(name).mean() for name in _COUNTS),
        *(_mean(metric) for metric in select(Scope.FLOW) if metric.name in flow_metrics.columns),
        *(pl.col(name).first() for name in _OF_RUN),
        pl.col("completed").sum(),
        (pl.col("flow") != pl.col(GROUP)).any().alias("group"),
        *compute.evaluate(select(Scope.GROUP)),
    )
    rows = rows.with_columns(
        pl.when(pl.col("completed") > 0).then("completed").alias("completed"),
        *(pl.when("group").then(name).alias(name) for name in OVER_FLOWS),
    )
    rows = rows.drop("group").rename({GROUP: "flow"})
    times = as_groups(compute.completion_times(store.rows("streams")), store.rows("flow_summary"))
    quantiles = times.group_by("run", "flow", maintain_order=True).agg(
        p50=pl.col("completion_s").quantile(0.5, "linear"),
        p95=pl.col("completion_s").quantile(0.95, "linear"),
    )
    rows = rows.join(quantiles, on=["run", "flow"], how="left", maintain_order="left").with_columns(
        completion_p50_s=pl.col("p50"), completion_p95_s=pl.col("p95")
    )
    first = [name for name in flow_metrics.columns if name != GROUP]
    return rows.select(*first, *(name for name in rows.columns if name not in [*first, "p50", "p95"]))


def _mean(metric: Metric) -> pl.Expr:
    """Return the mean over the flows of a group, with the weights of the registry."""
    value = pl.col(metric.name)
    if not metric.weight:
        return value.mean()
    weight = pl.sql_expr(metric.weight)
    return (
        pl.when(weight.sum() > 0)
        .then((value * weight).sum() / weight.sum())
        .otherwise(0.0)
        .alias(metric.name)
    )
