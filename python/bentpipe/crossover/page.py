"""The map as a page, a picture and data: ``map.html``, ``map.svg``, ``map.pdf``, ``map.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from bentpipe.crossover.ratios import Map, break_even_rows
from bentpipe.figures.figure import Figure
from bentpipe.figures.ratio_map import RatioCell, ratio_map
from bentpipe.terminal import humane
from bentpipe.units import Duration, Size

__all__ = ["figure", "write"]

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 66rem; padding: 0 1rem; color: #1b1f24; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid #e2e5e9; white-space: nowrap; }
svg { max-width: 100%; height: auto; }
"""

_PROXIES = {
    "plain": "proxies at the terminal and the gateway that split TCP and nothing more",
    "pooled": "proxies at the terminal and the gateway with open connections between them",
    "rate-knowing": "proxies at the terminal and the gateway with open connections between them, which send at the "
    "access's known rate from the first byte",
}


def figure(found: Map) -> Figure:
    """One panel a QUIC. Raises ValueError when no load of a pair has ended."""
    question = found.question
    cells = [
        RatioCell(
            x=float(Size.parse(cell.size).bytes),
            y=Duration.parse(cell.rtt).ns / 1e9,
            ratio=cell.ratio,
            panel=f"{cell.controller}, initial window {cell.window}",
        )
        for cell in found.cells
    ]
    return ratio_map(
        cells, "map", "Page load time of QUIC over that of split TCP",
        f"{question.access.title}. One object; the round-trip time is the whole one, of which "
        f"the part behind the gateway is 30 ms, or half where there is less. Split TCP: {question.tcp} servers, "
        f"{_PROXIES[question.proxy]}.",
        above="split TCP is faster", below="QUIC is faster",
    )  # fmt: skip


def write(found: Map, out: Path) -> Path:
    """Writes everything into ``out``; returns the page. Raises ValueError when no load of a pair has ended."""
    drawn = figure(found)
    drawn.write(out / "map.svg")
    drawn.write(out / "map.pdf")
    rows = break_even_rows(found)
    data = {
        "engine": found.engine,
        "access": found.question.access.name,
        "proxy": found.question.proxy,
        "tcp": found.question.tcp,
        "break_even": rows,
        "cells": [cell.as_row() for cell in found.cells],
    }
    (out / "map.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    svg = (out / "map.svg").read_text(encoding="utf-8")
    page = out / "map.html"
    title = f"QUIC or split TCP: {found.question.access.title}"
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_CSS}</style>'
        f"<h1>{escape(title)}</h1><p>{escape(drawn.caption)}</p>{svg}"
        "<h2>Object size at which split TCP overtakes QUIC, by round-trip time</h2>"
        f"{_table(rows)}<h2>Page load times</h2>{_table(_times(found))}"
        f"<p>bentpipe {escape(found.engine)}, {found.question.seeds} seed(s); the data: map.json, the runs: store/.</p>"
        "</html>\n",
        encoding="utf-8",
    )
    return page


def _times(found: Map) -> list[dict[str, Any]]:
    return [
        {"QUIC": f"{cell.controller}, {cell.window}", "object": cell.size, "RTT": cell.rtt,
         "QUIC, s": cell.quic_s, "split TCP, s": cell.tcp_s, "ratio": cell.ratio}
        for cell in found.cells
    ]  # fmt: skip


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(str(key))}</th>" for key in rows[0])
    lines = ["".join(f"<td>{escape(humane(value))}</td>" for value in row.values()) for row in rows]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
