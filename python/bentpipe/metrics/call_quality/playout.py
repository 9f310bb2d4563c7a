"""Play-out: how long a listener's buffer holds speech back, and what therefore comes too late.

A datagram is in time if it took less than the play-out delay, which is a whole number of milliseconds as the delays of
the table ``call_delays`` are: nothing is lost by the histogram.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

import polars as pl

from bentpipe.scenario.quantities import Duration, UnitError

__all__ = ["ADAPTIVE", "CALL", "Playout", "PlayoutError", "deadlines", "parse"]

CALL = ("run", "flow", "direction")
"""What a call's direction is known by."""

DEVIATIONS = 4
"""Mean deviations beyond the mean delay (Ramjee et al. 1994, section 3)."""


class PlayoutError(ValueError):
    """A play-out that is none."""


@dataclass(frozen=True, slots=True)
class Playout:
    """A rule of play-out."""

    kind: Literal["fixed", "quantile", "adaptive"]
    value: float = 0.0
    """Of a fixed buffer, ms beyond the quickest datagram; of a quantile, the share that is in time."""

    def __str__(self) -> str:
        if self.kind == "fixed":
            return f"{self.value:g} ms"
        return f"p{100 * self.value:g}" if self.kind == "quantile" else "adaptive"


ADAPTIVE = Playout("adaptive")


def parse(text: str) -> Playout:
    """``"60 ms"`` is a fixed buffer, ``"p99"`` a quantile of delays, ``"adaptive"`` itself. Raises PlayoutError."""
    word = text.strip()
    if word == "adaptive":
        return ADAPTIVE
    if (found := re.fullmatch(r"p(\d+(?:\.\d+)?)", word)) is not None:
        share = float(found[1]) / 100
        if 0 < share <= 1:
            return Playout("quantile", share)
        raise PlayoutError(f'found "{text}", expected a percentile above 0 and up to 100 such as "p99"')
    try:
        return Playout("fixed", Duration.parse(word).ns / 1e6)
    except UnitError:
        expected = 'a buffer such as "60 ms", a percentile such as "p99", or "adaptive"'
        raise PlayoutError(f'found "{text}", expected {expected}') from None


def deadlines(playout: Playout, calls: pl.DataFrame, delays: pl.DataFrame) -> pl.DataFrame:
    """The play-out delay of each window: the columns of :data:`CALL`, ``window_s`` and ``deadline_ms``.

    - fixed: the least delay of the call, and the buffer;
    - quantile: the least with which that share of what comes is in time;
    - adaptive: of each window the mean of the last one's delays and four times their mean deviation, as a listener who
      adapts between talk spurts with a memory of 500 datagrams (Ramjee et al. 1994, algorithm 1); of the first its own.
    """
    windows = delays.select(*CALL, "window_s").unique(maintain_order=True)
    if playout.kind == "fixed":
        least = calls.group_by(CALL, maintain_order=True).agg(pl.col("least_delay_ms").min())
        # A histogram ends at whole milliseconds, so does the play-out.
        found = least.select(
            *CALL, deadline_ms=(pl.col("least_delay_ms") + playout.value).ceil().cast(pl.Int64)
        )
        return windows.join(found, on=CALL, how="left", maintain_order="left")
    if playout.kind == "quantile":
        bins = delays.group_by(*CALL, "delay_ms").agg(pl.col("packets").sum()).sort(*CALL, "delay_ms")
        share = pl.col("packets").cum_sum().over(CALL) / pl.col("packets").sum().over(CALL)
        # a count of packets is exact; its share of them is not
        reached = bins.filter(share >= playout.value - 1e-12)
        found = reached.group_by(CALL, maintain_order=True).agg(deadline_ms=pl.col("delay_ms").min() + 1)
        return windows.join(found, on=CALL, how="left", maintain_order="left")
    count, middle = pl.col("packets"), pl.col("delay_ms") + 0.5
    by = [*CALL, "window_s"]
    mean = ((middle * count).sum() / count.sum()).over(by)
    estimates = (
        delays.with_columns(mean=mean)
        .group_by(by, maintain_order=True)
        .agg(
            pl.col("mean").first(),
            deviation=((middle - pl.col("mean")).abs() * count).sum() / count.sum(),
        )
        .sort(by)
    )
    own = (pl.col("mean") + DEVIATIONS * pl.col("deviation")).ceil().cast(pl.Int64)
    return estimates.select(*by, own=own).select(
        *by, deadline_ms=pl.col("own").shift(1).over(CALL).fill_null(pl.col("own"))
    )


def mouth_to_ear_ms(interval_ms: float, frame_ms: float, lookahead_ms: float, deadline_ms: float) -> float:
    """From mouth to ear: a datagram fills, its last frame is coded, and then the play-out delay, which begins when the
    datagram is full (ITU-T G.114 annex A: a frame more than the datagram holds, and the look-ahead)."""
    return math.fsum((interval_ms, frame_ms, lookahead_ms, deadline_ms))
