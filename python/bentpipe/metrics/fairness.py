"""Fairness over time: Jain's index in windows and convergence time of flows on a shared path."""

from __future__ import annotations

import polars as pl

from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.windows import JITTER, WINDOW_S, goodput_windows, sample_intervals
from bentpipe.store.scan import GROUP

__all__ = [
    "FAIR_JAIN", "HOLD_WINDOWS", "convergence", "convergence_times", "jain_over_time", "unknown_convergence",
    "with_all_series",
]  # fmt: skip

FAIR_JAIN = 0.95
"""Smallest Jain's index of a fair share.

For two flows it is delta-fairness with delta = 0.229 (RFC 5166, section 2.3.3, after Bansal et al. 2001). Neither has
more than 61.5 % of the sum.
"""

HOLD_WINDOWS = 10
"""Consecutive fair windows of a converged share."""

NO_SERIES = 'not every flow has a series of its own (time_series = "per-flow" of the flow)'
TOO_SHORT = f"the flows run together for less than {HOLD_WINDOWS * WINDOW_S:g} s"
NEVER_FAIR = f"Jain's index never stays at {FAIR_JAIN} for {HOLD_WINDOWS * WINDOW_S:g} s"

_BY = ["run", "flow", "direction"]
_BY_DIRECTION = ["run", "direction"]


