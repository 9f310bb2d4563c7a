"""Goodput over time from sampled counters.

The engine samples at every multiple of a scenario's ``sample_interval``, and at the end of the run. Goodput in windows
does not depend on that interval if it divides the window: the counter at a window's end is then a sample. Between two
samples the counter is interpolated linearly.
"""

from __future__ import annotations

import math

import polars as pl

__all__ = [
    "WINDOW_S",
    "goodput_since_start",
    "goodput_windows",
    "sample_intervals",
    "smooth_windows",
    "smoothing_span",
    "window_of",
]

WINDOW_S = 1.0
"""Window of goodput over time, seconds, as usual in publications on congestion control."""

JITTER = 0.05
"""Tolerated lateness of real-time samples, as a fraction of the window.

An interval up to this much longer than a window still counts as no longer than the window.
"""

_BY = ["run", "flow", "direction"]
_TOLERANCE_S = 1e-9
"""Tolerance of time comparisons, seconds: a sample at 3.0 s matches that instant despite rounding."""


def received(flows: pl.DataFrame, directions: pl.DataFrame) -> pl.DataFrame:
    """Return in-order bytes over time at the receiver of each direction: ``run, flow, direction, time_s, bytes``."""
    receivers = directions.select("flow", "direction", pl.col("receiver").alias("side"))
    return flows.join(receivers, on=["flow", "side"], how="inner", maintain_order="left").select(
        *_BY, "time_s", pl.col("received_in_order_bytes").alias("bytes")
    )


def goodput_windows(
    flows: pl.DataFrame, directions: pl.DataFrame, window_s: float = WINDOW_S
) -> pl.DataFrame:
    """Return goodput in consecutive windows: ``run, flow, direction, time_s, goodput_bit_s``.

    ``time_s`` is the window's end; the last window ends with the run and may be shorter. A window's goodput is the
    increase of the in-order counter between its two ends.

    Args:
        flows: ``run, time_s, flow, side, received_in_order_bytes``.
        directions: :func:`bentpipe.metrics.compute.flow_directions`.
        window_s: window, seconds; at least the sampling interval (:func:`window_of`).
    """
    counts = received(flows, directions)
    number = ((pl.col("last_s") - _TOLERANCE_S) / window_s).ceil().cast(pl.Int64)
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
    increase = [pl.col(name) - pl.col(name).shift(1).over("series") for name in ("bytes", "end_s")]
    return (
        _interpolate(known, ends)
        .with_columns(goodput_bit_s=increase[0] * 8 / increase[1])
        .filter(pl.col("window") > 0)
        .join(series.drop("last_s"), on="series", how="left", maintain_order="left")
        .select(*_BY, (pl.col("window") * window_s).alias("time_s"), "goodput_bit_s")
    )


def _interpolate(counts: pl.DataFrame, instants: pl.DataFrame) -> pl.DataFrame:
    """Add the counter at ``end_s`` to ``instants`` as ``bytes``: linear between samples, 0 at the run's start.

    Both frames have the number ``series``, because a join by three text columns takes ten times as long.
    """
    start = counts.select("series").unique()
    start = start.with_columns(time_s=pl.lit(0.0), bytes=pl.lit(0, counts.schema["bytes"]))
    known = pl.concat([start, counts]).sort("time_s", maintain_order=True)
    before = known.select("series", before_s="time_s", before="bytes")
    after = known.select("series", after_s="time_s", after="bytes")
    rows = instants.with_row_index("place").with_columns(at=pl.col("end_s") + _TOLERANCE_S).sort("at")
    rows = rows.join_asof(
        before, left_on="at", right_on="before_s", by="series", strategy="backward", check_sortedness=False
    )
    rows = rows.join_asof(
        after, left_on="at", right_on="after_s", by="series", strategy="forward", check_sortedness=False
    )
    elapsed, step = pl.col("end_s") - pl.col("before_s"), pl.col("after_s") - pl.col("before_s")
    share = (elapsed.clip(lower_bound=0) / step).fill_null(0.0)
    value = pl.col("before") + share * (pl.col("after") - pl.col("before")).fill_null(0)
    return rows.with_columns(bytes=value).sort("place").drop("place", "at")


def goodput_since_start(flows: pl.DataFrame, directions: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """Return the mean goodput since the start of the direction's data, at every later sample.

    Args:
        flows: ``run, time_s, flow, side, received_in_order_bytes``.
        directions: :func:`bentpipe.metrics.compute.flow_directions`.
        starts: ``run, flow, direction, data_start_s`` (:func:`bentpipe.metrics.compute.starts_and_ends`).

    Returns:
        Columns as in :func:`goodput_windows`.
    """
    elapsed = pl.col("time_s") - pl.col("data_start_s")
    return (
        received(flows, directions)
        .join(starts.select(*_BY, "data_start_s"), on=_BY, how="left", maintain_order="left")
        .filter(elapsed > _TOLERANCE_S)
        .select(*_BY, "time_s", (pl.col("bytes") * 8 / elapsed).alias("goodput_bit_s"))
    )


def smoothing_span(window_s: float, round_trip_s: float) -> float:
    """Return the span of a moving mean, seconds: an odd number of windows, at least 3 and at least a round trip."""
    count = max(3, math.ceil(round_trip_s / window_s - _TOLERANCE_S))
    return (count + 1 - count % 2) * window_s


def smooth_windows(frame: pl.DataFrame, column: str, window_s: float, span_s: float) -> pl.DataFrame:
    """Return the centred moving mean of ``column`` at the middle of each window; fewer windows at the ends.

    Args:
        frame: consecutive windows, ``run, flow, direction, time_s`` and ``column`` (:func:`goodput_windows`).
        column: values of the windows.
        window_s: window, seconds.
        span_s: span of the mean, seconds (:func:`smoothing_span`).
    """
    mean = pl.col(column).rolling_mean(round(span_s / window_s), min_samples=1, center=True).over(_BY)
    return frame.with_columns(mean.alias(column), time_s=pl.col("time_s") - window_s / 2)


def sample_intervals(flows: pl.DataFrame) -> pl.DataFrame:
    """Return the sampling interval of each run, seconds: ``run, interval_s``, from ``flows`` with ``run, time_s``.

    It equals the time of the first sample, which a run takes after one interval.
    """
    times = pl.col("time_s").filter(pl.col("time_s") > _TOLERANCE_S)
    return flows.group_by("run", maintain_order=True).agg(interval_s=times.min()).drop_nulls()


def window_of(flows: pl.DataFrame, window_s: float = WINDOW_S) -> float:
    """Return the shortest usable window for goodput over time of ``flows``, seconds.

    It is ``window_s``, or the longest sampling interval if that is longer.
    """
    longest = sample_intervals(flows)["interval_s"].max()
    if not isinstance(longest, float) or longest <= window_s * (1 + JITTER):
        return window_s
    return float(f"{longest:.3g}")
