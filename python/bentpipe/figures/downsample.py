"""Fewer rows to draw, without losing what the eye looks for.

A line of 3,000 samples in a panel 300 pixels wide cannot show more than the extremes of each pixel. So a series is
cut into buckets of equal time and of each bucket the rows with the smallest and the largest value stay, whole and in
their order; the first and the last row stay too. That is the M4 aggregation of Jugel, Jerzak, Hackenbroich and Markl
(PVLDB 7(10), 2014) without the first and last of each bucket. It never invents a value and never hides a peak.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

MOST_ROWS = 2000
"""Rows of one figure."""


def downsample(
    frame: pl.DataFrame, series: Sequence[str], x: str, y: str, most: int = MOST_ROWS
) -> pl.DataFrame:
    """At most about ``most`` rows of ``frame``: per series, per bucket of ``x`` the extremes of ``y``.

    A series is one combination of the columns ``series``. Rows with a null ``y`` are dropped first. A frame that is
    small enough is returned as it is. Every series gets the same number of buckets, over its own range of ``x``; the
    order of rows is kept.
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
    marked = frame.with_row_index("__row").with_columns(bucket.alias("__bucket"))
    within = [*series, "__bucket"]
    kept = marked.group_by(within, maintain_order=True).agg(
        pl.col("__row").get(pl.col(y).arg_min()).alias("low"),
        pl.col("__row").get(pl.col(y).arg_max()).alias("high"),
    )
    groups = marked.group_by(list(series), maintain_order=True) if series else None
    ends = (
        groups.agg(pl.col("__row").first().alias("low"), pl.col("__row").last().alias("high"))
        if groups is not None
        else marked.select(pl.col("__row").first().alias("low"), pl.col("__row").last().alias("high"))
    )
    rows = pl.concat([kept["low"], kept["high"], ends["low"], ends["high"]]).unique()
    return marked.filter(pl.col("__row").is_in(rows.implode())).drop("__row", "__bucket")
