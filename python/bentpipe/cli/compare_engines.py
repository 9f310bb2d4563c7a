"""``agree``: a scenario on both clocks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import (
    FAILED,
    INTERRUPTED,
    AsJson,
    Jobs,
    Seeds,
    Settings,
    count,
    interruptible,
    options,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bentpipe.engine_validation.compare import EngineComparison
    from bentpipe.figures.export import FigureExport
    from bentpipe.runners.execute import ExecutionSummary

__all__ = ["compare_engines"]


def compare_engines(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a scenario (TOML), or a folder of them")],
    settings: Settings = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="the simulated store; the real one is DIR-emu; default: out/FILE's name",
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="write a page with figures of both (HTML)")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--summary", metavar="FILE", help="of a folder: write its standing table (Markdown)"),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option("--archive", metavar="FILE", help="of a folder: its stores as an archive (tar.xz)"),
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    as_is: Annotated[bool, typer.Option("--no-run", help="run nothing: of what has run")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario in virtual and in real time. Exit status 0 when all differences are within their bounds."""
    from bentpipe.cli.console import answer, emit, print_table, watch

    files = figure_options.files(figures, only, forms, width, no_title)
    if file.is_dir():
        _none_of(
            {"--report": page, "--figures": figures}, f"found it with the folder {file}, expected one scenario"
        )
        from bentpipe.engine_validation.summary_table import write_summary

        place = out or Path("out") / file.resolve().name
        with interruptible():
            said = write_summary(
                file, settings or [], seeds, jobs, place,
                table=table, archive=publish, as_is=as_is, watch=watch(quiet=as_json),
            )  # fmt: skip
        answer(said, as_json=as_json)
        raise typer.Exit(0 if said.good else FAILED)
    _none_of(
        {"--summary": table, "--archive": publish}, f"found it with {file}, expected a folder of scenarios"
    )
    from bentpipe.engine_validation.compare import compare_engines, format_rows
    from bentpipe.engine_validation.run_both import plan_engines, run_both
    from bentpipe.scenario.sweep import parse_override
    from bentpipe.store.files import EmptyStoreError
    from bentpipe.store.journal import host_summary

    _check(files)
    given = settings or []
    target = out or Path("out") / file.stem
    both = plan_engines(file, target, [parse_override(text) for text in given], given, seeds)
    try:
        reports = () if as_is else run_both(both, jobs, watch(quiet=as_json))
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on from there", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    failed = say_failures(reports)
    try:
        found = compare_engines(*both.stores)
    except EmptyStoreError:
        if failed:  # which has been said
            raise typer.Exit(FAILED) from None
        raise
    if as_json:
        emit(found.data())
    else:
        print_table(format_rows(found.rows), f"{found.title} (means; differences with their 95 % intervals)")
        print(host_summary(both.stores[1]))
        if found.undecided:
            print(
                f"{count(found.undecided, 'number')} undecided: more seeds (--seeds N) narrow the intervals"
            )
    for line in _drawn(found, page, files):
        if not as_json:
            print(line)
    if failed or not found.agreed:
        raise typer.Exit(FAILED)


def _none_of(given: Mapping[str, Path | None], why: str) -> None:
    """Refuses options that go with the other kind of FILE."""
    for option, value in given.items():
        if value is not None:
            refuse(f"{option}: {why}")


def _check(files: FigureExport | None) -> None:
    """Refuses what is no figure of both clocks, before anything runs."""
    if files is not None:
        from bentpipe.engine_validation.figures import KEYS

        with options():
            files.check(KEYS)


def _drawn(found: EngineComparison, page: Path | None, files: FigureExport | None) -> Iterator[str]:
    """Writes page and figures, and says where they are."""
    if page is not None:
        from bentpipe.engine_validation.page import write_page

        yield f"page: {write_page(found, page)}"
    if files is not None:
        from bentpipe.engine_validation.figures import figures

        with options():
            yield from map(str, files.write(figures(found)))


def say_failures(reports: tuple[ExecutionSummary, ...]) -> bool:
    """Names runs that failed, on standard error."""
    failures = [failure for report in reports for failure in report.failed]
    for failure in failures[:10]:
        print(f"{failure.word}: {failure.run}: {failure.error}\n  again: {failure.replay}", file=sys.stderr)
    return bool(failures)
