"""The study's own page: published against measured, and the figures that show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.report.base import Page
from bentpipe.report.tabular import tabular
from bentpipe.store.files import write_whole
from bentpipe.studies.output import claim_rows, differences, row_tables
from bentpipe.studies.study import Findings

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["write_page"]


def write_page(out: Path, title: str, findings: Findings, data: Mapping[str, Any]) -> Path:
    """Writes ``study.html`` and ``study.json`` into ``out``; returns the page's path.

    What was measured comes first, then what is claimed of it, then why.
    """
    page = Page(title)
    drawn = []
    for figure, part in [*_figures(out, findings.figures), *((figure, "") for figure in findings.drawn)]:
        figure.write(_folder(out / (part or "figures")) / f"{figure.key}.svg")
        drawn.append(page.drawing(figure, part=part))
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    write_whole(_folder(out) / "study.json", (text + "\n").encode())
    claims = {claim.id: claim for claim in findings.claims}.values()
    return page.write(
        out / "study.html", "studies/page.html",
        rows=[tabular(lines) for lines in row_tables(findings)],
        tables=[(table.title, tabular(table.rows)) for table in findings.tables],
        claims=tabular(claim_rows(findings)),
        said=[(f"{claim.id}: {claim.text}", claim.criterion) for claim in claims],
        reasons=differences(findings),
        figures=drawn,
        notes=(findings.tolerance, *findings.notes),
    )  # fmt: skip


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _figures(out: Path, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[Figure, str]]:
    """Figures of stores that have something for them, and the store of each."""
    from bentpipe.figures.registry import Material, figures
    from bentpipe.store.files import NothingRunError
    from bentpipe.store.reader import read_store

    for part, key in wanted:
        try:
            store = read_store(out / part)
        except NothingRunError:
            continue
        yield from ((figure, part) for figure in figures(Material(store), [key]))
