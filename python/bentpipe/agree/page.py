"""The page of a comparison: numbers and figures of both clocks, in one file without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from bentpipe.agree.compare import lines
from bentpipe.agree.drawing import figures
from bentpipe.realtime import machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.agree.compare import Comparison

__all__ = ["write_page"]

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: #1b1f24; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; display: block;
        overflow-x: auto; }
th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid #e2e5e9; white-space: nowrap; }
th { font-weight: 600; } svg { max-width: 100%; height: auto; } .exceeded { color: #a33; } .within { color: #176; }
"""


def write_page(comparison: Comparison, page: Path) -> Path:
    """Writes ``page`` (HTML) and the figures beside it as SVG; returns the page's path."""
    page.parent.mkdir(parents=True, exist_ok=True)
    body = [
        f"<h1>{escape(comparison.title)}: simulated and real</h1>",
        "<p>Means over seeds with their 95 % intervals. The difference is real minus simulated, in pairs of seeds.</p>",
        _table(lines(comparison.rows)),
        f"<p>{escape(machine(comparison.real.path))}</p>",
    ]
    for figure in figures(comparison):
        svg = figure.write(page.with_name(f"{page.stem}-{figure.key}.svg")).read_text(encoding="utf-8")
        body += [f"<h2>{escape(figure.title)}</h2><p>{escape(figure.caption)}</p>{svg}"]
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(comparison.title)}</title>'
        f"<style>{_CSS}</style>" + "\n".join(body) + "</html>\n",
        encoding="utf-8",
    )
    return page


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>Nothing has run on both clocks.</p>"
    head = "".join(f"<th>{escape(key)}</th>" for key in rows[0])
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{escape(str(cell))}">{escape(str(cell or ""))}</td>' if key == "" else
                  f"<td>{escape(str(cell if cell is not None else '–'))}</td>" for key, cell in row.items())
        + "</tr>"
        for row in rows
    )  # fmt: skip
    return f"<table><tr>{head}</tr>{body}</table>"
