"""From the store of a map to ratios of page load times and the line where they are 1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from bentpipe.break_even.config import BreakEvenConfig, page_name, split_rtt
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.store.reader import open_store

__all__ = ["Cell", "Load", "Map", "break_even", "break_even_rows", "read_map", "size_text"]


@dataclass(frozen=True, slots=True)
class Load:
    """One load of the object, s since it was wanted: when it was asked for, when its first byte came, and its last."""

    sent: float
    first_byte: float
    end: float


@dataclass(frozen=True)
class Cell:
    """One object size at one round-trip time with one QUIC: medians over seeds; None where a load did not end."""

    controller: str
    window: str
    size: str
    rtt: str
    quic_s: float | None
    tcp_s: float | None
    ratio: float | None
    """Median of the ratios of pairs with the same seed: above 1 split TCP is faster."""
    loads: tuple[Load, Load] | None = None
    """Of QUIC and of split TCP, of the first seed that has both."""

    def as_row(self) -> dict[str, Any]:
        """As plain data, sizes in bytes and times in seconds."""
        return {
            "controller": self.controller, "initial_window": self.window, "bytes": Size.parse(self.size).bytes,
            "rtt_s": Duration.parse(self.rtt).ns / 1e9, "quic_plt_s": self.quic_s, "tcp_plt_s": self.tcp_s,
            "ratio": self.ratio,
        }  # fmt: skip


@dataclass(frozen=True)
class Map:
    """What was measured for a question."""

    question: BreakEvenConfig
    cells: tuple[Cell, ...]
    engine: str

    def frame(self) -> pl.DataFrame:
        """One row per QUIC, object size and round-trip time: ``controller, initial_window, bytes, rtt_s, quic_plt_s,
        tcp_plt_s, ratio`` (above 1 split TCP is faster; null where a load did not end)."""
        times = dict.fromkeys(("rtt_s", "quic_plt_s", "tcp_plt_s", "ratio"), pl.Float64)
        schema = {"controller": pl.String, "initial_window": pl.String, "bytes": pl.Int64, **times}
        return pl.DataFrame([cell.as_row() for cell in self.cells], schema=schema)

    def of(self, controller: str, window: str) -> tuple[Cell, ...]:
        """The cells of one QUIC."""
        return tuple(cell for cell in self.cells if (cell.controller, cell.window) == (controller, window))


def read_map(store: Path, question: BreakEvenConfig) -> Map:
    """The map in a store. Raises StoreError."""
    reading = open_store(store)
    asked = reading.rows("requests", ["queued_s", "sent_s", "response_start_s", "end_s"])
    loads = reading.rows("pages", ["plt_s", "finished"]).filter(pl.col("finished") == 1)
    keys = ["run", "seed", "flow.web.load.http", "flow.web.congestion", "quic.initial_window",
            "flow.web.load.page", "path.access.delay"]  # fmt: skip
    frame = loads.join(reading.index.select(keys), on="run").join(asked, on="run", how="left")
    times: dict[tuple[str, ...], dict[int, tuple[float, Load]]] = {}
    for seed, http, controller, window, page, delay, plt, *at in frame.select(
        "seed", *keys[2:], "plt_s", *asked.columns[1:]
    ).iter_rows():
        arm = (controller, window) if http == "3" else ("tcp", "")
        load = Load(*(instant - at[0] for instant in at[1:]))
        times.setdefault((*arm, page, delay), {})[seed] = (plt, load)
    cells = []
    for controller in question.controllers:
        for window in question.windows:
            for size in question.sizes:
                for rtt in question.rtts:
                    place = (page_name(size), f"{split_rtt(rtt)[1]} ns")
                    quic = times.get((controller, window, *place), {})
                    tcp = times.get(("tcp", "", *place), {})
                    both = sorted(quic.keys() & tcp.keys())
                    cells.append(
                        Cell(
                            controller, window, size, rtt, _median(quic), _median(tcp),
                            _middle([quic[seed][0] / tcp[seed][0] for seed in both]),
                            (quic[both[0]][1], tcp[both[0]][1]) if both else None,
                        )
                    )  # fmt: skip
    return Map(question, tuple(cells), reading.engine)


def _median(loads: Mapping[int, tuple[float, Load]]) -> float | None:
    return _middle([plt for plt, _ in loads.values()])


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def break_even(cells: Sequence[Cell], rtt: str) -> list[float]:
    """Object sizes, in bytes, at which the ratio crosses 1 at this round-trip time, by log-linear interpolation.

    Several when it crosses more than once; none when one of the two is faster at every size.
    """
    points = [
        (math.log(Size.parse(cell.size).bytes), math.log(cell.ratio))
        for cell in cells
        if cell.rtt == rtt and cell.ratio
    ]
    points.sort()
    found = []
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if y0 <= 0 < y1 or y1 <= 0 < y0:
            found.append(math.exp(x0 + (x1 - x0) * y0 / (y0 - y1)))
    return found


def break_even_rows(found: Map) -> list[dict[str, Any]]:
    """For each QUIC and round-trip time: where split TCP overtakes, and the ratio of the largest object."""
    rows = []
    for controller in found.question.controllers:
        for window in found.question.windows:
            cells = found.of(controller, window)
            row: dict[str, Any] = {"QUIC": controller, "initial window": window}
            for rtt in found.question.rtts:
                row[rtt] = _crossing(cells, rtt)
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


def _crossing(cells: Sequence[Cell], rtt: str) -> str:
    sizes = break_even(cells, rtt)
    if sizes:
        return ", ".join(size_text(size) for size in sizes)
    ratios = [cell.ratio for cell in cells if cell.rtt == rtt and cell.ratio]
    if not ratios:
        return "–"
    return "QUIC always" if max(ratios) <= 1 else "TCP always"


def size_text(size: float) -> str:
    """An object size to two digits."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.2g} {unit}" if size / scale < 100 else f"{size / scale:.0f} {unit}"
    return f"{size:.0f} B"
