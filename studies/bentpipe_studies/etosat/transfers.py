"""Times at which a transfer has delivered 2, 10 and 100 MB, from the series of its flow."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from bentpipe_studies.parts import Measurements

__all__ = ["crossing_s", "transfer_times"]


def crossing_s(time_s: Sequence[float], count: Sequence[float], target: float) -> float | None:
    """Return the time at which a counter reaches ``wanted``, linear between samples; ``None`` if never."""
    right = bisect_left(count, target)
    if right == len(count):
        return None
    if right == 0:
        return time_s[0]
    rise = count[right] - count[right - 1]
    part = (target - count[right - 1]) / rise
    return time_s[right - 1] + (time_s[right] - time_s[right - 1]) * part


def transfer_times(
    measurements: Measurements, part: str, cell: Mapping[str, str], send: str, sizes: Sequence[int]
) -> dict[int, tuple[float | None, ...]]:
    """Return the times from the start of a flow until its first bytes of each size arrived in order.

    Returns:
        For each size one value for each seed, seconds; the time includes connection set-up. ``None`` where
        the run ended
        before.
    """
    summary = measurements.table(part, "flow_summary")
    found: dict[int, list[float | None]] = {size: [] for size in sizes}
    store = measurements.store(part)
    if store is None or not summary.height:
        return dict.fromkeys(sizes, ())
    for key, value in cell.items():
        if key in summary.columns:
            summary = summary.filter(pl.col(key) == value)
    receiver = "client" if send == "down" else "server"
    for row in summary.filter(pl.col("side") == "client").sort("seed").iter_rows(named=True):
        columns = ["time_s", "flow", "side", "received_in_order_bytes"]
        frame = store.rows("flows", columns, [row["run"]]).filter(pl.col("side") == receiver).sort("time_s")
        times, counts = frame["time_s"].to_list(), frame["received_in_order_bytes"].to_list()
        for size in sizes:
            at = crossing_s(times, counts, size)
            found[size].append(None if at is None else at - row["start_s"])
    return {size: tuple(values) for size, values in found.items()}
