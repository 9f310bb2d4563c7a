"""Groups of flows in real time: their samples as one series, by the rules of the engine (docs/manual/results.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.plan.flow.groups import flow_groups
from bentpipe.plan.spec.result_columns import COLUMNS, COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["with_groups"]

_SUMS = ("cwnd_bytes", "in_flight_bytes", "pacing_rate_bit_s")
"""Parts of a sender's state that are added up."""

_MEANS = ("smoothed_rtt_ms", "latest_rtt_ms")


def with_groups(tables: Mapping[str, pl.DataFrame], spec: RunSpec) -> dict[str, pl.DataFrame]:
    """``tables`` of a run, with the groups of ``spec`` in ``flows`` and named in ``summary``."""
    groups = flow_groups(spec)
    if not groups:
        return dict(tables)
    summary, flows = tables["summary"], tables["flows"]
    named = pl.col("flow").replace(groups).alias("flow_group")
    together = _together(flows.with_columns(named).filter(pl.col("flow").is_in(list(groups))), summary)
    alone = [flow for group in spec["groups"] if not group.get("each") for flow in group["flows"]]
    kept = flows.filter(~pl.col("flow").is_in(alone))
    both = pl.concat([kept, together.select(flows.columns)], how="vertical_relaxed")
    return {
        **tables,
        "summary": summary.with_columns(named),
        "flows": both.sort("time_s", "flow", "side", nulls_last=True, maintain_order=True),
    }


def _together(flows: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """One row an instant, group and side. A sender whose connections have all ended has no part in the state."""
    over = pl.col("connections") == pl.col("completed_connections")
    ends = summary.select("flow", "side", ended_s=pl.when(over).then("end_s"))
    live = pl.col("ended_s").is_null() | (pl.col("time_s") < pl.col("ended_s"))

    def known(name: str) -> pl.Expr:
        return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum())

    state = pl.col("live") & pl.col("cwnd_bytes").is_not_null()
    threshold = pl.col("ssthresh_bytes").filter(state)
    found = (
        flows.join(ends, on=["flow", "side"], how="left", maintain_order="left")
        .with_columns(live=live)
        .group_by("time_s", "flow_group", "side", maintain_order=True)
        .agg(
            *(pl.col(name).filter(state).sum() for name in _SUMS),
            pl.when(threshold.null_count() == 0).then(threshold.sum()).alias("ssthresh_bytes"),
            *(pl.col(name).filter(pl.col("live")).mean() for name in _MEANS),
            pl.col("min_rtt_ms").filter(pl.col("live")).min(),
            *(known(name).alias(name) for name in COUNTERS),
        )
    )
    return found.rename({"flow_group": "flow"}).select(list(COLUMNS["flows"]))
