"""Tables of every cell of chapter 5 that has run, and of the first acknowledgement at a round trip of 2 s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from bentpipe.metrics.format import TextTable, format_mean
from bentpipe.metrics.intervals import format_significant, mean_ci
from bentpipe_studies.andreotti_2025.dtn.cells import (
    BUNDLE_BITS,
    CONTROLLER,
    DISRUPTION,
    LONG,
    LOSS,
    RELAY,
    RTT,
    SHORT,
    STREAMS,
    WINDOW,
)
from bentpipe_studies.andreotti_2025.dtn.measures import Bundles, share_relayed, times, ways
from bentpipe_studies.parts import Measurements

__all__ = ["FIRST", "cells", "first"]

FIRST = "dtn-first"
START = "start"


MIN_INTERVAL_RATIO = 0.005
"""Ratio of interval half-width to mean below which the interval is omitted: the page is also read on paper."""


def _brief(values: Sequence[float]) -> str:
    """Return a mean to three digits, with its interval half-width if visible in these digits."""
    found = mean_ci(values)
    half = 0.0 if found.low is None or found.high is None else (found.high - found.low) / 2
    if half <= MIN_INTERVAL_RATIO * abs(found.estimate):
        return format_significant(found.estimate, 3)
    return format_mean(found, digits=3)


def cells(measurements: Measurements) -> Iterator[TextTable]:
    """Yield a table of every cell: bundles, goodput by the thesis's rule, first and last acknowledgement."""
    bundles = Bundles(measurements)
    for part, name, client_s in ((SHORT, "runs of 30 s", 30.0), (LONG, "runs of 300 s", 300.0)):
        frame = bundles.data(part)
        if not frame.height:
            continue
        keys = [key for key in (CONTROLLER, STREAMS, RTT, LOSS, DISRUPTION, RELAY) if key in frame.columns]
        rows = []
        for cell in frame.select(keys).unique(maintain_order=True).iter_rows(named=True):
            runs = bundles.runs(part, cell)
            rows.append({
                **{key.rsplit(".", 1)[-1]: value for key, value in cell.items()},
                **{
                    event: _brief([float(len(times(run, event))) for run in runs])
                    for event in ("generated", "acknowledged")
                },
                "over the relay": _brief([share_relayed(run) for run in runs]),
                "Mb/s as defined by the thesis": _brief([_thesis_goodput(run, client_s) for run in runs]),
                "first acknowledged, s": _acknowledgement_time(runs, 0),
                "last acknowledged, s": _acknowledgement_time(runs, -1),
            })  # fmt: skip
        yield TextTable(f"Bundles, {name} (chapter 5)", tuple(rows))


def _thesis_goodput(run: pl.DataFrame, client_s: float) -> float:
    """Return goodput by the thesis's rule: generated bundles over the time of the client, Mb/s."""
    return len(times(run, "generated")) * BUNDLE_BITS / client_s / 1e6


def _acknowledgement_time(runs: Sequence[pl.DataFrame], index: int) -> str | None:
    found = [times(run, "acknowledged") for run in runs]
    return _brief([one[index] for one in found]) if all(found) else None


def _first_times(run: pl.DataFrame) -> tuple[float, float, float]:
    """Return first delivery, its acknowledgement, and last delivery of the first window; s from the start."""
    zero = times(run, "generated")[0]
    delivered, acknowledged = times(run, "delivered"), times(run, "acknowledged")
    if not delivered or not acknowledged:
        return (float("nan"),) * 3
    burst = ways(run).head(WINDOW)["delivered"].sort().to_list()[-1]
    return delivered[0] - zero, acknowledged[0] - zero, burst - zero


def first(measurements: Measurements) -> tuple[TextTable, ...]:
    """Return the table of single changes on the way to the first acknowledgement at 2 s."""
    bundles = Bundles(measurements)
    frame = bundles.data(FIRST)
    if not frame.height:
        return ()
    titles = (
        "first delivery, s",
        "acknowledged, s",
        "return path, s",
        "delivery of the last of the first 32, s",
    )
    rows = []
    for cell in frame.select(START).unique(maintain_order=True).iter_rows(named=True):
        found = [_first_times(run) for run in bundles.runs(FIRST, cell)]
        columns = zip(*[(there, back, back - there, burst) for there, back, burst in found], strict=True)
        numbers = [_brief(list(values)) for values in columns]
        rows.append({"change": cell[START], **dict(zip(titles, numbers, strict=True))})
    return (
        TextTable("Time to the first acknowledgement at an RTT of 2 s (thesis: almost 8 s)", tuple(rows)),
    )
