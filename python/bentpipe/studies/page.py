"""The study's own page: published against measured, and the two figures that show it, in one file without scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.studies.study import Findings
from bentpipe.studies.tables import claim_rows, differences, row_rows
from bentpipe.terminal import humane

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["write_page"]

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #1b1f24; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; }
table { display: block; overflow-x: auto; }
th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid #e2e5e9; white-space: nowrap; }
th { font-weight: 600; white-space: normal; vertical-align: bottom; }
svg { max-width: 100%; height: auto; } .differs { color: #a33; } .agrees { color: #176; }
dt { font-weight: 600; } dd { margin: 0 0 .6rem 0; }
"""


def write_page(out: Path, title: str, findings: Findings, data: Mapping[str, Any]) -> Path:
    """Writes ``study.html`` and ``study.json`` into ``out``; returns the page's path.

    What was measured comes first, then what is claimed of it, then why.
    """
    body = [f"<h1>{escape(title)}</h1>"]
    if findings.rows:
        body += ["<h2>Printed rows</h2>", _table(row_rows(findings))]
    for table in findings.tables:
        body += [f"<h2>{escape(table.title)}</h2>", _table(table.rows)]
    if findings.claims:
        claims = {claim.id: claim for claim in findings.claims}
        said = "".join(
            f"<dt>{escape(c.id)}: {escape(c.text)}</dt><dd>{escape(c.criterion)}</dd>"
            for c in claims.values()
        )
        body += ["<h2>Claims</h2>", _table(claim_rows(findings)), f"<dl>{said}</dl>"]
    reasons = differences(findings)
    if reasons:
        listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(why)}</dd>" for name, why in reasons)
        body += ["<h2>Why it differs</h2>", f"<dl>{listed}</dl>"]
    body += _figures(out, findings.figures)
    body += [_drawn(figure, out / "figures") for figure in findings.drawn]
    body += [
        "<h2>How it is judged</h2>",
        *(f"<p>{escape(note)}</p>" for note in (findings.tolerance, *findings.notes)),
    ]
    out.mkdir(parents=True, exist_ok=True)
    page = out / "study.html"
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_CSS}</style>'
        + "\n".join(body)
        + "</html>\n",
        encoding="utf-8",
    )
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    (out / "study.json").write_text(text + "\n", encoding="utf-8")
    return page


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(str(key))}</th>" for key in rows[0])
    lines = []
    for row in rows:
        cells = []
        for value in row.values():
            text = humane(value)
            kind = next((word for word in ("agrees", "differs") if text.startswith(word)), "")
            cells.append(f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _drawn(figure: Figure, out: Path, part: str = "") -> str:
    """One figure as vectors, in a file of its own too; ``part`` is the store that it draws."""
    out.mkdir(parents=True, exist_ok=True)
    svg = figure.write(out / f"{figure.key}.svg").read_text(encoding="utf-8")
    title = f"{figure.title}: {part}" if part else figure.title
    return f"<h2>{escape(title)}</h2><p>{escape(figure.caption)}</p>{svg}"


def _figures(out: Path, wanted: Sequence[tuple[str, str]]) -> list[str]:
    """Figures of stores that have something for them, drawn as vectors, and the way to each store's report."""
    from bentpipe.figures import Material, figures
    from bentpipe.reading import read_store
    from bentpipe.store import StoreError

    body = []
    for part, key in wanted:
        try:
            store = read_store(out / part)
        except StoreError:
            continue
        body += [_drawn(figure, out / part, part) for figure in figures(Material(store), [key])]
    return body
