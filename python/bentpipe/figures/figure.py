"""One figure: a chart with a title and a caption, for a page or for a file."""

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
    """``key`` names it in files and addresses; ``caption`` says what is drawn, ``note`` which cells are shown."""

    key: str
    title: str
    caption: str
    chart: Any
    rows: int
    note: str = ""
    drawn_for: Callable[[float], Any] | None = None
    """The chart for another width, CSS pixels, where it is more than narrower panels."""
    of_runs: bool = False
    """Whether its rows say of which run they are: their column ``run`` is one of :attr:`Material.run_numbers`."""

    def spec(self) -> dict[str, Any]:
        """The Vega-Lite specification, with its data and without colours of a page (``config``).

        Its top is the caller's own, and what is in it everybody's.
        """
        return dict(self._spec)

    @cached_property
    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        spec.pop("config", None)
        return spec

    def whole(self, *, titled: bool = True) -> dict[str, Any]:
        """The specification as it stands alone, on white: with the title, the note, colours and fonts."""
        spec = self.spec()
        if "title" in spec:
            schema = spec.pop("$schema")
            datasets = spec.pop("datasets", {})  # only looked for at the top
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
        """As :meth:`write_all`, one file."""
        self.write_all([path], wide, titled=titled)
        return path

    def write_all(self, paths: Sequence[Path], wide: float | None = None, *, titled: bool = True) -> None:
        """Write it as ``.pdf``, ``.svg`` or ``.png`` (300 dots an inch) by the suffix, ``wide`` CSS pixels if it is not
        to be a page's width.

        Raises ValueError for another suffix, and for a width in which it has no room.
        """
        import vl_convert

        fitting = self
        if wide is not None and self.drawn_for is not None:
            fitting = replace(self, chart=self.drawn_for(wide))
        spec = fitting.whole(titled=titled)
        version = ".".join(spec["$schema"].rsplit("/v", 1)[-1].removesuffix(".json").split(".")[:2])

        def drawn(one: dict[str, Any]) -> str:
            return _numbered(str(vl_convert.vegalite_to_svg(one, vl_version=version)))

        for path in paths:
            if path.suffix.removeprefix(".") not in FORMS:
                raise ValueError(f"{path.name}: a figure is written as .pdf, .svg or .png")
        if wide is not None:
            try:
                spec = narrowed(spec, wide, lambda one: _size(drawn(one))[0])
            except ValueError as error:
                raise ValueError(f"{self.key}: {error}") from None
        svg = drawn(spec)
        if wide is not None:
            svg = _exactly(svg, wide)
        for path in paths:
            if path.suffix == ".svg":
                write_atomic(path, svg.encode())
            elif path.suffix == ".png":
                write_atomic(path, vl_convert.svg_to_png(svg, scale=72 / 96, ppi=DOTS))
            else:
                # A pixel of the drawing is a point of a PDF's page, of which an inch has 72.
                write_atomic(
                    path, vl_convert.svg_to_pdf(svg if wide is None else _exactly(svg, wide * 72 / 96))
                )


DOTS = 300
"""An inch of a bitmap."""

_NUMBERED = re.compile(r'(?<=id=")(clip|gradient_)\d+(?=")|(?<=url\(#)(clip|gradient_)\d+(?=\))')


def _numbered(svg: str) -> str:
    """The drawing with its clips and gradients numbered from 1: Vega counts on from one drawing of a process to the
    next."""
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        kind = found[1] or found[2]
        number = 1 + sum(one.startswith(kind) for one in names)
        return names.setdefault(found[0], f"{kind}{number}")

    return _NUMBERED.sub(name, svg)


_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def _size(svg: str) -> tuple[float, float]:
    found = _SIZE.search(svg)
    if found is None:
        raise ValueError("a drawing without a size")
    return float(found[1]), float(found[2])


def _exactly(svg: str, wide: float) -> str:
    """The drawing at this width, which it has but for a pixel."""
    width, height = _size(svg)
    return _SIZE.sub(f'width="{wide:.2f}" height="{height * wide / width:.2f}"', svg, count=1)
