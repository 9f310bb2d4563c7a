"""HTML page of a contact plan: one file without network access."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.dtn.summary import headline
from bentpipe.metrics.format import TextTable
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.runners import engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.dtn.contact_plan import CheckedPlan
    from bentpipe.figures.figure import Figure
    from bentpipe.metrics.format import CommandOutput

__all__ = ["write"]

MAX_WARNINGS = 200
"""Maximum number of warnings on the page."""


def write(plan: CheckedPlan, summary: CommandOutput, out: Path, figures: Sequence[Figure]) -> Path:
    """Write ``plan.html`` and each figure as SVG and PDF into ``out``; return the page.

    Args:
        plan: contact plan.
        summary: summary of the plan.
        out: directory.
        figures: figures.
    """
    for figure in figures:
        figure.write_all([out / f"{figure.key}{suffix}" for suffix in (".svg", ".pdf")])
    page = Page(plan.title or f"Contact plan {plan.name}")
    warnings = [str(warning) for warning in plan.warnings[:MAX_WARNINGS]]
    if len(plan.warnings) > MAX_WARNINGS:
        warnings.append(f"and {len(plan.warnings) - MAX_WARNINGS:,} more")
    parts = [part for part in summary.shown if isinstance(part, TextTable) and part.rows]
    tables = [(part.title, tabular(part.rows)) for part in parts]
    return page.write(
        out / "plan.html", "dtn/page.html", headline(summary),
        tables=tables,
        figures=[page.drawing(figure) for figure in figures], warnings=warnings, engine=engine.version(),
    )  # fmt: skip
