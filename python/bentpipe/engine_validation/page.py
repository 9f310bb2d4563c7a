"""HTML page of a comparison: metrics and figures of both engines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.engine_validation.compare import format_rows
from bentpipe.engine_validation.figures import figures
from bentpipe.engine_validation.headline import WORDS, opening
from bentpipe.report.html_table import add_tooltips, tabular
from bentpipe.report.page import Page
from bentpipe.store.journal import host_summary

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.engine_validation.compare import EngineComparison

__all__ = ["write_page"]


def write_page(comparison: EngineComparison, out: Path) -> Path:
    """Write the page ``out`` (HTML) and its figures beside it as SVG, and return the path of the page."""
    out.parent.mkdir(parents=True, exist_ok=True)
    page = Page(f"{comparison.title}: simulation and emulation")
    drawings = []
    for figure in figures(comparison):
        figure.write(out.with_name(f"{out.stem}-{figure.key}.svg"))
        drawings.append(page.drawing(replace(figure, caption=f"{figure.caption} {figure.note}".strip())))
    numbers = tabular(format_rows(comparison.rows))
    return page.write(
        out, "engine_validation/page.html", opening(comparison.rows),
        numbers=add_tooltips(numbers, WORDS) if numbers else None,
        machine=host_summary(comparison.real.path), figures=drawings, words=list(WORDS.items()),
    )  # fmt: skip
