"""Fairness over time: Jain's index in windows, and when flows that share a path came to share it fairly."""

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
"""Jain's index from which two flows count as sharing fairly. For two flows it is delta-fairness (RFC 5166, section
2.3.3, after Bansal et al. 2001) with delta = 0.229: neither has more than 61.5 % of the sum."""

HOLD_WINDOWS = 10
"""Windows in a row that must be fair before a share counts as converged."""

NO_SERIES = 'not every flow has a series of its own (series = "each" of the flow)'
TOO_SHORT = f"the flows run together for less than {HOLD_WINDOWS * WINDOW_S:g} s"
NEVER_FAIR = f"Jain's index never stays at {FAIR_JAIN} for {HOLD_WINDOWS * WINDOW_S:g} s"

_BY = ["run", "flow", "direction"]
_TOGETHER = ["run", "direction"]


def jain_over_time(windows: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """Jain's index in every window in which at least two flows of a direction run: ``run, direction, time_s, jain``.

    ``windows`` is :func:`bentpipe.metrics.windows.goodput_windows`, ``starts``
    :func:`bentpipe.metrics.compute.starts_and_ends`. A flow counts in the windows that begin after its data did and end
    before its data was over; windows with fewer than two flows are left out.
    """
    span = pl.col("time_s") - WINDOW_S
    active = (span >= pl.col("data_start_s")) & (pl.col("time_s") <= pl.col("data_end_s") + 1e-9)
    squares = (pl.col("goodput_bit_s") ** 2).sum()
    index = pl.when(squares > 0).then(pl.col("goodput_bit_s").sum() ** 2 / (pl.len() * squares))
    return (
        windows.join(starts, on=_BY, how="left", maintain_order="left")
        .filter(active)
        .group_by(*_TOGETHER, "time_s", maintain_order=True)
        .agg(index.alias("jain"), pl.len().alias("flows"))
        .filter(pl.col("flows") >= 2)
        .sort(*_TOGETHER, "time_s", maintain_order=True)
        .drop("flows")
    )


def unknown_convergence(metrics: pl.DataFrame) -> list[str]:
    """Why some of ``metrics`` (:func:`bentpipe.metrics.compute.run_metrics`) have no convergence time: a sentence each
    reason, with how many runs it holds for."""
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
    """Time until the flows of a direction share fairly: ``run, direction, convergence_s, convergence_reason``.

    From the start of the last flow's data to the beginning of the first window after it from which Jain's index of 1 s
    windows stays at or above ``FAIR_JAIN`` for ``HOLD_WINDOWS`` windows that follow each other; null when it never
    does, with the reason. It is the delta-fair convergence time of RFC 5166 section 2.3.3 (Bansal, Balakrishnan, Floyd
    and Shenker, SIGCOMM 2001), with a share that must last, and from the start the flows really had instead of the
    shares 100/101 and 1/101. Windows without any goodput are not fair.
    """
    last_start = starts.group_by(_TOGETHER, maintain_order=True).agg(pl.col("data_start_s").max())
    window = (pl.col("time_s") / WINDOW_S).round().cast(pl.Int64)
    ahead = HOLD_WINDOWS - 1
    unbroken = pl.col("window").shift(-ahead).over(_TOGETHER) == pl.col("window") + ahead
    fair = (pl.col("jain").fill_null(0.0) >= FAIR_JAIN).cast(pl.Int32)
    held = fair.reverse().rolling_sum(HOLD_WINDOWS).reverse().over(_TOGETHER) == HOLD_WINDOWS
    begins = pl.col("time_s") - WINDOW_S
    found = (
        fairness.join(last_start, on=_TOGETHER, how="left", maintain_order="left")
        .filter(begins >= pl.col("data_start_s") - 1e-9)
        .with_columns(window=window)
        .with_columns(unbroken=unbroken.fill_null(False), held=held.fill_null(False))
        .group_by(_TOGETHER, maintain_order=True)
        .agg(
            fair_from_s=begins.filter(pl.col("unbroken") & pl.col("held")).first(),
            long=pl.col("unbroken").any(),
        )
    )
    since = pl.max_horizontal(pl.col("fair_from_s") - pl.col("data_start_s"), 0.0)
    reason = pl.when(pl.col("long").fill_null(False)).then(pl.lit(NEVER_FAIR)).otherwise(pl.lit(TOO_SHORT))
    return (
        last_start.join(found, on=_TOGETHER, how="left", maintain_order="left")
        .with_columns(convergence_s=pl.when(pl.col("fair_from_s").is_not_null()).then(since))
        .with_columns(convergence_reason=pl.when(pl.col("convergence_s").is_null()).then(reason))
        .select(*_TOGETHER, "convergence_s", "convergence_reason")
    )


def with_all_series(flows: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``flows`` of the runs in which every flow has a series of its own: shares over time need them all."""
    if GROUP not in summary.columns:
        return flows
    theirs = flows.select("run", "flow").unique()
    lacking = summary.select("run", "flow").unique().join(theirs, on=["run", "flow"], how="anti")
    return flows.join(lacking.select("run").unique(), on="run", how="anti", maintain_order="left")


def convergence(
    flows: pl.DataFrame, summary: pl.DataFrame, ways: pl.DataFrame, starts: pl.DataFrame
) -> pl.DataFrame:
    """:func:`convergence_times` of runs with several flows, also of those that cannot have one: with the reason.

    Args:
        flows: ``run, time_s, flow, side, received_in_order_bytes`` of these runs.
        summary: the table of that name.
        ways: :func:`bentpipe.metrics.compute.flow_directions`.
        starts: :func:`bentpipe.metrics.compute.starts_and_ends` of these runs.
    """
    whole = with_all_series(flows, summary)
    coarse = sample_intervals(whole).filter(pl.col("interval_s") > WINDOW_S * (1 + JITTER))
    fine = whole.join(coarse, on="run", how="anti", maintain_order="left")
    there = whole.select("run").unique()
    lacking = starts.join(there, on="run", how="anti").select(_TOGETHER).unique(maintain_order=True)
    known = starts.join(there, on="run", how="semi", maintain_order="left")
    known = known.join(coarse, on="run", how="anti", maintain_order="left")
    times = convergence_times(jain_over_time(goodput_windows(fine, ways), starts), known)
    text = pl.format(
        "samples are {} s apart, a window takes {} s (sample of the scenario)",
        pl.col("interval_s").round_sig_figs(3).cast(pl.String).str.strip_suffix(".0"),
        pl.lit(f"{WINDOW_S:g}"),
    )
    unknown = [
        starts.join(coarse, on="run", how="inner").select(*_TOGETHER, convergence_reason=text).unique(),
        lacking.with_columns(convergence_reason=pl.lit(NO_SERIES)),
    ]
    return pl.concat([times, *unknown], how="diagonal")
