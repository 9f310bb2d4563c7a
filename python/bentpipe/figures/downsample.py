"""Downsampling of time series for charts without loss of visible extremes.

A line of 3,000 samples in a panel 300 pixels wide cannot show more than the extremes of each pixel. A series is divided
into buckets of equal time. The rows with the smallest and the largest value of each bucket remain unchanged and in
order. The first and the last row of the series remain too. This is the M4 aggregation of Jugel, Jerzak, Hackenbroich
and Markl (PVLDB 7(10), 2014) without the first and last row of each bucket. It never invents a value and never hides a
peak.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

MAX_ROWS = 2000
"""Largest number of rows of a figure."""


def downsample(
    frame: pl.DataFrame, series: Sequence[str], x: str, y: str, most: int = MAX_ROWS
) -> pl.DataFrame:
    """Reduce ``frame`` to about ``most`` rows: per series and bucket of ``x`` the extremes of ``y``.

    Rows with a null ``y`` are dropped first. A frame that is small enough is returned unchanged. Every series has the
    same number of buckets over its range of ``x``. Rows keep their order.

    Args:
        frame: rows of all series.
        series: columns that identify a series.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        most: approximate maximum number of rows.
    """
    frame = frame.drop_nulls(y)
    if frame.height <= most:
        return frame
    count = frame.select(pl.struct(series).n_unique()).item() if series else 1
    buckets = max(1, (most // count - 2) // 2)
    low, high = ((end.over(series) if series else end) for end in (pl.col(x).min(), pl.col(x).max()))
    bucket = (
        ((pl.col(x) - low) / (high - low) * buckets).fill_nan(0).floor().clip(0, buckets - 1).cast(pl.Int64)
    )
    numbered = frame.with_row_index("__row").with_columns(bucket.alias("__bucket"))
    by_bucket = [*series, "__bucket"]
    extremes = numbered.group_by(by_bucket, maintain_order=True).agg(
        pl.col("__row").get(pl.col(y).arg_min()).alias("low"),
        pl.col("__row").get(pl.col(y).arg_max()).alias("high"),
    )
    groups = numbered.group_by(list(series), maintain_order=True) if series else None
    ends = (
        groups.agg(pl.col("__row").first().alias("low"), pl.col("__row").last().alias("high"))
        if groups is not None
        else numbered.select(pl.col("__row").first().alias("low"), pl.col("__row").last().alias("high"))
    )
    rows = pl.concat([extremes["low"], extremes["high"], ends["low"], ends["high"]]).unique()
    return numbered.filter(pl.col("__row").is_in(rows.implode())).drop("__row", "__bucket")
