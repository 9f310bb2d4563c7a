"""Completion times of which some are not known, because the run ended first.

Leaving unfinished transfers out favours the side that finishes only its short ones. Both sides get one restriction time
tau instead: a run's value is the mean of min(T, tau) over its transfers that began at least tau before its end
(restricted mean: Royston and Parmar, Restricted mean survival time, BMC Med. Res. Methodol. 13:152, 2013). A transfer
that did not finish counts tau.
"""

from __future__ import annotations

import polars as pl

__all__ = ["restricted", "restriction_times"]


def restriction_times(transfers: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Choose tau for each group of runs.

    tau is the longest known completion time if every transfer that had so much time finished. Otherwise it is the
    largest time that half of the transfers of each run had: the least median over the runs.

    Args:
        transfers: both sides together, ``BY..., side, run, begun_s, end_s, completion_s`` (null: not finished), a row
            a transfer; ``end_s`` is the end of its run, null where that is not known.
        by: columns of a group.

    Returns:
        ``BY..., tau_s``; without groups in which no transfer had any time.
    """
    had = (pl.col("end_s") - pl.col("begun_s")).fill_null(float("inf"))
    rows = transfers.with_columns(had_s=had).filter(pl.col("had_s") > 0)
    half = (
        rows.group_by([*by, "side", "run"])
        .agg(pl.col("had_s").median())
        .group_by(by, maintain_order=True)
        .agg(half_s=pl.col("had_s").min())
    )
    longest = rows.group_by(by).agg(longest_s=pl.col("completion_s").max())
    rows = rows.join(longest, on=by, how="left", nulls_equal=True)
    stuck = rows.group_by(by).agg(
        stuck=(pl.col("completion_s").is_null() & (pl.col("had_s") >= pl.col("longest_s"))).any()
    )
    found = half.join(longest, on=by, how="left", nulls_equal=True, maintain_order="left")
    found = found.join(stuck, on=by, how="left", nulls_equal=True, maintain_order="left")
    longest_s, half_s = pl.col("longest_s"), pl.col("half_s")
    enough = longest_s.is_not_null() & (longest_s <= half_s) & (~pl.col("stuck") | half_s.is_infinite())
    chosen = pl.when(enough).then(longest_s).otherwise(half_s)
    return found.select(*by, tau_s=chosen).filter(pl.col("tau_s").is_finite() & (pl.col("tau_s") > 0))


def restricted(
    transfers: pl.DataFrame, by: list[str], quantiles: dict[str, float] | None = None
) -> pl.DataFrame:
    """Compute the restricted mean, quantiles and the finished share of each run.

    Args:
        transfers: ``BY..., begun_s, end_s, completion_s, tau_s``, a row a transfer; a run's values of ``BY`` are its
            own.
        by: columns of a run.
        quantiles: name and probability of each quantile.

    Returns:
        ``BY..., mean_s, finished_ratio, tau_s`` and, for each quantile, NAME and ``NAME_reached``. A quantile that too
        few transfers reach is tau.
    """
    had = (pl.col("end_s") - pl.col("begun_s")).fill_null(float("inf"))
    finished = pl.col("completion_s").is_not_null() & (pl.col("completion_s") <= pl.col("tau_s"))
    rows = transfers.filter(had >= pl.col("tau_s")).with_columns(
        value=pl.when(finished).then("completion_s").otherwise("tau_s"), done=finished
    )
    wanted = [
        pl.col("value").mean().alias("mean_s"),
        pl.col("done").mean().alias("finished_ratio"),
        pl.col("tau_s").first(),
    ]
    for name, probability in (quantiles or {}).items():
        # The linear quantile lies at or below the order statistic of this rank (from 0).
        rank = ((pl.len() - 1) * probability).ceil()
        wanted += [
            pl.col("value").quantile(probability, "linear").alias(name),
            (pl.col("done").sum() > rank).alias(f"{name}_reached"),
        ]
    return rows.group_by(by, maintain_order=True).agg(wanted)
