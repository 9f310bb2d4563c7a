"""What every page has in common: one frame (``base.html``), one style, figures that follow the reader's window.

A page is one file that opens anywhere, without a network. It holds its figures as Vega-Lite specifications with their
data, and one copy of the library that draws them; a Content-Security-Policy in the page forbids every request. Python
gives a page's template data and no HTML; what it gives is escaped, but for style, scripts and drawings
(docs/decisions/0036).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from bentpipe.figures.style import config
from bentpipe.report.vega_bundle import library
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.figures.figure import Figure
    from bentpipe.report.headline import Headline

__all__ = ["Drawing", "Page", "rendered"]


@dataclass(frozen=True)
class Drawing:
    """The place of a figure in a page."""

    key: str
    title: str
    caption: str
    of_runs: bool = False
    """Whether a click says which run a line is of."""


class Page:
    """A page: draw its figures, then :meth:`write` it."""

    def __init__(self, title: str, package: str = "bentpipe") -> None:
        """Start a page.

        Args:
            title: Plain text, also of the browser's window.
            package: The package with its template.
        """
        self.title = title
        self._package = package
        self._specs: dict[str, str] = {}
        self.runs: dict[str, dict[str, str]] = {}
        """What is said of the runs that figures show, by the number that these have for each: ``called``, and
        ``command``, which makes it again."""

    def drawing(self, figure: Figure, *, part: str = "") -> Drawing:
        """The place of ``figure``; ``part`` tells figures of the same key apart."""
        title = f"{figure.title}: {part}" if part else figure.title
        return Drawing(
            self.variant(figure, part=part), title, figure.caption, figure.of_runs and bool(self.runs)
        )

    def variant(self, figure: Figure, number: int = 0, part: str = "") -> str:
        """Keeps the drawing of ``figure``, the ``number``-th that its place can show; returns the place's key."""
        key = re.sub(r"[^a-z0-9]+", "-", f"{part} {figure.key}".strip().lower())
        spec = figure.spec()
        spec.pop("$schema", None)
        self._specs[f"spec-{key}-{number}"] = _json(spec)
        return key

    def render(self, template: str, opening: Headline, **content: Any) -> str:
        """The whole page, as text: ``template``, which extends ``report/base.html``, its beginning, its ``content``."""
        return rendered(template, self._package, page=self, title=self.title, opening=opening, **content)

    def write(self, out: Path, template: str, opening: Headline, **content: Any) -> Path:
        """Writes the page to ``out``, whole or not at all."""
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, self.render(template, opening, **content).encode())
        return out

    # what base.html asks for

    @property
    def data(self) -> dict[str, str]:
        """What the script reads, by its id: specifications, and the colours of both modes; nothing without figures."""
        if not self._specs:
            return {}
        runs = {"runs": _json(self.runs)} if self.runs else {}
        return {**self._specs, **runs, "configs": _json({"light": config(), "dark": config(dark=True)})}

    def file(self, name: str) -> str:
        """Style or script."""
        return resources.files("bentpipe.report").joinpath(name).read_text(encoding="utf-8")

    def library(self) -> str:
        """The script that draws."""
        return library()


def rendered(template: str, package: str = "bentpipe", /, **content: Any) -> str:
    """Render a template of ``package`` or of bentpipe with ``content``, which is escaped."""
    return _environment(package).get_template(template).render(content)


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("bentpipe", "."), PackageLoader(package, ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    return environment


def unbroken(text: str) -> str:
    """``text`` in which a number and its unit, or its ±, stay on one line."""
    return _TOGETHER.sub("\u00a0", text)


_UNIT = r"(?:[±%]|(?:[nµmkMG]?(?:s|B|m|b/s|bit/s)|dB|min|h|hours|BDP|packets|cells?|runs?|seeds?)\b)"
_TOGETHER = re.compile(rf"(?<=±) (?=\d)|(?<=\d) (?={_UNIT}|…)|(?<=\d …) (?=[-−\d])")
"""Blanks at which no line ends."""


def _json(value: Any) -> str:
    """JSON in which nothing can end the element that it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
