"""The page of a comparison: numbers and figures of both clocks."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from bentpipe.agree.compare import lines
from bentpipe.agree.drawing import figures
from bentpipe.report.base import Page, data_table
from bentpipe.store.journal import machine

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.agree.compare import Comparison

__all__ = ["write_page"]


def write_page(comparison: Comparison, out: Path) -> Path:
    """Writes ``out`` (HTML) and the figures beside it as SVG; returns the page's path."""
    out.parent.mkdir(parents=True, exist_ok=True)
    page = Page(f"{comparison.title}: simulated and real")
    page.add(
        f"<h1>{escape(page.title)}</h1>",
        "<p>Means over seeds with their 95 % intervals. The difference is real minus simulated, in pairs of seeds.</p>",
        data_table(lines(comparison.rows)) or "<p>Nothing has run on both clocks.</p>",
        f"<p>{escape(machine(comparison.real.path))}</p>",
    )
    for figure in figures(comparison):
        figure.write(out.with_name(f"{out.stem}-{figure.key}.svg"))
        page.figure(replace(figure, caption=f"{figure.caption} {figure.note}".strip()), level=2)
    return page.write(out)
