"""Groups of flows in emulation: their samples as one series.

The rules are those of the engine (docs/reference/results.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.plan.flow.groups import flow_groups
from bentpipe.plan.spec.result_columns import COLUMNS, COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["add_groups"]

_SUMS = ("cwnd_bytes", "in_flight_bytes", "pacing_rate_bit_s")
"""Sender state that is summed over the flows of a group."""

_MEANS = ("smoothed_rtt_ms", "latest_rtt_ms")
"""Sender state that is averaged over the flows of a group."""


def add_groups(tables: Mapping[str, pl.DataFrame], spec: RunSpec) -> dict[str, pl.DataFrame]:
    """Return the tables of a run, with the groups of ``spec`` in ``flows`` and their names in ``flow_summary``."""
    groups = flow_groups(spec)
    if not groups:
        return dict(tables)
    summary, flows = tables["flow_summary"], tables["flows"]
    flow_group = pl.col("flow").replace(groups).alias("flow_group")
    group_rows = _aggregate_flows(
        flows.with_columns(flow_group).filter(pl.col("flow").is_in(list(groups))), summary
    )
    group_only = [flow for group in spec["groups"] if not group.get("per_flow") for flow in group["flows"]]
    flow_rows = flows.filter(~pl.col("flow").is_in(group_only))
    all_rows = pl.concat([flow_rows, group_rows.select(flows.columns)], how="vertical_relaxed")
    return {
        **tables,
        "flow_summary": summary.with_columns(flow_group),
        "flows": all_rows.sort("time_s", "flow", "side", nulls_last=True, maintain_order=True),
    }


def _aggregate_flows(flows: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each time, group and endpoint.

    A sender whose connections have all ended has no state.
    """
    all_ended = pl.col("connections") == pl.col("completed_connections")
    end_times = summary.select("flow", "side", ended_s=pl.when(all_ended).then("end_s"))
    live = pl.col("ended_s").is_null() | (pl.col("time_s") < pl.col("ended_s"))

    def sum_if_known(name: str) -> pl.Expr:
        return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum())

    state = pl.col("live") & pl.col("cwnd_bytes").is_not_null()
    threshold = pl.col("ssthresh_bytes").filter(state)
    rows = (
        flows.join(end_times, on=["flow", "side"], how="left", maintain_order="left")
        .with_columns(live=live)
        .group_by("time_s", "flow_group", "side", maintain_order=True)
        .agg(
            *(pl.col(name).filter(state).sum() for name in _SUMS),
            pl.when(threshold.null_count() == 0).then(threshold.sum()).alias("ssthresh_bytes"),
            *(pl.col(name).filter(pl.col("live")).mean() for name in _MEANS),
            pl.col("min_rtt_ms").filter(pl.col("live")).min(),
            *(sum_if_known(name).alias(name) for name in COUNTERS),
        )
    )
    return rows.rename({"flow_group": "flow"}).select(list(COLUMNS["flows"]))
