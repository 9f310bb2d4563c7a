"""Goodput over time, from counters that are read at sampling ticks.

The engine samples at every multiple of a scenario's ``sample``, and at the end of the run. What is computed here does
not depend on that interval as long as it divides the window: the counter at a window's end is then a sample. Between
two samples the counter is interpolated linearly.
"""

from __future__ import annotations

import polars as pl

__all__ = ["WINDOW_S", "goodput_since_start", "goodput_windows", "sample_intervals", "window_of"]

WINDOW_S = 1.0
"""Window of goodput over time, seconds: the one that published figures of this field use."""

JITTER = 0.05
"""Part of an interval by which real-time samples may be late, so that an interval still counts as no longer than a
window."""

_BY = ["run", "flow", "direction"]
_SLACK_S = 1e-9
"""The sample at 3.0 s is the counter at that instant, however its seconds were rounded."""


def received(flows: pl.DataFrame, ways: pl.DataFrame) -> pl.DataFrame:
    """In-order bytes over time at the receiver of every direction: ``run, flow, direction, time_s, bytes``."""
    arriving = ways.select("flow", "direction", pl.col("receiver").alias("side"))
    return flows.join(arriving, on=["flow", "side"], how="inner", maintain_order="left").select(
        *_BY, "time_s", pl.col("received_in_order_bytes").alias("bytes")
    )


def goodput_windows(flows: pl.DataFrame, ways: pl.DataFrame, window_s: float = WINDOW_S) -> pl.DataFrame:
    """Goodput in windows of ``window_s`` from the run's start: ``run, flow, direction, time_s, goodput_bit_s``.

    ``time_s`` is the window's end; the last window ends with the run and may be shorter. A window's goodput is the
    growth of the in-order counter between its two ends. Samples further apart than ``window_s`` cannot tell windows
    apart: choose it by :func:`window_of`.
    """
    counts = received(flows, ways)
    number = ((pl.col("last_s") - _SLACK_S) / window_s).ceil().cast(pl.Int64)
    series = (
        counts.group_by(_BY, maintain_order=True)
        .agg(last_s=pl.col("time_s").max())
        .with_row_index("series")
        .filter(number > 0)
    )
    ends = (
        series.select("series", "last_s", window=pl.int_ranges(0, number + 1))
        .explode("window")
        .with_columns(end_s=pl.min_horizontal(pl.col("window") * window_s, "last_s"))
    )
    known = counts.join(series, on=_BY, how="inner", maintain_order="left").select(
        "series", "time_s", "bytes"
    )
    grown = [pl.col(name) - pl.col(name).shift(1).over("series") for name in ("bytes", "end_s")]
    return (
        _at(known, ends)
        .with_columns(goodput_bit_s=grown[0] * 8 / grown[1])
        .filter(pl.col("window") > 0)
        .join(series.drop("last_s"), on="series", how="left", maintain_order="left")
        .select(*_BY, (pl.col("window") * window_s).alias("time_s"), "goodput_bit_s")
    )


def _at(counts: pl.DataFrame, instants: pl.DataFrame) -> pl.DataFrame:
    """``instants`` with the counter at ``end_s`` in ``bytes``: linear between samples, 0 at the run's start.

    Both have ``series``, a number: a join by three texts takes ten times as long.
    """
    start = counts.select("series").unique()
    start = start.with_columns(time_s=pl.lit(0.0), bytes=pl.lit(0, counts.schema["bytes"]))
    known = pl.concat([start, counts]).sort("time_s", maintain_order=True)
    before = known.select("series", before_s="time_s", before="bytes")
    after = known.select("series", after_s="time_s", after="bytes")
    found = instants.with_row_index("place").with_columns(at=pl.col("end_s") + _SLACK_S).sort("at")
    found = found.join_asof(
        before, left_on="at", right_on="before_s", by="series", strategy="backward", check_sortedness=False
    )
    found = found.join_asof(
        after, left_on="at", right_on="after_s", by="series", strategy="forward", check_sortedness=False
    )
    since, step = pl.col("end_s") - pl.col("before_s"), pl.col("after_s") - pl.col("before_s")
    share = (since.clip(lower_bound=0) / step).fill_null(0.0)
    between = pl.col("before") + share * (pl.col("after") - pl.col("before")).fill_null(0)
    return found.with_columns(bytes=between).sort("place").drop("place", "at")


def goodput_since_start(flows: pl.DataFrame, ways: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """Goodput averaged since the direction's data began, at every sample after it.

    ``starts`` has ``run, flow, direction, data_start_s`` (:func:`bentpipe.metrics.compute.starts_and_ends`). Result as
    :func:`goodput_windows`.
    """
    since = pl.col("time_s") - pl.col("data_start_s")
    return (
        received(flows, ways)
        .join(starts.select(*_BY, "data_start_s"), on=_BY, how="left", maintain_order="left")
        .filter(since > _SLACK_S)
        .select(*_BY, "time_s", (pl.col("bytes") * 8 / since).alias("goodput_bit_s"))
    )


def sample_intervals(flows: pl.DataFrame) -> pl.DataFrame:
    """The time between two samples of each run, seconds: ``run, interval_s``, of ``flows`` with ``run, time_s``.

    It is that of the first sample, which a run takes after one interval.
    """
    late = pl.col("time_s").filter(pl.col("time_s") > _SLACK_S)
    return flows.group_by("run", maintain_order=True).agg(interval_s=late.min()).drop_nulls()


def window_of(flows: pl.DataFrame, window_s: float = WINDOW_S) -> float:
    """The window in which goodput over time of ``flows`` can be shown, seconds: ``window_s``, or the longest interval
    between samples where that is longer."""
    longest = sample_intervals(flows)["interval_s"].max()
    if not isinstance(longest, float) or longest <= window_s * (1 + JITTER):
        return window_s
    return float(f"{longest:.3g}")
