"""The map as a page, a picture and data: ``map.html``, ``map.svg``, ``map.pdf``, ``map.json``."""

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

__all__ = ["KEYS", "answering", "figure", "write"]

KEYS = ("map",)
"""Of its figures."""

_PROXIES = {
    "plain": "proxies at the terminal and the gateway that split TCP and nothing more",
    "pooled": "proxies at the terminal and the gateway with open connections between them",
    "rate-knowing": "proxies at the terminal and the gateway with open connections between them, which send at the "
    "access's known rate from the first byte",
}

_SLOTS = " Rates and losses are drawn as in the access's slots; their delays are the axis, and stay."


def figure(found: Map) -> Figure:
    """One panel a QUIC. Raises ValueError when no load of a pair has ended."""
    return _figure(found, None)


def answering(found: Map) -> Figure:
    """The same for a page: the cell under the pointer shows its two loads. Raises ValueError as :func:`figure`."""
    loads = [
        PickedLoad(*_place(cell), _panel(cell), who, load.sent, load.first_byte, load.end)
        for cell in found.cells
        if cell.loads
        for who, load in zip(("QUIC", "split TCP"), cell.loads, strict=True)
    ]
    if not loads:
        return figure(found)
    # The greatest gain of the proxy, to begin with.
    best = max((cell for cell in found.cells if cell.loads), key=lambda cell: cell.ratio or 0)
    first = next(load for load in loads if (load.x, load.y, load.panel) == (*_place(best), _panel(best)))
    return with_loads(_figure(found, pick(first)), loads)


def _place(cell: Cell) -> tuple[float, float]:
    return float(Size.parse(cell.size).bytes), Duration.parse(cell.rtt).ns / 1e9


def _panel(cell: Cell) -> str:
    return f"{cell.controller}, initial window {cell.window}"


def _figure(found: Map, picked: alt.Parameter | None) -> Figure:
    question = found.question
    cells = [RatioCell(*_place(cell), cell.ratio, _panel(cell)) for cell in found.cells]
    return ratio_map(
        cells, KEYS[0], "Page load time of QUIC over that of split TCP",
        f"{question.access.title}. One object; the round-trip time is the whole one, of which "
        f"the part behind the gateway is 30 ms, or half where there is less. Split TCP: {question.tcp} servers, "
        f"{_PROXIES[question.proxy]}.{_SLOTS if question.access.slotted else ''}",
        above="split TCP is faster", below="QUIC is faster", pick=picked,
    )  # fmt: skip


def write(found: Map, out: Path) -> Path:
    """Writes everything into ``out``; returns the page. Raises ValueError when no load of a pair has ended."""
    drawn = figure(found)
    drawn.write_all([out / "map.svg", out / "map.pdf"])
    rows = break_even_rows(found)
    data = {
        "engine": found.engine,
        "access": found.question.access.name,
        "proxy": found.question.proxy,
        "tcp": found.question.tcp,
        "answer": headline_text(found),
        "gains": [one.as_row() for one in gains(found)],
        "break_even": rows,
        "cells": [cell.as_row() for cell in found.cells],
    }
    write_atomic(out / "map.json", (json.dumps(data, indent=1) + "\n").encode())
    page = Page(f"QUIC or split TCP: {found.question.access.title}")
    return page.write(
        out / "map.html", "break_even/page.html", Headline(headline_text(found), supporting_text(found)),
        figure=page.drawing(answering(found)), break_even=tabular(rows), times=tabular(_times(found)),
        engine=found.engine, seeds=found.question.seeds,
    )  # fmt: skip


def _times(found: Map) -> list[dict[str, Any]]:
    return [
        {"QUIC": f"{cell.controller}, {cell.window}", "object": cell.size, "RTT": cell.rtt,
         "QUIC, s": cell.quic_s, "split TCP, s": cell.tcp_s, "ratio": cell.ratio}
        for cell in found.cells
    ]  # fmt: skip
