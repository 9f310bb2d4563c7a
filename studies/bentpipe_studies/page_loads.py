"""Loads of web pages in the stores of a study: times of one cell, and when the rate was reached."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from bentpipe_studies.parts import Measurements

__all__ = ["EXPECTED_S", "REACHED", "Load", "chosen_loads", "opinion", "reached_s", "slow_start_s", "times"]

REACHED = 0.9
"""Part of the rate that counts as reaching it: of a full packet 95 % are the stream's, and a sender that paces or
probes leaves a little of the link free."""

Load = Mapping[str, Any]


def chosen_loads(
    measurements: Measurements, part: str, cell: Mapping[str, str], load: int | None = None
) -> pl.DataFrame:
    """Rows of the table ``pages`` of one cell (and one load), in the order of seeds."""
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
    """``column`` of the loads of a cell that finished, seconds, one value a seed (and load)."""
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
    """When goodput first reaches ``REACHED`` of the rate, seconds after ``start_s``; ``None`` when it never does.

    ``received`` counts bytes at ``time_s``. Goodput at an instant is that of the window that begins there: its length
    is a round trip, because a sender in slow start sends in bursts of one round trip, each at the full rate. The
    last window ends at ``end_s``.
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
    """Length of slow start that a doubling a round trip gives: log2(BDP / IW) RTT, at least 0.

    With ``one_way`` the BDP is rate x RTT / 2, as in equation 2.1 of the report (Thomas 2018); otherwise it is
    rate x RTT, what a window must be to fill the path.
    """
    bdp = rate_bit_s * rtt_s / 8 / (2 if one_way else 1)
    return max(0.0, math.log2(bdp / initial_window_bytes)) * rtt_s


EXPECTED_S = {"fast": 6.0, "medium": 15.0, "slow": 60.0}
"""Longest session that people expect, by what their network is like to them (ITU-T G.1030, annex A, second hand)."""


def opinion(plt_s: float, longest_s: float) -> float:
    """Opinion score of a page load among people who expect sessions of at most ``longest_s``, from 1 to 5.

    docs/models/web.md has the formula and its limits: all three expectations are to be shown, or none.
    """
    least = 0.003 * longest_s + 0.12
    return min(5.0, max(1.0, 5 - 4 * math.log(plt_s / least) / math.log(longest_s / least)))
