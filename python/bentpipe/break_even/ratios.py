"""Ratios of page load times from the store of a map, and the break-even line where they are 1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from bentpipe.break_even.config import BreakEvenConfig, page_name
from bentpipe.plan.access import split_rtt
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.store.reader import open_store

__all__ = ["Cell", "Load", "Map", "break_even", "break_even_rows", "read_map", "size_text"]


@dataclass(frozen=True, slots=True)
class Load:
    """Times of one load in s after the request was queued: request sent, first byte and last byte received."""

    sent: float
    first_byte: float
    end: float


@dataclass(frozen=True)
class Cell:
    """Medians over seeds for one object size, RTT and QUIC configuration; None if a load did not finish."""

    controller: str
    window: str
    size: str
    rtt: str
    quic_s: float | None
    tcp_s: float | None
    ratio: float | None
    """Median ratio of pairs with the same seed, QUIC to split TCP. Above 1, split TCP is faster."""
    loads: tuple[Load, Load] | None = None
    """Loads over QUIC and over split TCP with the first seed that has both."""

    def as_row(self) -> dict[str, Any]:
        """Return the cell as plain data, sizes in bytes and times in seconds."""
        return {
            "controller": self.controller, "initial_window": self.window, "bytes": Size.parse(self.size).bytes,
            "rtt_s": Duration.parse(self.rtt).ns / 1e9, "quic_plt_s": self.quic_s, "tcp_plt_s": self.tcp_s,
            "ratio": self.ratio,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Map:
    """Results of a map."""

    config: BreakEvenConfig
    cells: tuple[Cell, ...]
    engine: str

    def __repr__(self) -> str:
        """Return the access and the number of ratios."""
        return f"<bentpipe break-even map: {self.config.access.title}, {len(self.cells)} ratios>"

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()

    def frame(self) -> pl.DataFrame:
        """Return one row for each QUIC configuration, object size and round-trip time.

        Returns:
            Columns ``controller, initial_window, bytes, rtt_s, quic_plt_s, tcp_plt_s, ratio``. Above a ratio of 1,
            split TCP is faster. Values are null if a load did not finish.
        """
        times = dict.fromkeys(("rtt_s", "quic_plt_s", "tcp_plt_s", "ratio"), pl.Float64)
        schema = {"controller": pl.String, "initial_window": pl.String, "bytes": pl.Int64, **times}
        return pl.DataFrame([cell.as_row() for cell in self.cells], schema=schema)

    def of(self, controller: str, window: str) -> tuple[Cell, ...]:
        """Return the cells of one QUIC configuration."""
        return tuple(cell for cell in self.cells if (cell.controller, cell.window) == (controller, window))


def read_map(store: Path, config: BreakEvenConfig) -> Map:
    """Read the map of a store.

    Raises:
        StoreError: the store is missing or damaged.
    """
    results = open_store(store)
    requests = results.rows("requests", ["queued_s", "sent_s", "response_start_s", "end_s"])
    loads = results.rows("pages", ["plt_s", "completed"]).filter(pl.col("completed") == 1)
    keys = ["run", "seed", "flow.web.load.http", "flow.web.congestion", "quic.initial_window",
            "flow.web.load.page", "path.access.delay"]  # fmt: skip
    frame = loads.join(results.index.select(keys), on="run").join(requests, on="run", how="left")
    times: dict[tuple[str, ...], dict[int, tuple[float, Load]]] = {}
    for seed, http, controller, window, page, delay, plt, queued_s, *timestamps in frame.select(
        "seed", *keys[2:], "plt_s", *requests.columns[1:]
    ).iter_rows():
        transport = (controller, window) if http == "3" else ("tcp", "")
        load = Load(*(timestamp - queued_s for timestamp in timestamps))
        times.setdefault((*transport, page, delay), {})[seed] = (plt, load)
    cells = []
    for controller in config.controllers:
        for window in config.windows:
            for size in config.sizes:
                for rtt in config.rtts:
                    key = (page_name(size), f"{split_rtt(rtt)[1]} ns")
                    quic = times.get((controller, window, *key), {})
                    tcp = times.get(("tcp", "", *key), {})
                    seeds = sorted(quic.keys() & tcp.keys())
                    cells.append(
                        Cell(
                            controller, window, size, rtt, _median_plt(quic), _median_plt(tcp),
                            _median_or_none([quic[seed][0] / tcp[seed][0] for seed in seeds]),
                            (quic[seeds[0]][1], tcp[seeds[0]][1]) if seeds else None,
                        )
                    )  # fmt: skip
    return Map(config, tuple(cells), results.engine)


def _median_plt(loads: Mapping[int, tuple[float, Load]]) -> float | None:
    return _median_or_none([plt for plt, _ in loads.values()])


def _median_or_none(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def break_even(cells: Sequence[Cell], rtt: str) -> list[float]:
    """Return the object sizes in bytes at which the ratio crosses 1, by log-log interpolation.

    Args:
        cells: cells of one QUIC configuration.
        rtt: round-trip time of the cells to consider.

    Returns:
        Several sizes if the ratio crosses 1 more than once; none if one transport is faster at every size.
    """
    points = [
        (math.log(Size.parse(cell.size).bytes), math.log(cell.ratio))
        for cell in cells
        if cell.rtt == rtt and cell.ratio
    ]
    points.sort()
    sizes = []
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if y0 <= 0 < y1 or y1 <= 0 < y0:
            sizes.append(math.exp(x0 + (x1 - x0) * y0 / (y0 - y1)))
    return sizes


def break_even_rows(result: Map) -> list[dict[str, Any]]:
    """Return break-even sizes and the largest ratio, one row for each QUIC configuration."""
    rows = []
    for controller in result.config.controllers:
        for window in result.config.windows:
            cells = result.of(controller, window)
            row: dict[str, Any] = {"QUIC": controller, "initial window": window}
            for rtt in result.config.rtts:
                row[rtt] = _format_break_even(cells, rtt)
            worst = max(
                (cell for cell in cells if cell.ratio), key=lambda cell: cell.ratio or 0.0, default=None
            )
            row["largest ratio"] = (
                f"{worst.ratio:.2f} ({worst.size}, {worst.rtt})"
                if worst is not None and worst.ratio
                else None
            )
            rows.append(row)
    return rows


def _format_break_even(cells: Sequence[Cell], rtt: str) -> str:
    sizes = break_even(cells, rtt)
    if sizes:
        return ", ".join(size_text(size) for size in sizes)
    ratios = [cell.ratio for cell in cells if cell.rtt == rtt and cell.ratio]
    if not ratios:
        return "–"
    return "QUIC always" if max(ratios) <= 1 else "TCP always"


def size_text(size: float) -> str:
    """Format an object size with two digits."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.2g} {unit}" if size / scale < 100 else f"{size / scale:.0f} {unit}"
    return f"{size:.0f} B"
