"""``export`` and ``report``: a store in other forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli.common import StoreDirectory, refuse
from bentpipe.report.export import Format

__all__ = ["export", "report"]


def export(
    directory: StoreDirectory,
    form: Annotated[Format, typer.Option("--format", "-f", help="what to write")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="PATH", help="where; default: beside DIR")
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="F.ods", help="a spreadsheet whose data sheets to fill")
    ] = None,
) -> None:
    """Write a store in another format. CSV, Parquet, JSON, a spreadsheet, or the traces it holds."""
    from bentpipe.report.export import export as write
    from bentpipe.store.reader import Store

    if template is not None and form != "ods":
        refuse("--template goes with --format ods")
    for path in write(Store(directory), form, out, template):
        print(path)


def report(
    directory: StoreDirectory,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="F.html", help="default: DIR/report.html")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="also every figure as PDF and SVG")
    ] = None,
    between: Annotated[
        str | None, typer.Option("--range", metavar="FROM..TO", help='of figures over time: "0..30 s"')
    ] = None,
) -> None:
    """Write one HTML page about a store. It needs no network; figures also as PDF and SVG."""
    from bentpipe.figures.registry import parse_range, write_figures
    from bentpipe.report import report as pages

    try:
        span = parse_range(between)
    except ValueError as error:
        refuse(f"--range: {error}")
    print(pages.build(directory, out, span))
    if figures is not None:
        for path in write_figures(directory, figures, span):
            print(path)
