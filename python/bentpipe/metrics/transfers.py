"""Transfers of a store: streams of a given size, their completion times, and those that the end of a run cuts off."""

from __future__ import annotations

import polars as pl

from bentpipe.metrics.censoring import restricted_times, restriction_times
from bentpipe.metrics.compute import completion_times
from bentpipe.metrics.groups import as_groups
from bentpipe.store.reader import Store

__all__ = [
    "BROWSER",
    "count_unfinished",
    "has_one_transfer",
    "planned_ends",
    "restricted_completions",
    "transfers",
]  # fmt: skip

BROWSER = "-browser,"
"""Part of the engine's name of a store of browser sessions."""


def planned_ends(store: Store) -> pl.DataFrame:
    """Return the configured end of each run: ``run, end_s``.

    A browser's run ends with its last load, not at a time limit, so it has no row.
    """
    ends = store.ends
    return ends.clear() if BROWSER in store.engine else ends


def transfers(store: Store) -> pl.DataFrame:
    """Return one row for each stream of a given size: ``run, flow, begun_s, completion_s``, with groups as flows.

    ``completion_s`` is null for an unfinished transfer.
    """
    times = as_groups(completion_times(store.rows("streams")), store.rows("flow_summary", ["flow"]))
    return times.select("run", "flow", begun_s=pl.col("start_s"), completion_s=pl.col("completion_s"))


def has_one_transfer(rows: pl.DataFrame) -> bool:
    """Return whether no flow of a run has several of the transfers ``rows``, so that its quantiles are equal."""
    return bool(rows.height) and rows.group_by("run", "flow").len()["len"].max() == 1


def restricted_completions(store: Store, rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the restricted mean completion time of each run: ``run, flow, mean_s, tau_s``.

    Args:
        store: store of the runs.
        rows: result of :func:`transfers`.
        keys: columns of the sweep; runs with equal values have one restriction time.
    """
    cells = store.index.select("run", *keys)
    rows = rows.join(cells, on="run", how="inner", maintain_order="left").join(
        planned_ends(store), on="run", how="left", maintain_order="left"
    )
    by = [*keys, "flow"]
    limits = restriction_times(rows.with_columns(side=pl.lit(0)), by)
    limited = rows.join(limits, on=by, how="inner", nulls_equal=True, maintain_order="left")
    return restricted_times(limited, ["run", "flow"]).select("run", "flow", "mean_s", "tau_s")


def count_unfinished(store: Store) -> pl.DataFrame:
    """Return the numbers of transfers of each run: ``run, flow, direction, transfers, unfinished, end_s``.

    Only flows with a given number of transfers have rows, and only if some transfer of the store did not finish. With
    random arrivals or pages, some always begin at the end of a run. ``direction`` is that of most bytes.
    """
    columns = ["run", "flow", "direction", "transfers", "unfinished", "end_s"]
    streams = store.rows("streams")
    if streams.width <= 1:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    streams = streams.filter(pl.col("mode") == "data")
    is_down = pl.col("down_written_bytes") > pl.col("up_written_bytes")
    counts = streams.select(
        "run",
        "flow",
        direction=pl.when(is_down).then(pl.lit("down")).otherwise(pl.lit("up")),
        unfinished=completion_times(streams)["completion_s"].is_null(),
    )
    cut = counts.filter("unfinished")["run"].unique(maintain_order=True).to_list()
    flows = {
        flow["name"]
        for spec in store.specs(cut).values()
        for flow in spec["flows"]
        if flow["load"]["kind"] == "perf"
    }
    counts = as_groups(counts.filter(pl.col("flow").is_in(flows)), store.rows("flow_summary", ["flow"]))
    by = ["run", "flow", "direction"]
    sums = counts.group_by(by, maintain_order=True).agg(
        transfers=pl.len(), unfinished=pl.col("unfinished").sum()
    )
    return sums.join(planned_ends(store), on="run", how="left", maintain_order="left").select(columns)
