"""The study's own page: published against measured, and the figures that show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.report.html_table import HtmlTable, add_tooltips, tabular
from bentpipe.report.page import Page
from bentpipe.store.files import write_atomic
from bentpipe_studies.headline import build_headline, words
from bentpipe_studies.output import claim_rows, differences, row_tables
from bentpipe_studies.study import Findings

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["figures_of", "write_page"]


def write_page(out: Path, title: str, findings: Findings, data: Mapping[str, Any]) -> Path:
    """Writes ``study.html`` and ``study.json`` into ``out``; returns the page's path.

    The verdict comes first with its pictures, then what was measured, what is claimed of it, and why.
    """
    page = Page(title, "bentpipe_studies")
    charts = []
    for figure, part in _figures(out, findings):
        figure.write(_folder(out / (part or "figures")) / f"{figure.key}.svg")
        charts.append(page.drawing(figure, part=part))
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    write_atomic(_folder(out) / "study.json", (text + "\n").encode())
    meanings = words(findings)

    def table(rows: Sequence[Mapping[str, Any]]) -> HtmlTable | None:
        found = tabular(rows)
        return add_tooltips(found, meanings) if found else None

    claims = {claim.id: claim for claim in findings.claims}.values()
    return page.write(
        out / "study.html", "page.html",
        build_headline(findings),
        contents=_contents(findings, [figure.title for figure in charts]),
        rows=[table(lines) for lines in row_tables(findings)],
        tables=[(one.title, table(one.rows)) for one in findings.tables],
        claims=table(claim_rows(findings)),
        said=[(f"{claim.id}: {claim.text}", claim.criterion) for claim in claims],
        reasons=differences(findings),
        figures=charts,
        carrying=CARRYING,
        notes=(findings.tolerance, *findings.notes),
        words=list(meanings.items()),
    )  # fmt: skip


def _contents(findings: Findings, figures: Sequence[str]) -> list[tuple[str, str]]:
    """What a page has below each of its headings: (place, heading); nothing where few are there."""
    charts = [(f"drawing-{number}", title) for number, title in enumerate(figures, 1)]
    found = charts[:CARRYING]
    found += [("rows", "Printed rows")] if findings.rows else []
    found += [(f"table-{number}", table.title) for number, table in enumerate(findings.tables, 1)]
    found += [("claims", "Claims")] if findings.claims else []
    found += [("reasons", "Why it differs")] if differences(findings) else []
    found += charts[CARRYING:]
    return [*found, ("judged", "How it is judged")] if len(found) > FEW else []


CARRYING = 3
"""Figures that stand before the tables: those that a study names first."""

FEW = 8
"""Headings that need no list of them."""


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def figures_of(out: Path, findings: Findings) -> list[Figure]:
    """All of the page's, with the part in the key of those that are of one, so that no two have the same."""
    return [
        replace(figure, key=f"{part}-{figure.key}" if part else figure.key)
        for figure, part in _figures(out, findings)
    ]


def _figures(out: Path, findings: Findings) -> Iterator[tuple[Figure, str]]:
    """Figures of stores that have something for them, and the store of each; then the study's own."""
    from bentpipe.figures.registry import FigureContext, figures
    from bentpipe.store.files import EmptyStoreError
    from bentpipe.store.reader import open_store

    for part, key in findings.figures:
        try:
            store = open_store(out / part)
        except EmptyStoreError:
            continue
        yield from ((figure, part) for figure in figures(FigureContext(store), [key]))
    yield from ((figure, "") for figure in findings.charts)
