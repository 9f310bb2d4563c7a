"""What every page has in common: frame, style, tables, and figures that follow the reader's window and colours.

A page is one file that opens anywhere, without a network. It holds its figures as Vega-Lite specifications with their
data, and one copy of the library that draws them; a Content-Security-Policy in the page forbids every request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import config
from bentpipe.report.library import library
from bentpipe.stats.wording import humane
from bentpipe.store.files import write_whole

__all__ = ["Heading", "Page", "Row", "data_table", "table"]

Heading = tuple[str, str, bool]
"""A heading, its unit, and whether the column is text."""

Row = tuple[Sequence[str], bool]
"""Ready cells, and whether the row begins a group."""

WIDE = 12
"""Columns from which on a table is printed across the paper."""


class Page:
    """A page as it grows: add HTML and figures in order, then :meth:`write`."""

    def __init__(self, title: str) -> None:
        """``title``, plain text, is the browser's too."""
        self.title = title
        self.body: list[str] = []
        self._specs: dict[str, str] = {}

    def add(self, *parts: str) -> None:
        """Ready HTML."""
        self.body += parts

    def figure(self, figure: Figure | None, *, level: int = 3, part: str = "") -> None:
        """Heading, caption and place of ``figure``; ``part`` tells figures of the same key apart. None adds nothing."""
        if figure is None:
            return
        key = self.variant(figure, part=part)
        title = f"{figure.title}: {part}" if part else figure.title
        self.body.append(
            f'<section class="drawing"><h{level}>{escape(title)}</h{level}>'
            f'<p class="caption">{escape(figure.caption)}</p>'
            f'<div class="figure" data-key="{escape(key, quote=True)}" role="img" '
            f'aria-label="{escape(title, quote=True)}"></div><div class="paper"></div></section>'
        )

    def variant(self, figure: Figure, number: int = 0, part: str = "") -> str:
        """Keeps the drawing of ``figure``, the ``number``-th that its place can show; returns the place's key."""
        key = re.sub(r"[^a-z0-9]+", "-", f"{part} {figure.key}".strip().lower())
        spec = figure.spec()
        spec.pop("$schema", None)
        self._specs[f"spec-{key}-{number}"] = _json(f"spec-{key}-{number}", spec)
        return key

    def render(self) -> str:
        """The whole page, as text."""
        parts = resources.files("bentpipe.report")
        css, script, frame = (
            parts.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "page.html")
        )
        end = ""
        if self._specs:
            configs = _json("configs", {"light": config(), "dark": config(dark=True)})
            end = "\n".join([*self._specs.values(), configs, *map(_script, (library(), script))])
        return Template(frame).substitute(
            title=escape(self.title), css=css, body="\n".join(self.body), end=end
        )

    def write(self, out: Path) -> Path:
        """Writes the page to ``out``, whole or not at all."""
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, self.render().encode())
        return out


def table(heads: Sequence[Heading], rows: Sequence[Row]) -> str:
    """HTML of a table: (heading, unit, is text) and rows of ready cells; ``True`` begins a group of rows."""
    head = "".join(
        f'<th class="text">{escape(name)}{_unit(unit)}</th>'
        if text
        else f"<th>{escape(name)}{_unit(unit)}</th>"
        for name, unit, text in heads
    )
    body = []
    for cells, first in rows:
        marks = ['<td class="text">' if text else "<td>" for _, _, text in heads]
        line = "".join(f"{mark}{cell}</td>" for mark, cell in zip(marks, cells, strict=True))
        body.append(f'<tr class="first">{line}</tr>' if first else f"<tr>{line}</tr>")
    wide = " wide" if len(heads) >= WIDE else ""
    return (
        f'<div class="scroll{wide}" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def data_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """HTML of rows as data; a column that holds nothing but numbers is set as such, "time, s" has its unit below.

    An empty first cell continues the row above; verdicts have their colours.
    """
    if not rows:
        return ""
    heads: list[Heading] = []
    for name in rows[0]:
        head, comma, unit = str(name).rpartition(", ")
        said = comma and re.fullmatch(r"[µm]?s|%|[kMG]?B|[kMG]?bit/s", unit)
        numbers = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
        heads.append((head if said else str(name), unit if said else "", not numbers))
    lines: list[Row] = []
    for row in rows:
        values = list(row.values())
        lines.append(([_cell(value) for value in values], bool(lines) and humane(values[0]) != ""))
    return table(heads, lines)


def _cell(value: Any) -> str:
    text = humane(value)
    verdict = re.match(r"agrees|differs|(within|exceeded)$", text)
    return f'<span class="{verdict[0]}">{escape(text)}</span>' if verdict else escape(text)


def _unit(unit: str) -> str:
    return f"<small>{escape(unit)}</small>" if unit else ""


def _json(name: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _script(text: str) -> str:
    return f"<script>\n{text}\n</script>"
