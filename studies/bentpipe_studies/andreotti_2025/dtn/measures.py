"""Measures of the bundles of a client in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import polars as pl

from bentpipe_studies.andreotti_2025.dtn.cells import WINDOW
from bentpipe_studies.parts import Measurements

__all__ = [
    "ID", "Bundles", "acknowledged_first", "acknowledged_last", "burst_spread", "generated_rate", "longest_way",
    "mean_way", "relayed", "share_relayed", "times", "void", "ways",
]  # fmt: skip

ID = ["created_ms", "sequence"]
SOURCE = "vm1"
"""Node of the measured client; under one interpretation the relay has a client too."""


class Bundles:
    """Events of the client's bundles in a cell, one frame for each seed."""

    def __init__(
        self, measurements: Measurements, stores: Mapping[str, str] | None = None, start_s: float = 0.0
    ) -> None:
        """Set the stores to read.

        Args:
            measurements: measurements of the study.
            stores: parts that replace others.
            start_s: start of the client, seconds: the zero of all times.
        """
        self.measurements = measurements
        self.stores = dict(stores or {})
        self.start_s = start_s
        self._known: dict[str, pl.DataFrame] = {}

    def runs(self, part: str, cell: Mapping[str, str]) -> list[pl.DataFrame]:
        """Return the events of a cell, by seed; empty when it has not run."""
        frame = self.data(part)
        if not frame.height:
            return []
        for key, value in cell.items():
            if key in frame.columns:
                frame = frame.filter(pl.col(key) == value)
        return [
            one for _, one in sorted(frame.group_by("seed", maintain_order=True), key=lambda pair: pair[0])
        ]

    def values(
        self, part: str, cell: Mapping[str, str], measure: Callable[[pl.DataFrame], float]
    ) -> tuple[float, ...]:
        """Return a measure of a cell, one value for each seed."""
        return tuple(measure(run) for run in self.runs(part, cell))

    def data(self, part: str) -> pl.DataFrame:
        """Return the events of all cells of a part."""
        if part not in self._known:
            frame = self.measurements.table(self.stores.get(part, part), "bundles")
            if frame.height:
                sources = frame.filter(pl.col("event") == "generated", pl.col("node") == SOURCE)[
                    "source"
                ].unique()
                frame = frame.filter(pl.col("kind") == "data", pl.col("source").is_in(sources.implode()))
                frame = frame.with_columns(pl.col("time_s") - self.start_s)
            self._known[part] = frame
        return self._known[part]


def times(run: pl.DataFrame, event: str) -> list[float]:
    """Return the times of an event, s, in order."""
    found: list[float] = run.filter(pl.col("event") == event)["time_s"].sort().to_list()
    return found


def void(run: pl.DataFrame, start: float, end: float) -> tuple[float, float]:
    """Return start and end of the longest gap between generated bundles from ``start`` to ``end``."""
    found = [time for time in times(run, "generated") if start <= time <= end]
    return max(pairwise([start, *found, end]), key=lambda pair: pair[1] - pair[0])


def generated_rate(run: pl.DataFrame, start: float, end: float) -> float:
    """Return the generated bundles a second."""
    return sum(start <= time < end for time in times(run, "generated")) / (end - start)


def ways(run: pl.DataFrame) -> pl.DataFrame:
    """Return the times of each delivered bundle."""
    parts = [
        run.filter(pl.col("event") == event).select(*ID, pl.col("time_s").alias(event))
        for event in ("generated", "delivered")
    ]
    both = parts[0].join(parts[1], on=ID, how="inner")
    return both.with_columns(took=pl.col("delivered") - pl.col("generated")).sort("generated")


def relayed(run: pl.DataFrame) -> list[float]:
    """Return the arrival times of bundles at the relay."""
    return times(run.filter(pl.col("node") == "vm3"), "received")


def share_relayed(run: pl.DataFrame) -> float:
    """Return the ratio of bundles that arrived at the relay."""
    return len(relayed(run)) / len(times(run, "generated"))


def longest_way(run: pl.DataFrame) -> float:
    """Return the maximum time from generation to delivery."""
    return float(ways(run)["took"].to_numpy().max())


def mean_way(run: pl.DataFrame, start: float, end: float) -> float:
    """Return the mean delivery time of bundles generated from ``start`` to ``end``."""
    found = ways(run).filter(pl.col("generated").is_between(start, end))["took"]
    return float(found.to_numpy().mean()) if found.len() else float("nan")


def burst_spread(run: pl.DataFrame) -> float:
    """Return the time between first and last delivery of the first window, as a ratio of the time to the last."""
    found = ways(run).head(WINDOW)["delivered"].sort().to_list()
    return float((found[-1] - found[0]) / found[-1])


def acknowledged_first(run: pl.DataFrame) -> float:
    """Return the time of the first acknowledgement at the client; NaN without one."""
    return min(times(run, "acknowledged"), default=float("nan"))


def acknowledged_last(run: pl.DataFrame) -> float:
    """Return the time of the last acknowledgement at the client; NaN without one."""
    return max(times(run, "acknowledged"), default=float("nan"))
