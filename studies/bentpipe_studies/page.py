"""HTML page of a study: published values beside measured ones, and figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.report.headline import join_names
from bentpipe.report.html_table import HtmlTable, add_tooltips, tabular
from bentpipe.report.page import Page
from bentpipe.store.files import write_atomic
from bentpipe_studies.headline import build_headline, term_definitions
from bentpipe_studies.output import claim_rows, differences, row_tables
from bentpipe_studies.study import Findings

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure
    from bentpipe.metrics.verdicts import Claim

__all__ = ["figures_of", "write_page"]


def write_page(out: Path, title: str, findings: Findings, data: Mapping[str, Any]) -> Path:
    """Write ``study.html`` and ``study.json`` into ``out`` and return the path of the page.

    Verdicts come first, then their explanations, figures and measurements. The page omits what has not run.
    """
    page = Page(title, "bentpipe_studies")
    charts = []
    for figure, part in _figures(out, findings):
        figure.write(_create_directory(out / (part or "figures")) / f"{figure.key}.svg")
        charts.append(page.drawing(figure, part=part))
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    write_atomic(_create_directory(out) / "study.json", (text + "\n").encode())
    definitions = term_definitions(findings)
    headline = build_headline(findings)
    if (decided := findings.decided()).items:
        findings = decided

    def table(rows: Sequence[Mapping[str, Any]]) -> HtmlTable | None:
        html = tabular(rows)
        return add_tooltips(html, definitions) if html else None

    claims = {claim.id: claim for claim in findings.claims}.values()
    return page.write(
        out / "study.html", "page.html",
        headline,
        contents=_contents(findings, [figure.title for figure in charts]),
        rows=[table(lines) for lines in row_tables(findings)],
        tables=[(text_table.title, table(text_table.rows)) for text_table in findings.tables],
        claims=table(claim_rows(findings)),
        statements=[(f"{claim.id} {_verdicts(findings, claim)}: {claim.text}", claim.criterion) for claim in claims],
        reasons=differences(findings),
        figures=charts,
        carrying=LEADING_FIGURES,
        notes=(findings.tolerance, *findings.notes),
        words=list(definitions.items()),
    )  # fmt: skip


def _verdicts(findings: Findings, claim: Claim) -> str:
    """Return the verdict on a claim, or the number of each verdict if interpretations differ."""
    counts = Counter(one.verdict.value for one in findings.claims if one.id == claim.id)
    if len(counts) == 1:
        return claim.verdict.value
    total = counts.total()
    return join_names([f"{verdict} in {number} of {total}" for verdict, number in counts.items()])


def _contents(findings: Findings, figures: Sequence[str]) -> list[tuple[str, str]]:
    """Return the contents of a page as (anchor, heading); empty on a page with few headings."""
    anchors = [(f"drawing-{number}", title) for number, title in enumerate(figures, 1)]
    entries = [("rows", "Published values")] if findings.rows else []
    entries += [("claims", "Claims")] if findings.claims else []
    entries += [("reasons", "Differences explained")] if differences(findings) else []
    entries += anchors[:LEADING_FIGURES]
    entries += [(f"table-{number}", table.title) for number, table in enumerate(findings.tables, 1)]
    entries += anchors[LEADING_FIGURES:]
    return [*entries, ("judged", "Method")] if len(entries) > MAX_HEADINGS_WITHOUT_CONTENTS else []


LEADING_FIGURES = 3
"""Number of figures in front of the measurements: those that a study names first."""

MAX_HEADINGS_WITHOUT_CONTENTS = 8
"""Number of headings up to which a page has no contents."""


def _create_directory(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def figures_of(out: Path, findings: Findings) -> list[Figure]:
    """Return all figures of the page.

    The key of a figure of one part starts with the name of the part, so that keys are unique.
    """
    return [
        replace(figure, key=f"{part}-{figure.key}" if part else figure.key)
        for figure, part in _figures(out, findings)
    ]


def _figures(out: Path, findings: Findings) -> Iterator[tuple[Figure, str]]:
    """Yield the non-empty figures of stores, each with its part; then the figures of the study itself."""
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
