"""``export`` and ``report``: a store in other forms."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import FAILED, Controllers, StoreDirectory, options, refuse, suggest_pack
from bentpipe.report.export import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.figures.export import FigureExport
    from bentpipe.store.reader import Store

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
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="traces of this run, which is made again where it has none"),
    ] = None,
    controllers: Controllers = None,
) -> None:
    """Write a store in another format. CSV, Parquet, JSON, a spreadsheet, or the packets of its runs."""
    from bentpipe.report.export import export as write
    from bentpipe.store.reader import Store

    if template is not None and form != "ods":
        refuse("--template goes with --format ods")
    if run is not None and form not in ("qlog", "pcapng"):
        refuse("--run goes with --format pcapng or qlog")
    if controllers and run is None:
        refuse("--controller goes with --run ID, which it makes again")
    if run is not None and (form == "qlog" or form == "pcapng"):
        paths = _packets(Store(directory), run, form, out, controllers or ())
    else:
        paths = write(Store(directory), form, out, template)
    for path in paths:
        print(path)


def _packets(
    store: Store, run: str, form: Literal["qlog", "pcapng"], out: Path | None, controllers: Sequence[str]
) -> list[Path]:
    """The traces of one run, which is made again where the store has none of it."""
    from bentpipe.api.replay import ReplayMismatchError, replay_run
    from bentpipe.api.user_code import import_path, load_controllers
    from bentpipe.report.export import place_of
    from bentpipe.store.export import SUFFIXES, traces, write_traces

    target = out or place_of(store, form)
    if any(file.parent.name == run for suffix in SUFFIXES[form] for file in store.files(suffix)):
        return traces(store, form, target, run)
    own = load_controllers(controllers)
    places = {name: place for name, kind in own.items() if (place := import_path(kind)) is not None}
    try:
        with options():
            spec, files = replay_run(store, run, form, places)
    except ReplayMismatchError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    return write_traces(run, spec, files, form, target)


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="a store, or what shell --record or perf --record has kept")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="F.html", help="default: DIR/report.html")
    ] = None,
    between: Annotated[
        str | None, typer.Option("--range", metavar="FROM..TO", help='of figures over time: "0..30 s"')
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="of --figures over time: the runs of this seed")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="KEY=VALUE", help="of --figures over time: this cell; repeatable"),
    ] = None,
    no_title: figure_options.NoTitle = False,
) -> None:
    """Write one HTML page about a store. It needs no network; figures also as PDF, SVG and PNG."""
    from bentpipe.figures.registry import parse_range, write_figures
    from bentpipe.report import store_page as pages

    files = figure_options.files(figures, only, forms, width, no_title, seed=seed, at=at)
    if page := _other_page(directory):
        given = {"range": between, "seed": seed, "at": at}
        if wrong_one := next((key for key, value in given.items() if value is not None), None):
            refuse(f"--{wrong_one}: is of a store; {directory} is {page.what}")
        with options():
            written = page.write(out, files)
        print("\n".join(map(str, written)))
        return
    try:
        span = parse_range(between)
    except ValueError as error:
        refuse(f"--range: {error}")
    with options():
        drawn = [] if files is None else write_figures(directory, files, span, seed=seed, at=at or ())
    print(pages.write_report(directory, out, span))
    suggest_pack(directory)
    for path in drawn:
        print(path)


@dataclass(frozen=True)
class _Other:
    """Something beside a store that has a page: ``what`` it is, and what writes it, to a path or where it belongs."""

    what: str
    write: Callable[[Path | None, FigureExport | None], list[Path]]


def _other_page(place: Path) -> _Other | None:
    """The page of what was measured in real time by hand; None for all else."""
    from bentpipe.lab.call_recording import is_kept
    from bentpipe.lab.perf_recording import files_of
    from bentpipe.lab.recording import is_record

    if is_record(place):
        return _Other("the record of a shell", partial(_of_record, place))
    if is_kept(place):
        return _Other("what perf call has kept", partial(_of_calls, place))
    if not (place / "runs").exists() and files_of(place):
        return _Other("a measurement of perf", partial(_of_perf, place))
    return None


def _of_perf(place: Path, out: Path | None, files: FigureExport | None) -> list[Path]:
    """The page of what ``perf`` has measured, and its figures."""
    from bentpipe.lab.perf_recording import read_sides
    from bentpipe.report import perf_page
    from bentpipe.runners import engine

    beside = place / "report.html" if place.is_dir() else place.with_suffix(".html")
    sides = read_sides(place)
    drawn = [] if files is None else files.write(perf_page.figures(sides))
    return [perf_page.write(sides, out or beside, engine.version()), *drawn]


def _of_calls(place: Path, out: Path | None, files: FigureExport | None) -> list[Path]:
    """The page of calls that ``perf call`` has made, and its figures."""
    from bentpipe.lab import calls as lab
    from bentpipe.lab.call_recording import read
    from bentpipe.report import call_page
    from bentpipe.runners import engine

    kept = read(place)
    said = call_page.Called(
        str(kept.told[0]["peer"]), all(one["one_clock"] for one in kept.told), kept.how,
        lab.rows(kept.told, kept.load, kept.how), *lab.frames(kept.told, kept.load),
    )  # fmt: skip
    beside = place / "report.html" if place.is_dir() else place.with_suffix(".html")
    drawn = [] if files is None else files.write(call_page.figures(said))
    return [call_page.write(said, out or beside, engine.version()), *drawn]


def _of_record(directory: Path, out: Path | None, files: FigureExport | None) -> list[Path]:
    """The page of what ``shell --record`` has kept, and its figures."""
    import shlex

    from bentpipe.lab.recording import read_record
    from bentpipe.report import recording_page
    from bentpipe.runners import engine

    found = read_record(directory)
    notes = [f"The machine did not keep the path's time: {reason}" for reason in found.reasons]
    if found.record_error is not None:
        notes.append(f"The series end early: {found.record_error}")
    rtt = None if found.check is None else float(found.check["rtt_ns"]) / 1e6
    session = recording_page.Session(
        shlex.join(found.command), found.wall_s, rtt, notes, found.rows, found.totals
    )
    drawn = [] if files is None else files.write(recording_page.figures(session))
    return [recording_page.write(session, out or directory / "report.html", engine.version()), *drawn]
