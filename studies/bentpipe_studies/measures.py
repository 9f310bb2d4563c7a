"""Measures of claims that the metrics lack: window, steadiness and fairness over a time span."""

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
    """Return ``time_s, flow, side`` and one column of one side's samples, a frame for each run, by seed."""
    rows = measurements.rows(part, cell)
    store = measurements.store(part)
    if store is None or not rows.height:
        return []
    runs = rows["run"].unique(maintain_order=True).to_list()
    frame = store.rows("flows", ["time_s", "flow", "side", column], runs).filter(pl.col("side") == side)
    return [frame.filter(pl.col("run") == run).sort("flow", "time_s", maintain_order=True) for run in runs]


def mean_window(measurements: Measurements, part: str, cell: Cell, since_s: float) -> tuple[float, ...]:
    """Return the mean congestion window of the client from ``since_s`` on, bytes, one value for each seed."""
    values = []
    for frame in _samples(measurements, part, cell, "client", "cwnd_bytes"):
        mean = frame.filter(pl.col("time_s") >= since_s)["cwnd_bytes"].mean()
        if isinstance(mean, (int, float)):
            values.append(float(mean))
    return tuple(values)


def variation(measurements: Measurements, part: str, cell: Cell, since_s: float) -> tuple[float, ...]:
    """Return the coefficient of variation of in-order goodput, one value for each seed.

    The coefficient is the standard deviation over the mean of windows of 1 s, from ``since_s`` on.
    """
    values = []
    for frame in _samples(measurements, part, cell, "server", "received_in_order_bytes"):
        samples = frame.filter(pl.col("time_s") >= since_s - 1e-9)
        window = ((pl.col("time_s") + 1e-9) / WINDOW_S).floor()
        counts = samples.group_by(window.alias("window"), maintain_order=True).agg(
            pl.col("received_in_order_bytes").first()
        )
        steps = counts["received_in_order_bytes"].diff().drop_nulls()
        mean, deviation = steps.mean(), steps.std()
        if isinstance(mean, (int, float)) and isinstance(deviation, (int, float)) and mean > 0:
            values.append(float(deviation) / float(mean))
    return tuple(values)


def jain_between(
    measurements: Measurements, part: str, cell: Cell, since_s: float, until_s: float | None
) -> tuple[float, ...]:
    """Return Jain's index of the bytes that flows deliver in order in a time span, one value for each seed.

    Args:
        measurements: measurements of the study.
        part: name of the part.
        cell: cell of the part.
        since_s: start of the span, seconds.
        until_s: end of the span, seconds; ``None`` for the end of the run.
    """
    values = []
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
            values.append(index)
    return tuple(values)
