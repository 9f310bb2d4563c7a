"""Output files of a map: ``map.html``, ``map.svg``, ``map.pdf``, ``map.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.break_even.ratios import Cell, Map, break_even_rows
from bentpipe.break_even.recommendation import gains, headline_text, supporting_text
from bentpipe.figures.figure import Figure
from bentpipe.figures.load_waterfall import PickedLoad, pick, with_loads
from bentpipe.figures.ratio_map import RatioCell, ratio_map
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    import altair as alt

__all__ = ["KEYS", "figure", "interactive_figure", "write"]

KEYS = ("map",)
"""Keys of the figures."""

_PROXIES = {
    "plain": "proxies at the terminal and the gateway, which split TCP without a connection pool",
    "pooled": "proxies at the terminal and the gateway with a pool of open connections",
    "line-rate": (
        "proxies at the terminal and the gateway with a pool of open connections, which send at the "
        "link rate from the first byte"
    ),
}

_SLOTS = (
    " Rates and losses vary with the reconfiguration intervals of the access; the delays are constant "
    "and set by the RTT axis."
)


def figure(result: Map) -> Figure:
    """Return the figure of a map with one panel for each QUIC configuration.

    Raises:
        ValueError: no pair of loads has finished.
    """
    return _figure(result, None)


def interactive_figure(result: Map) -> Figure:
    """Return the interactive figure, which shows the two loads of the cell under the pointer.

    Raises:
        ValueError: no pair of loads has finished.
    """
    loads = [
        PickedLoad(*_coordinates(cell), _panel(cell), transport, load.sent, load.first_byte, load.end)
        for cell in result.cells
        if cell.loads
        for transport, load in zip(("QUIC", "split TCP"), cell.loads, strict=True)
    ]
    if not loads:
        return figure(result)
    # The initial cell is that with the greatest gain of the proxy.
    best = max((cell for cell in result.cells if cell.loads), key=lambda cell: cell.ratio or 0)
    first = next(
        load for load in loads if (load.x, load.y, load.panel) == (*_coordinates(best), _panel(best))
    )
    return with_loads(_figure(result, pick(first)), loads)


def _coordinates(cell: Cell) -> tuple[float, float]:
    return float(Size.parse(cell.size).bytes), Duration.parse(cell.rtt).ns / 1e9


def _panel(cell: Cell) -> str:
    return f"{cell.controller}, initial window {cell.window}"


def _figure(result: Map, picked: alt.Parameter | None) -> Figure:
    config = result.config
    cells = [RatioCell(*_coordinates(cell), cell.ratio, _panel(cell)) for cell in result.cells]
    return ratio_map(
        cells, KEYS[0], "Page load time ratio of QUIC to split TCP",
        f"{config.access.title}. The page is one object. The RTT is that of the whole path, of "
        f"which 30 ms (at most half) lie beyond the gateway. Split TCP: servers with {config.tcp}, "
        f"{_PROXIES[config.proxy]}.{_SLOTS if config.access.slotted else ''}",
        above="split TCP is faster", below="QUIC is faster", pick=picked,
    )  # fmt: skip


def write(result: Map, out: Path) -> Path:
    """Write all files of a map into ``out`` and return the path of the page.

    Raises:
        ValueError: no pair of loads has finished.
    """
    figure(result).write_all([out / "map.svg", out / "map.pdf"])
    rows = break_even_rows(result)
    data = {
        "engine": result.engine,
        "access": result.config.access.name,
        "proxy": result.config.proxy,
        "tcp": result.config.tcp,
        "answer": headline_text(result),
        "gains": [gain.as_row() for gain in gains(result)],
        "break_even": rows,
        "cells": [cell.as_row() for cell in result.cells],
    }
    write_atomic(out / "map.json", (json.dumps(data, indent=1) + "\n").encode())
    page = Page(f"QUIC or split TCP: {result.config.access.title}")
    return page.write(
        out / "map.html", "break_even/page.html", Headline(headline_text(result), supporting_text(result)),
        figure=page.drawing(interactive_figure(result)), break_even=tabular(rows), times=tabular(_time_rows(result)),
        engine=result.engine, seeds=result.config.seeds,
    )  # fmt: skip


def _time_rows(result: Map) -> list[dict[str, Any]]:
    return [
        {"QUIC": f"{cell.controller}, {cell.window}", "object": cell.size, "RTT": cell.rtt,
         "QUIC, s": cell.quic_s, "split TCP, s": cell.tcp_s, "ratio": cell.ratio}
        for cell in result.cells
    ]  # fmt: skip
