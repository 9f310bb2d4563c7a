"""Frame of every page (``base.html``): style, scripts and figures that fit the reader's window.

A page is one file that needs no network. It contains its figures as Vega-Lite specifications with their data, and one
copy of the library that draws them. A Content-Security-Policy in the page forbids every request. Python passes data to
the template, not HTML. The template escapes all data except style, scripts and drawings (docs/decisions/0036).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from bentpipe.figures.style import DARK, config
from bentpipe.metrics.format import unbroken
from bentpipe.report.vega_bundle import library
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.figures.figure import Figure
    from bentpipe.report.headline import Headline

__all__ = ["BRIEF", "Drawing", "Page", "rendered"]


BRIEF = "brief.html"
"""Name of a brief page: of a store, or of a command that answers one question, in its output directory."""


@dataclass(frozen=True)
class Drawing:
    """Placeholder of a figure in a page."""

    key: str
    title: str
    caption: str
    of_runs: bool = False
    """Whether a click on a line shows its run."""


class Page:
    """HTML page: add its figures, then :meth:`write` it."""

    def __init__(self, title: str, package: str = "bentpipe") -> None:
        """Start a page.

        Args:
            title: plain text, also the title of the browser's window.
            package: package with the template.
        """
        self.title = title
        self._package = package
        self._specs: dict[str, str] = {}
        self.runs: dict[str, dict[str, str]] = {}
        """Label (``called``) and command to repeat the run (``command``) of each run in figures, by its number."""

    def drawing(self, figure: Figure, *, part: str = "", paper: Figure | None = None) -> Drawing:
        """Add ``figure`` and return its placeholder.

        Args:
            figure: the figure.
            part: text that distinguishes figures with the same key.
            paper: figure in its place on paper, such as one without interaction.
        """
        title = f"{figure.title}: {part}" if part else figure.title
        key = self.variant(figure, part=part)
        if paper is not None:
            self.variant(paper, "paper", part)
        return Drawing(key, title, figure.caption, figure.of_runs and bool(self.runs))

    def variant(self, figure: Figure, number: int | str = 0, part: str = "") -> str:
        """Add ``figure`` as the variant ``number`` of its placeholder; return the key of the placeholder."""
        key = re.sub(r"[^a-z0-9]+", "-", f"{part} {figure.key}".strip().lower())
        spec = figure.spec()
        spec.pop("$schema", None)
        self._specs[f"spec-{key}-{number}"] = _json(spec)
        return key

    def render(self, template: str, opening: Headline, **content: Any) -> str:
        """Render the page.

        Args:
            template: template that extends ``report/base.html``.
            opening: first lines of the page.
            content: data of the template.
        """
        return rendered(template, self._package, page=self, title=self.title, opening=opening, **content)

    def write(self, out: Path, template: str, opening: Headline, **content: Any) -> Path:
        """Write the page to ``out`` atomically; return ``out``."""
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, self.render(template, opening, **content).encode())
        return out

    # used by base.html

    @property
    def data(self) -> dict[str, str]:
        """JSON of the script by element id: specifications, styles and dark colours; empty without figures."""
        if not self._specs:
            return {}
        runs = {"runs": _json(self.runs)} if self.runs else {}
        configs = _json({"light": config(), "dark": config(dark=True)})
        return {**self._specs, **runs, "configs": configs, "dark-colours": _json(DARK)}

    def file(self, name: str) -> str:
        """Return the text of a style sheet or script."""
        return resources.files("bentpipe.report").joinpath(name).read_text(encoding="utf-8")

    def library(self) -> str:
        """Return the script that draws figures."""
        return library()


def rendered(template: str, package: str = "bentpipe", /, **content: Any) -> str:
    """Render a template of ``package`` or of bentpipe with escaped ``content``."""
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


def _json(value: Any) -> str:
    """Return JSON that cannot close its script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
