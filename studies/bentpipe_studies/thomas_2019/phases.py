"""Start-up and steady state of a flow, from its series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from bentpipe_studies.page_loads import chosen_loads, reached_s
from bentpipe_studies.parts import Measurements
from bentpipe_studies.thomas_2019.cells import HALF, SATCOM_RATE, SATCOM_RTT

__all__ = ["LoadParts", "bulk_start_up", "growth", "parts_of_load", "received"]

Cell = Mapping[str, str]


@dataclass(frozen=True)
class LoadParts:
    """One load of target A: seconds from responseStart to the rate (or to the end), and to the end."""

    start_up_s: float
    download_s: float
    reached: bool


def received(measurements: Measurements, part: str, run: str, flow: str) -> tuple[list[float], list[float]]:
    """Return sample times and the bytes that the client has received."""
    store = measurements.store(part)
    if store is None:
        return [], []
    frame = store.rows("flows", ["time_s", "flow", "side", "received_bytes"], [run])
    frame = frame.filter((pl.col("side") == "client") & (pl.col("flow") == flow)).sort("time_s")
    return frame["time_s"].to_list(), frame["received_bytes"].to_list()


def parts_of_load(
    measurements: Measurements,
    part: str,
    cell: Cell,
    load: int,
    rate: float = SATCOM_RATE,
    rtt_s: float = SATCOM_RTT,
) -> list[LoadParts]:
    """Return start-up and download of every finished load of a cell, one for each seed."""
    rows = chosen_loads(measurements, part, cell, load)
    found = []
    for row in rows.iter_rows(named=True):
        start, end = row["response_start_s"], row["load_event_end_s"]
        if start is None or end is None:
            continue
        times, bytes_ = received(measurements, part, row["run"], row["flow"])
        at = reached_s(times, bytes_, start, end, rate, rtt_s)
        found.append(LoadParts(end - start if at is None else at, end - start, at is not None))
    return found


def growth(measurements: Measurements, part: str, cell: Cell, load: int) -> tuple[float, ...]:
    """Return bytes received from 3 to 4 s after connectStart over those from 1 to 2 s, one value for each seed."""
    rows = chosen_loads(measurements, part, cell, load)
    found = []
    for row in rows.iter_rows(named=True):
        begin = row["connect_start_s"]
        if begin is None:
            continue
        times, bytes_ = received(measurements, part, row["run"], row["flow"])
        at = [_at(times, bytes_, begin + after) for after in (1, 2, 3, 4)]
        if at[1] > at[0]:
            found.append((at[3] - at[2]) / (at[1] - at[0]))
    return tuple(found)


def _at(times: list[float], values: list[float], instant: float) -> float:
    """Return a counter at an instant, linear between samples."""
    import bisect

    right = bisect.bisect_left(times, instant)
    if right == 0:
        return values[0]
    if right == len(times):
        return values[-1]
    left = right - 1
    span = times[right] - times[left]
    return values[left] + (values[right] - values[left]) * (instant - times[left]) / span


def bulk_start_up(measurements: Measurements, part: str) -> dict[float, float | None]:
    """Return the start-up time of each run of a part by round-trip time, s.

    The start-up time is from the first byte at the client to 90 % of the rate. The window of goodput is the round trip
    by which the sender's window grows. It is that of the whole path, or that of a segment if a proxy is half way.
    """
    store = measurements.store(part)
    if store is None:
        return {}
    found: dict[float, float | None] = {}
    for row in store.index.iter_rows(named=True):
        rtt = 4 * float(row[HALF].removesuffix(" ms")) / 1e3
        times, bytes_ = received(measurements, part, row["run"], "bulk")
        first = next((at for at, count in zip(times, bytes_, strict=True) if count > 0), None)
        if first is not None:
            window = rtt if part == "startup" else rtt / 2
            found[rtt] = reached_s(times, bytes_, first, times[-1], SATCOM_RATE, window)
    return found
