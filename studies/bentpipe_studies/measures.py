"""What claims are about and statistics do not have: windows, steadiness, and shares over a span of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.compute import jain_index
from bentpipe.metrics.windows import WINDOW_S

if TYPE_CHECKING:
    from bentpipe_studies.parts import Measurements

__all__ = ["jain_between", "mean_window", "variation"]

Cell = Mapping[str, str]


def _samples(measurements: Measurements, part: str, cell: Cell, side: str, column: str) -> list[pl.DataFrame]:
    """``time_s, flow`` and one column of a side's samples, of each run of a cell, by seed."""
    rows = measurements.rows(part, cell)
    store = measurements.store(part)
    if store is None or not rows.height:
        return []
    runs = rows["run"].unique(maintain_order=True).to_list()
    frame = store.rows("flows", ["time_s", "flow", "side", column], runs).filter(pl.col("side") == side)
    return [frame.filter(pl.col("run") == run).sort("flow", "time_s", maintain_order=True) for run in runs]


def mean_window(measurements: Measurements, part: str, cell: Cell, since_s: float) -> tuple[float, ...]:
    """Mean congestion window of the client from ``since_s`` on, bytes, one value a seed."""
    found = []
    for frame in _samples(measurements, part, cell, "client", "cwnd_bytes"):
        mean = frame.filter(pl.col("time_s") >= since_s)["cwnd_bytes"].mean()
        if isinstance(mean, (int, float)):
            found.append(float(mean))
    return tuple(found)


def variation(measurements: Measurements, part: str, cell: Cell, since_s: float) -> tuple[float, ...]:
    """Coefficient of variation (deviation over mean) of in-order goodput in windows of 1 s, one value a seed."""
    found = []
    for frame in _samples(measurements, part, cell, "server", "received_in_order_bytes"):
        late = frame.filter(pl.col("time_s") >= since_s - 1e-9)
        window = ((pl.col("time_s") + 1e-9) / WINDOW_S).floor()
        counts = late.group_by(window.alias("window"), maintain_order=True).agg(
            pl.col("received_in_order_bytes").first()
        )
        steps = counts["received_in_order_bytes"].diff().drop_nulls()
        mean, deviation = steps.mean(), steps.std()
        if isinstance(mean, (int, float)) and isinstance(deviation, (int, float)) and mean > 0:
            found.append(float(deviation) / float(mean))
    return tuple(found)


def jain_between(
    measurements: Measurements, part: str, cell: Cell, since_s: float, until_s: float | None
) -> tuple[float, ...]:
    """Jain's index of what the flows deliver in order from ``since_s`` to ``until_s`` (the end), one value a seed."""
    found = []
    for frame in _samples(measurements, part, cell, "server", "received_in_order_bytes"):
        span = frame.filter(pl.col("time_s") >= since_s - 1e-9)
        if until_s is not None:
            span = span.filter(pl.col("time_s") <= until_s + 1e-9)
        bytes_ = pl.col("received_in_order_bytes")
        shares = span.group_by("flow", maintain_order=True).agg(
            (bytes_.last() - bytes_.first()).alias("share")
        )
        index = jain_index([float(share) for share in shares["share"].to_list()])
        if index is not None:
            found.append(index)
    return tuple(found)
