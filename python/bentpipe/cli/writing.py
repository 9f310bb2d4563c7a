"""``export`` and ``report``: a store in other forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli.common import StoreDirectory, folder, refuse
from bentpipe.report.export import Format

__all__ = ["export", "report"]

FORMS = ("pdf", "svg", "png")
"""Of figures as files."""


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
    only: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="of --figures: this one, such as cwnd; repeatable")
    ] = None,
    forms: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="pdf|svg|png", help="of --figures; repeatable [default: pdf, svg]"),
    ] = None,
    width: Annotated[
        str | None, typer.Option(metavar="WIDTH", help="of --figures: a column's, such as 88mm")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="of --figures over time: the runs of this seed")
    ] = None,
    no_title: Annotated[
        bool, typer.Option("--no-title", help="of --figures: without title and note")
    ] = False,
) -> None:
    """Write one HTML page about a store. It needs no network; figures also as PDF, SVG and PNG."""
    from bentpipe.figures.narrow import width_px
    from bentpipe.figures.registry import parse_range, write_figures
    from bentpipe.lab.recorded import is_record
    from bentpipe.report import report as pages
    from bentpipe.scenario.problems import unknown_word

    if is_record(directory):
        if figures is not None or between is not None:
            refuse(
                f"{directory} is the record of a shell, which has one page alone: expected no --figures, no --range"
            )
        print(_of_record(directory, out))
        return
    written: list[Path] = []
    theirs = {"only": only, "format": forms, "width": width, "seed": seed, "no-title": no_title or None}
    if figures is None and (
        beside := next((key for key, value in theirs.items() if value is not None), None)
    ):
        refuse(f"--{beside}: goes with --figures DIR, into which figures are written")
    folder(figures)
    for wrong in [form for form in forms or () if form not in FORMS]:
        refuse(f"--format: {unknown_word(wrong, FORMS, 'form of a figure')}")
    try:
        span = parse_range(between)
    except ValueError as error:
        refuse(f"--range: {error}")
    try:
        wide = None if width is None else width_px(width)
    except ValueError as error:
        refuse(f"--width: {error}")
    if figures is not None:
        try:
            written = write_figures(
                directory,
                figures,
                span,
                forms or ("pdf", "svg"),
                only,
                wide=wide,
                seed=seed,
                titled=not no_title,
            )
        except ValueError as error:
            refuse(f"--figures: {error}")
    print(pages.build(directory, out, span))
    for path in written:
        print(path)


def _of_record(directory: Path, out: Path | None) -> Path:
    """The page of what ``shell --record`` has kept."""
    import shlex

    from bentpipe.lab.recorded import read_record
    from bentpipe.report import record
    from bentpipe.runners import engine

    found = read_record(directory)
    notes = [f"The machine did not keep the path's time: {reason}" for reason in found.reasons]
    if found.record_error is not None:
        notes.append(f"The series end early: {found.record_error}")
    rtt = None if found.check is None else float(found.check["rtt_ns"]) / 1e6
    session = record.Session(shlex.join(found.command), found.wall_s, rtt, notes, found.rows, found.totals)
    return record.write(session, out or directory / "report.html", engine.version())
