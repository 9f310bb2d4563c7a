"""The page of a contact plan; one file that needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.dtn.summary import opening
from bentpipe.metrics.format import TextTable
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.runners import engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.dtn.contact_plan import Found
    from bentpipe.figures.figure import Figure
    from bentpipe.metrics.format import CommandOutput

__all__ = ["write"]

REMARKS = 200
"""Remarks that the page has."""


def write(found: Found, said: CommandOutput, out: Path, drawn: Sequence[Figure]) -> Path:
    """Writes ``plan.html`` and each figure as SVG and PDF into ``out``; returns the page."""
    for figure in drawn:
        figure.write_all([out / f"{figure.key}{suffix}" for suffix in (".svg", ".pdf")])
    page = Page(found.title or f"Contact plan {found.name}")
    remarks = [str(one) for one in found.remarks[:REMARKS]]
    if len(found.remarks) > REMARKS:
        remarks.append(f"and {len(found.remarks) - REMARKS:,} more")
    return page.write(
        out / "plan.html", "dtn/page.html", opening(said),
        tables=[(part.title, tabular(part.rows)) for part in said.shown if isinstance(part, TextTable) and part.rows],
        figures=[page.drawing(figure) for figure in drawn], remarks=remarks, engine=engine.version(),
    )  # fmt: skip
