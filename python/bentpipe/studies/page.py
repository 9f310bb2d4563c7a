"""The study's own page: published against measured, and the figures that show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.report.base import Page, data_table
from bentpipe.studies.output import claim_rows, differences, row_rows
from bentpipe.studies.study import Findings

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["write_page"]


def write_page(out: Path, title: str, findings: Findings, data: Mapping[str, Any]) -> Path:
    """Writes ``study.html`` and ``study.json`` into ``out``; returns the page's path.

    What was measured comes first, then what is claimed of it, then why.
    """
    page = Page(title)
    page.add(f"<h1>{escape(title)}</h1>")
    if findings.rows:
        page.add("<h2>Printed rows</h2>", data_table(row_rows(findings)))
    for table in findings.tables:
        page.add(f"<h2>{escape(table.title)}</h2>", data_table(table.rows))
    if findings.claims:
        claims = {claim.id: claim for claim in findings.claims}
        said = "".join(
            f"<dt>{escape(c.id)}: {escape(c.text)}</dt><dd>{escape(c.criterion)}</dd>"
            for c in claims.values()
        )
        page.add("<h2>Claims</h2>", data_table(claim_rows(findings)), f'<dl class="said">{said}</dl>')
    reasons = differences(findings)
    if reasons:
        listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(why)}</dd>" for name, why in reasons)
        page.add("<h2>Why it differs</h2>", f"<dl>{listed}</dl>")
    for figure, part in [*_figures(out, findings.figures), *((figure, "") for figure in findings.drawn)]:
        figure.write(_folder(out / (part or "figures")) / f"{figure.key}.svg")
        page.figure(figure, level=2, part=part)
    page.add("<h2>How it is judged</h2>")
    page.add(*(f"<p>{escape(note)}</p>" for note in (findings.tolerance, *findings.notes)))
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    (_folder(out) / "study.json").write_text(text + "\n", encoding="utf-8")
    return page.write(out / "study.html")


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