def jain_over_time(windows: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """Return Jain's index of each window with at least two active flows: ``run, direction, time_s, jain``.

    A flow is active in the windows that begin after the start and end before the end of its data.

    Args:
        windows: :func:`bentpipe.metrics.windows.goodput_windows`.
        starts: :func:`bentpipe.metrics.compute.starts_and_ends`.
    """
    begin = pl.col("time_s") - WINDOW_S
    active = (begin >= pl.col("data_start_s")) & (pl.col("time_s") <= pl.col("data_end_s") + 1e-9)
    squares = (pl.col("goodput_bit_s") ** 2).sum()
    index = pl.when(squares > 0).then(pl.col("goodput_bit_s").sum() ** 2 / (pl.len() * squares))
    return (
        windows.join(starts, on=_BY, how="left", maintain_order="left")
        .filter(active)
        .group_by(*_BY_DIRECTION, "time_s", maintain_order=True)
        .agg(index.alias("jain"), pl.len().alias("flows"))
        .filter(pl.col("flows") >= 2)
        .sort(*_BY_DIRECTION, "time_s", maintain_order=True)
        .drop("flows")
    )


def unknown_convergence(metrics: pl.DataFrame) -> list[str]:
    """Return a sentence for each reason of unknown convergence times, with the number of runs.

    ``metrics`` is :func:`bentpipe.metrics.compute.run_metrics`.
    """
    known = metrics.filter(pl.col("jain").is_not_null() | pl.col("convergence_reason").is_not_null())
    runs = known["run"].n_unique()
    reasons = (
        known.drop_nulls("convergence_reason")
        .group_by("convergence_reason", maintain_order=True)
        .agg(pl.col("run").n_unique())
    )
    title = METRICS["convergence_s"].title
    return [
        f"“{title}” is unknown in {count:,} of {runs:,} runs: {reason}."
        for reason, count in reasons.iter_rows()
    ]


def convergence_times(fairness: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """Return the convergence time of each direction: ``run, direction, convergence_s, convergence_reason``.

    It lasts from the start of the last flow's data to the beginning of the first fair window after it. From that window
    of 1 s on, Jain's index stays at or above ``FAIR_JAIN`` for ``HOLD_WINDOWS`` consecutive windows. Without such a
    window it is null, with the reason. It is the delta-fair convergence time of RFC 5166 section 2.3.3 (Bansal,
    Balakrishnan, Floyd and Shenker, SIGCOMM 2001) with two changes. The fair share must last, and the initial shares
    are those of the flows instead of 100/101 and 1/101. Windows without any goodput are not fair.
    """
    last_start = starts.group_by(_BY_DIRECTION, maintain_order=True).agg(pl.col("data_start_s").max())
    window = (pl.col("time_s") / WINDOW_S).round().cast(pl.Int64)
    following = HOLD_WINDOWS - 1
    consecutive = pl.col("window").shift(-following).over(_BY_DIRECTION) == pl.col("window") + following
    fair = (pl.col("jain").fill_null(0.0) >= FAIR_JAIN).cast(pl.Int32)
    lasting = fair.reverse().rolling_sum(HOLD_WINDOWS).reverse().over(_BY_DIRECTION) == HOLD_WINDOWS
    begin = pl.col("time_s") - WINDOW_S
    converged = (
        fairness.join(last_start, on=_BY_DIRECTION, how="left", maintain_order="left")
        .filter(begin >= pl.col("data_start_s") - 1e-9)
        .with_columns(window=window)
        .with_columns(consecutive=consecutive.fill_null(False), lasting=lasting.fill_null(False))
        .group_by(_BY_DIRECTION, maintain_order=True)
        .agg(
            fair_from_s=begin.filter(pl.col("consecutive") & pl.col("lasting")).first(),
            long=pl.col("consecutive").any(),
        )
    )
    elapsed = pl.max_horizontal(pl.col("fair_from_s") - pl.col("data_start_s"), 0.0)
    reason = pl.when(pl.col("long").fill_null(False)).then(pl.lit(NEVER_FAIR)).otherwise(pl.lit(TOO_SHORT))
    return (
        last_start.join(converged, on=_BY_DIRECTION, how="left", maintain_order="left")
        .with_columns(convergence_s=pl.when(pl.col("fair_from_s").is_not_null()).then(elapsed))
        .with_columns(convergence_reason=pl.when(pl.col("convergence_s").is_null()).then(reason))
        .select(*_BY_DIRECTION, "convergence_s", "convergence_reason")
    )


def with_all_series(flows: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``flows`` of the runs in which every flow has a time series, as shares require."""
    if GROUP not in summary.columns:
        return flows
    sampled = flows.select("run", "flow").unique()
    missing = summary.select("run", "flow").unique().join(sampled, on=["run", "flow"], how="anti")
    return flows.join(missing.select("run").unique(), on="run", how="anti", maintain_order="left")


def convergence(
    flows: pl.DataFrame, summary: pl.DataFrame, directions: pl.DataFrame, starts: pl.DataFrame
) -> pl.DataFrame:
    """Return :func:`convergence_times` of runs with several flows, with the reason of each unknown time.

    Args:
        flows: ``run, time_s, flow, side, received_in_order_bytes`` of these runs.
        summary: table ``flow_summary``.
        directions: :func:`bentpipe.metrics.compute.flow_directions`.
        starts: :func:`bentpipe.metrics.compute.starts_and_ends` of these runs.
    """
    series = with_all_series(flows, summary)
    coarse = sample_intervals(series).filter(pl.col("interval_s") > WINDOW_S * (1 + JITTER))
    fine = series.join(coarse, on="run", how="anti", maintain_order="left")
    runs = series.select("run").unique()
    missing = starts.join(runs, on="run", how="anti").select(_BY_DIRECTION).unique(maintain_order=True)
    known = starts.join(runs, on="run", how="semi", maintain_order="left")
    known = known.join(coarse, on="run", how="anti", maintain_order="left")
    times = convergence_times(jain_over_time(goodput_windows(fine, directions), starts), known)
    text = pl.format(
        "samples are {} s apart, a window takes {} s (sample_interval of the scenario)",
        pl.col("interval_s").round_sig_figs(3).cast(pl.String).str.strip_suffix(".0"),
        pl.lit(f"{WINDOW_S:g}"),
    )
    unknown = [
        starts.join(coarse, on="run", how="inner").select(*_BY_DIRECTION, convergence_reason=text).unique(),
        missing.with_columns(convergence_reason=pl.lit(NO_SERIES)),
    ]
    return pl.concat([times, *unknown], how="diagonal")
