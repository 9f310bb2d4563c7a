"""Play-out: rules for the play-out delay of a listener's buffer and the late loss that follows.

A datagram is in time if its delay is below the play-out delay. Both are whole milliseconds, as in the table
``call_delays``, so the histogram loses no information.
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
"""Columns that identify a direction of a call."""

DEVIATIONS = 4
"""Mean deviations beyond the mean delay (Ramjee et al. 1994, section 3)."""


class PlayoutError(ValueError):
    """Invalid text of a play-out rule."""


@dataclass(frozen=True, slots=True)
class Playout:
    """Rule of play-out."""

    kind: Literal["fixed", "quantile", "adaptive"]
    value: float = 0.0
    """Fixed buffer: ms beyond the smallest delay; quantile: ratio of datagrams in time, 0 to 1."""

    def __str__(self) -> str:
        if self.kind == "fixed":
            return f"{self.value:g} ms"
        return f"p{100 * self.value:g}" if self.kind == "quantile" else "adaptive"


ADAPTIVE = Playout("adaptive")


def parse(text: str) -> Playout:
    """Parse ``"60 ms"`` (fixed buffer), ``"p99"`` (quantile of delays) or ``"adaptive"``.

    Raises:
        PlayoutError: the text is not a rule of play-out.
    """
    rule = text.strip()
    if rule == "adaptive":
        return ADAPTIVE
    if (match := re.fullmatch(r"p(\d+(?:\.\d+)?)", rule)) is not None:
        share = float(match[1]) / 100
        if 0 < share <= 1:
            return Playout("quantile", share)
        raise PlayoutError(f'found "{text}", expected a percentile above 0 and up to 100 such as "p99"')
    try:
        return Playout("fixed", Duration.parse(rule).ns / 1e6)
    except UnitError:
        expected = 'a buffer such as "60 ms", a percentile such as "p99", or "adaptive"'
        raise PlayoutError(f'found "{text}", expected {expected}') from None


def deadlines(playout: Playout, calls: pl.DataFrame, delays: pl.DataFrame) -> pl.DataFrame:
    """Return the play-out delay of each window: the columns of :data:`CALL`, ``window_s`` and ``deadline_ms``.

    - fixed: the min delay of the call plus the buffer;
    - quantile: the smallest delay with that ratio of the received datagrams in time;
    - adaptive: mean delay of the previous window plus four mean deviations; the first window uses its own delays. A
      listener adapts so between talk spurts with a memory of 500 datagrams (Ramjee et al. 1994, algorithm 1).

    Args:
        playout: rule of play-out.
        calls: table ``calls``.
        delays: table ``call_delays``.
    """
    windows = delays.select(*CALL, "window_s").unique(maintain_order=True)
    if playout.kind == "fixed":
        least = calls.group_by(CALL, maintain_order=True).agg(pl.col("delay_min_ms").min())
        # Bins of the histogram end at whole milliseconds, so the play-out delay does, too.
        found = least.select(
            *CALL, deadline_ms=(pl.col("delay_min_ms") + playout.value).ceil().cast(pl.Int64)
        )
        return windows.join(found, on=CALL, how="left", maintain_order="left")
    if playout.kind == "quantile":
        bins = delays.group_by(*CALL, "delay_ms").agg(pl.col("packets").sum()).sort(*CALL, "delay_ms")
        share = pl.col("packets").cum_sum().over(CALL) / pl.col("packets").sum().over(CALL)
        # a count of packets is exact, a ratio of counts is not
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
    estimate = (pl.col("mean") + DEVIATIONS * pl.col("deviation")).ceil().cast(pl.Int64)
    return estimates.select(*by, estimate=estimate).select(
        *by, deadline_ms=pl.col("estimate").shift(1).over(CALL).fill_null(pl.col("estimate"))
    )


def mouth_to_ear_ms(interval_ms: float, frame_ms: float, lookahead_ms: float, deadline_ms: float) -> float:
    """Return the mouth-to-ear delay, ms: packetisation, coding of the last frame, look-ahead and play-out delay.

    The play-out delay begins when the datagram is full (ITU-T G.114 annex A: one frame more than the datagram has, and
    the look-ahead).
    """
    return math.fsum((interval_ms, frame_ms, lookahead_ms, deadline_ms))
