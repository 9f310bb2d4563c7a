"""Page loads in the stores of a study: times of one cell, slow start, and opinion scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from bentpipe_studies.parts import Measurements

__all__ = ["EXPECTED_S", "REACHED", "Load", "chosen_loads", "opinion", "reached_s", "slow_start_s", "times"]

REACHED = 0.9
"""Ratio of the rate that counts as reaching it.

Stream bytes are 95 % of a full packet, and a sender that paces or probes leaves a little of the link free.
"""

Load = Mapping[str, Any]


def chosen_loads(
    measurements: Measurements, part: str, cell: Mapping[str, str], load: int | None = None
) -> pl.DataFrame:
    """Return the rows of table ``pages`` of one cell (and one load), by seed."""
    rows = measurements.table(part, "pages")
    if not rows.height:
        return rows
    for key, value in cell.items():
        if key in rows.columns:
            rows = rows.filter(pl.col(key) == value)
    if load is not None:
        rows = rows.filter(pl.col("load") == load)
    return rows.sort("seed", "load", maintain_order=True)


def times(
    measurements: Measurements, part: str, cell: Mapping[str, str], load: int | None, column: str = "plt_s"
) -> tuple[float, ...]:
    """Return ``column`` of the finished loads of a cell, seconds, one value for each seed (and load)."""
    rows = chosen_loads(measurements, part, cell, load)
    if not rows.height:
        return ()
    return tuple(float(value) for value in rows[column].drop_nulls().to_list())


def reached_s(
    time_s: Sequence[float],
    received: Sequence[float],
    start_s: float,
    end_s: float,
    rate_bit_s: float,
    window_s: float,
) -> float | None:
    """Return the time until goodput first reaches ``REACHED`` of the rate, seconds; ``None`` if never.

    Goodput at an instant is that of the window that begins there. The window is a round trip long, because a
    sender in slow
    start sends bursts of one round trip, each at the full rate.

    Args:
        time_s: sample times, seconds.
        received: bytes received until each sample.
        start_s: start of the search, and zero of the result, seconds.
        end_s: end of the last window, seconds.
        rate_bit_s: rate of the link, bit/s.
        window_s: length of the window, seconds.
    """
    need = REACHED * rate_bit_s * window_s / 8
    right = 0
    for left, begin in enumerate(time_s):
        if begin < start_s - 1e-9:
            continue
        if begin + window_s > end_s + 1e-9:
            return None
        while right < len(time_s) and time_s[right] < begin + window_s - 1e-9:
            right += 1
        if right == len(time_s):
            return None
        if received[right] - received[left] >= need:
            return begin - start_s
    return None


def slow_start_s(rate_bit_s: float, rtt_s: float, initial_window_bytes: float, one_way: bool) -> float:
    """Return the duration of slow start with one doubling each round trip: log2(BDP / IW) RTT, at least 0.

    Args:
        rate_bit_s: rate of the link, bit/s.
        rtt_s: round-trip time, seconds.
        initial_window_bytes: initial window, bytes.
        one_way: whether the BDP is rate x RTT / 2, as in equation 2.1 of the report (Thomas 2018). Otherwise
            it is
            rate x RTT, the window that fills the path.
    """
    bdp = rate_bit_s * rtt_s / 8 / (2 if one_way else 1)
    return max(0.0, math.log2(bdp / initial_window_bytes)) * rtt_s


EXPECTED_S = {"fast": 6.0, "medium": 15.0, "slow": 60.0}
"""Maximum session time that people expect, seconds, by perceived network (ITU-T G.1030, annex A, second hand)."""


def opinion(plt_s: float, longest_s: float) -> float:
    """Return the opinion score (1 to 5) of a page load for sessions expected within ``longest_s``.

    docs/explanation/web.md has the formula and its limits: show all three expectations or none.
    """
    least = 0.003 * longest_s + 0.12
    return min(5.0, max(1.0, 5 - 4 * math.log(plt_s / least) / math.log(longest_s / least)))
