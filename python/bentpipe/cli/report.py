"""Commands ``export`` and ``report``: a store in other formats."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import FAILED, Controllers, StoreDirectory, options, refuse
from bentpipe.cli.open_page import Open, open_page
from bentpipe.report.export import Format
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.figures.export import FigureExport
    from bentpipe.store.reader import Store

__all__ = ["export", "report"]


def export(
    directory: StoreDirectory,
    form: Annotated[Format, typer.Option("--format", "-f", help="output format")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="PATH", help="output file or directory [default: next to DIR]"),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="F.ods", help="spreadsheet template with data sheets to fill")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="traces of this run; a run without traces is repeated"),
    ] = None,
    controllers: Controllers = None,
) -> None:
    """Write a store in another format.

    CSV, Parquet, JSON, a spreadsheet, or the packets of its runs.
    """
    from bentpipe.report.export import export as write
    from bentpipe.store.reader import Store

    if template is not None and form != "ods":
        refuse("--template requires --format ods")
    if run is not None and form not in ("qlog", "pcapng"):
        refuse("--run requires --format pcapng or qlog")
    if controllers and run is None:
        refuse("--controller requires --run ID, the run to repeat")
    if run is not None and (form == "qlog" or form == "pcapng"):
        paths = _write_run_traces(Store(directory), run, form, out, controllers or ())
    else:
        paths = write(Store(directory), form, out, template)
    for path in paths:
        print(path)


def _write_run_traces(
    store: Store, run: str, form: Literal["qlog", "pcapng"], out: Path | None, controllers: Sequence[str]
) -> list[Path]:
    """Return the traces of one run, which is repeated if the store has no traces of it."""
    from bentpipe.api.replay import ReplayMismatchError, replay_run
    from bentpipe.api.user_code import import_path, load_controllers
    from bentpipe.report.export import place_of
    from bentpipe.store.export import SUFFIXES, traces, write_traces

    target = out or place_of(store, form)
    if any(file.parent.name == run for suffix in SUFFIXES[form] for file in store.files(suffix)):
        return traces(store, form, target, run)
    own = load_controllers(controllers)
    import_places = {name: place for name, kind in own.items() if (place := import_path(kind)) is not None}
    try:
        with options():
            spec, files = replay_run(store, run, form, import_places)
    except ReplayMismatchError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    return write_traces(run, spec, files, form, target)


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="store, several side by side, or recording of shell --record or perf --record",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="F.html", help="output file [default: DIR/report.html, or DIR/brief.html]"
        ),
    ] = None,
    brief: Annotated[
        bool, typer.Option("--brief", help="one sentence and three figures, two printed pages")
    ] = False,
    range_text: Annotated[
        str | None,
        typer.Option("--range", metavar="FROM..TO", help='time range of time series, such as "0..30 s"'),
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="seed of the time series of --figures")
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option("--cell", metavar="KEY=VALUE", help="cell of the time series of --figures; repeatable"),
    ] = None,
    no_title: figure_options.NoTitle = False,
    show_page: Open = False,
) -> None:
    """Write an HTML report of a store, or of several side by side.

    It needs no network. Figures also as PDF, SVG and PNG.
    """
    from bentpipe.figures.registry import parse_range, write_figures
    from bentpipe.report.brief_page import write_brief
    from bentpipe.report.store_page import write_report
    from bentpipe.store.joined import join_stores

    files = figure_options.files(figures, only, forms, width, no_title, seed=seed, cell=cell)
    directory = directories[0]
    if len(directories) > 1 and (
        recording := next((one for one in directories if _recording_page(one) is not None), None)
    ):
        refuse(f"{recording}: a recording has a page of its own, expected stores")
    if len(directories) == 1 and (page := _recording_page(directory)):
        given = {"brief": brief or None, "range": range_text, "seed": seed, "cell": cell}
        if invalid := next((key for key, value in given.items() if value is not None), None):
            refuse(f"--{invalid}: requires a store; {directory} is {page.what}")
        with options():
            written = page.write(out, files)
        print("\n".join(map(str, written)))
        if show_page:
            open_page(written[0])
        return
    try:
        span = parse_range(range_text)
    except ValueError as error:
        refuse(f"--range: {error}")
    if brief and files is None and len(directories) == 1 and (own := _command_brief(directory)) is not None:
        page_path = _copied(own, out)
        print(page_path)
        if show_page:
            open_page(page_path)
        return
    store = join_stores(directories)
    with options():
        written_figures = [] if files is None else write_figures(store, files, span, seed=seed, at=cell or ())
    page_path = (write_brief if brief else write_report)(store, out, span)
    print(page_path)
    for path in written_figures:
        print(path)
    if show_page:
        open_page(page_path)


def _command_brief(directory: Path) -> Path | None:
    """Return the brief page of break-even or capacity in their output directory, which is given or has the store."""
    from bentpipe.report.page import BRIEF

    for place in (directory, directory.resolve().parent):
        if any((place / name).is_file() for name in ("map.json", "capacity.json")):
            page = place / BRIEF
            return (
                page
                if page.is_file() and (place == directory or directory.resolve().name == "store")
                else None
            )
    return None


def _copied(page: Path, out: Path | None) -> Path:
    """Copy a page to ``out`` and return its place; without ``out`` it stays."""
    if out is None:
        return page
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, page.read_bytes())
    return out


@dataclass(frozen=True)
class _RecordingPage:
    """Page of a recording: its description and the function that writes it.

    The function takes a path; None is the default path.
    """

    what: str
    write: Callable[[Path | None, FigureExport | None], list[Path]]


def _recording_page(place: Path) -> _RecordingPage | None:
    """Return the page of a recording of emulation or real sockets; None for stores."""
    from bentpipe.lab.call_recording import is_call_recording
    from bentpipe.lab.perf_recording import find_files
    from bentpipe.lab.recording import is_recording

    if is_recording(place):
        return _RecordingPage("a recording of shell", partial(_write_shell_page, place))
    if is_call_recording(place):
        return _RecordingPage("a recording of perf call", partial(_write_call_page, place))
    if not (place / "runs").exists() and find_files(place):
        return _RecordingPage("a measurement of perf", partial(_write_perf_page, place))
    return None


def _write_perf_page(place: Path, out: Path | None, files: FigureExport | None) -> list[Path]:
    """Write the page of a recording of ``perf``, and its figures."""
    from bentpipe.lab.perf_recording import read_endpoints
    from bentpipe.report import perf_page
    from bentpipe.runners import engine

    default_path = place / "report.html" if place.is_dir() else place.with_suffix(".html")
    endpoints = read_endpoints(place)
    written_figures = [] if files is None else files.write(perf_page.figures(endpoints))
    return [perf_page.write(endpoints, out or default_path, engine.version()), *written_figures]


def _write_call_page(place: Path, out: Path | None, files: FigureExport | None) -> list[Path]:
    """Write the page of a recording of ``perf call-client``, and its figures."""
    from bentpipe.lab import calls as lab
    from bentpipe.lab.call_recording import read
    from bentpipe.report import call_page
    from bentpipe.runners import engine

    recording = read(place)
    calls = call_page.CallReport(
        str(recording.results[0]["peer"]), all(one["one_clock"] for one in recording.results), recording.config,
        lab.rating_rows(recording.results, recording.load, recording.config),
        *lab.result_tables(recording.results, recording.load),
    )  # fmt: skip
    default_path = place / "report.html" if place.is_dir() else place.with_suffix(".html")
    written_figures = [] if files is None else files.write(call_page.figures(calls))
    return [call_page.write(calls, out or default_path, engine.version()), *written_figures]


def _write_shell_page(directory: Path, out: Path | None, files: FigureExport | None) -> list[Path]:
    """Write the page of a recording of ``shell``, and its figures."""
    import shlex

    from bentpipe.lab.recording import read_recording
    from bentpipe.report import recording_page
    from bentpipe.runners import engine

    recording = read_recording(directory)
    notes = [f"The lab missed its deadlines: {reason}" for reason in recording.reasons]
    if recording.record_error is not None:
        notes.append(f"The series end early: {recording.record_error}")
    rtt = None if recording.check is None else float(recording.check["rtt_ns"]) / 1e6
    session = recording_page.Session(
        shlex.join(recording.command), recording.wall_s, rtt, notes, recording.rows, recording.totals
    )
    written_figures = [] if files is None else files.write(recording_page.figures(session))
    return [
        recording_page.write(session, out or directory / "report.html", engine.version()),
        *written_figures,
    ]
