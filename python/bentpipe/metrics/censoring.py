"""Restricted completion times: statistics of transfers that the end of a run cuts off.

Excluding unfinished transfers would favour the side that finishes only its short ones. Instead, both sides have one
restriction time tau. A run's value is the mean of min(T, tau) over its transfers that began at least tau before its
end. An unfinished transfer counts as tau. Source of this restricted mean: Royston and Parmar, Restricted mean survival
time, BMC Medical Research Methodology 13:152, 2013.
"""

from __future__ import annotations

import polars as pl

__all__ = ["restricted_times", "restriction_times"]


def restriction_times(transfers: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Choose the restriction time tau of each group of runs.

    tau is the longest completion time if every transfer with that much time before the end of its run finished.
    Otherwise it is the longest time that half of the transfers of each run had: the smallest median over the runs.

    Args:
        transfers: one row for each transfer of both sides, ``BY..., side, run, begun_s, end_s, completion_s`` (null:
            unfinished); ``end_s`` is the end of its run, null if unknown.
        by: columns of a group.

    Returns:
        ``BY..., tau_s``, without the groups in which no transfer had any time.
    """
    available = (pl.col("end_s") - pl.col("begun_s")).fill_null(float("inf"))
    rows = transfers.with_columns(available_s=available).filter(pl.col("available_s") > 0)
    medians = (
        rows.group_by([*by, "side", "run"])
        .agg(pl.col("available_s").median())
        .group_by(by, maintain_order=True)
        .agg(median_s=pl.col("available_s").min())
    )
    longest = rows.group_by(by).agg(longest_s=pl.col("completion_s").max())
    rows = rows.join(longest, on=by, how="left", nulls_equal=True)
    censored = rows.group_by(by).agg(
        censored=(pl.col("completion_s").is_null() & (pl.col("available_s") >= pl.col("longest_s"))).any()
    )
    groups = medians.join(longest, on=by, how="left", nulls_equal=True, maintain_order="left")
    groups = groups.join(censored, on=by, how="left", nulls_equal=True, maintain_order="left")
    longest_s, median_s = pl.col("longest_s"), pl.col("median_s")
    complete = (
        longest_s.is_not_null() & (longest_s <= median_s) & (~pl.col("censored") | median_s.is_infinite())
    )
    tau = pl.when(complete).then(longest_s).otherwise(median_s)
    return groups.select(*by, tau_s=tau).filter(pl.col("tau_s").is_finite() & (pl.col("tau_s") > 0))


def restricted_times(
    transfers: pl.DataFrame, by: list[str], quantiles: dict[str, float] | None = None
) -> pl.DataFrame:
    """Compute the restricted mean, quantiles and the finished share of each run.

    Args:
        transfers: one row for each transfer, ``BY..., begun_s, end_s, completion_s, tau_s``.
        by: columns that identify a run.
        quantiles: name and probability of each quantile.

    Returns:
        ``BY..., mean_s, finished_ratio, tau_s`` and, for each quantile, ``NAME`` and ``NAME_reached``. A quantile is
        tau if too few transfers finish.
    """
    available = (pl.col("end_s") - pl.col("begun_s")).fill_null(float("inf"))
    finished = pl.col("completion_s").is_not_null() & (pl.col("completion_s") <= pl.col("tau_s"))
    rows = transfers.filter(available >= pl.col("tau_s")).with_columns(
        value=pl.when(finished).then("completion_s").otherwise("tau_s"), done=finished
    )
    statistics = [
        pl.col("value").mean().alias("mean_s"),
        pl.col("done").mean().alias("finished_ratio"),
        pl.col("tau_s").first(),
    ]
    for name, probability in (quantiles or {}).items():
        # The linear quantile lies at or below the order statistic of this rank (from 0).
        rank = ((pl.len() - 1) * probability).ceil()
        statistics += [
            pl.col("value").quantile(probability, "linear").alias(name),
            (pl.col("done").sum() > rank).alias(f"{name}_reached"),
        ]
    return rows.group_by(by, maintain_order=True).agg(statistics)
