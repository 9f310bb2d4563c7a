"""Figure: a chart with a title and a caption, for a page or a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bentpipe.figures.export import FORMS
from bentpipe.figures.layout import narrowed
from bentpipe.figures.style import config
from bentpipe.store.files import write_atomic


@dataclass(frozen=True)
class Figure:
    """Chart with its title, caption and key."""

    key: str
    """Name of the figure in files and addresses."""
    title: str
    caption: str
    """Explanation of the chart."""
    chart: Any
    """Altair chart."""
    rows: int
    """Number of rows of data."""
    note: str = ""
    """Sentence about the cells in the chart."""
    drawn_for: Callable[[float], Any] | None = None
    """Function that returns the chart for another width, CSS pixels, if narrower panels are not enough."""
    of_runs: bool = False
    """Whether the rows have a column ``run`` with numbers of :attr:`FigureContext.run_numbers`."""

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, with its data and without the colours of a page (``config``).

        The result is a shallow copy: nested objects are shared between calls.
        """
        return dict(self._spec)

    @cached_property
    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        spec.pop("config", None)
        return spec

    def whole(self, *, titled: bool = True) -> dict[str, Any]:
        """Return the specification of a separate file on white, with title, note, colours and fonts."""
        spec = self.spec()
        if "title" in spec:
            schema = spec.pop("$schema")
            datasets = spec.pop("datasets", {})  # Vega-Lite reads them only at the top level
            spec = {"$schema": schema, "vconcat": [spec], "datasets": datasets}
        if titled:
            spec["title"] = {
                "text": self.title,
                "fontSize": 15,
                "subtitle": self.note,
                "subtitleFontSize": 11,
                "offset": 12,
            }
        spec["config"] = config() | {"background": "white"}
        return spec

    def write(self, path: Path, wide: float | None = None, *, titled: bool = True) -> Path:
        """Write the figure to one file, as :meth:`write_all`; return its path."""
        self.write_all([path], wide, titled=titled)
        return path

    def write_all(self, paths: Sequence[Path], wide: float | None = None, *, titled: bool = True) -> None:
        """Write the figure to files.

        Args:
            paths: files; the suffix selects the format ``.pdf``, ``.svg`` or ``.png`` (300 dpi).
            wide: width, CSS pixels; None: the width of a page.
            titled: add title and note.

        Raises:
            ValueError: a suffix is unknown, or the width is too small.
        """
        import vl_convert

        fitting = self
        if wide is not None and self.drawn_for is not None:
            fitting = replace(self, chart=self.drawn_for(wide))
        spec = fitting.whole(titled=titled)
        version = ".".join(spec["$schema"].rsplit("/v", 1)[-1].removesuffix(".json").split(".")[:2])

        def to_svg(spec: dict[str, Any]) -> str:
            return _renumber(str(vl_convert.vegalite_to_svg(spec, vl_version=version)))

        for path in paths:
            if path.suffix.removeprefix(".") not in FORMS:
                raise ValueError(f"{path.name}: a figure is written as .pdf, .svg or .png")
        if wide is not None:
            try:
                spec = narrowed(spec, wide, lambda part: _size(to_svg(part))[0])
            except ValueError as error:
                raise ValueError(f"{self.key}: {error}") from None
        svg = to_svg(spec)
        if wide is not None:
            svg = _set_width(svg, wide)
        for path in paths:
            if path.suffix == ".svg":
                write_atomic(path, svg.encode())
            elif path.suffix == ".png":
                write_atomic(path, vl_convert.svg_to_png(svg, scale=72 / 96, ppi=DOTS))
            else:
                # A pixel of the SVG becomes a point of the PDF, 1/72 inch.
                write_atomic(
                    path, vl_convert.svg_to_pdf(svg if wide is None else _set_width(svg, wide * 72 / 96))
                )


DOTS = 300
"""Resolution of a bitmap, dots per inch."""

_NUMBERED = re.compile(r'(?<=id=")(clip|gradient_)\d+(?=")|(?<=url\(#)(clip|gradient_)\d+(?=\))')


def _renumber(svg: str) -> str:
    """Renumber clips and gradients of an SVG from 1, because Vega continues its count within a process."""
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        kind = found[1] or found[2]
        number = 1 + sum(known.startswith(kind) for known in names)
        return names.setdefault(found[0], f"{kind}{number}")

    return _NUMBERED.sub(name, svg)


_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def _size(svg: str) -> tuple[float, float]:
    found = _SIZE.search(svg)
    if found is None:
        raise ValueError("a drawing without a size")
    return float(found[1]), float(found[2])


def _set_width(svg: str, wide: float) -> str:
    """Scale an SVG to exactly this width, which differs by at most a pixel."""
    width, height = _size(svg)
    return _SIZE.sub(f'width="{wide:.2f}" height="{height * wide / width:.2f}"', svg, count=1)
