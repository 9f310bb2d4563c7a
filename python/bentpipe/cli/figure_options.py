"""Options of figures as files (``--figures DIR``), for every command with figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli.common import folder, refuse

if TYPE_CHECKING:
    from bentpipe.figures.export import FigureExport

__all__ = ["Folder", "Forms", "NoTitle", "Only", "Width", "files"]

Folder = Annotated[
    Path | None,
    typer.Option(
        "--figures", metavar="DIR", help="also write every figure into this directory, as PDF and SVG"
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--figure", metavar="KEY", help="only this figure of --figures; repeatable"),
]
Forms = Annotated[
    list[str] | None,
    typer.Option(
        "--format", metavar="pdf|svg|png", help="format of --figures; repeatable [default: pdf, svg]"
    ),
]
Width = Annotated[
    str | None, typer.Option("--width", metavar="WIDTH", help="width of --figures, such as 88mm")
]
NoTitle = Annotated[bool, typer.Option("--no-title", help="figures of --figures without title and note")]


def files(
    out: Path | None,
    only: list[str] | None,
    forms: list[str] | None,
    width: str | None,
    no_title: bool,
    *,
    which: str = "--figure",
    **others: object,
) -> FigureExport | None:
    """Return the requested figure export; None without ``--figures``. Reject invalid options.

    Args:
        out: directory of the figures.
        only: keys of the figures; None: all.
        forms: file formats.
        width: width of a figure.
        no_title: omit title and note.
        which: name of the option ``only``.
        others: further options of a command that require ``--figures``.
    """
    from bentpipe.figures.export import DEFAULT, FORMS, FigureExport
    from bentpipe.figures.layout import width_px
    from bentpipe.scenario.errors import unknown_name

    given: dict[str, object] = {
        which: only,
        "--format": forms,
        "--width": width,
        "--no-title": no_title or None,
    }
    given |= {f"--{key}": value for key, value in others.items()}
    if out is None:
        if option := next((key for key, value in given.items() if value is not None), None):
            refuse(f"{option}: requires --figures DIR")
        return None
    folder(out, "--figures")
    for unknown in [form for form in forms or () if form not in FORMS]:
        refuse(f"--format: {unknown_name(unknown, FORMS, 'form of a figure')}")
    try:
        width_in_px = None if width is None else width_px(width)
    except ValueError as error:
        refuse(f"--width: {error}")
    return FigureExport(out, tuple(forms or DEFAULT), tuple(only or ()), width_in_px, titled=not no_title)
