"""Command ``agree``: comparison of simulation and emulation of a scenario."""

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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="scenario (TOML) or directory of scenarios")],
    settings: Settings = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="store of the simulation [default: out/NAME]; the emulation is in DIR-emu",
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="write an HTML page with figures")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--summary", metavar="FILE", help="write the validation table (Markdown), for a directory"
        ),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(
            "--archive", metavar="FILE", help="write the stores as an archive (tar.xz), for a directory"
        ),
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="use finished runs only")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario in simulation and emulation and compare the results.

    Exit status 0 if all differences are within their bounds.
    """
    from bentpipe.cli.console import answer, emit, print_table, watch

    files = figure_options.files(figures, only, forms, width, no_title)
    if file.is_dir():
        _reject_options(
            {"--report": page, "--figures": figures}, f"requires one scenario, found the folder {file}"
        )
        from bentpipe.engine_validation.summary_table import write_summary

        directory = out or Path("out") / file.resolve().name
        with interruptible():
            output = write_summary(
                file, settings or [], seeds, jobs, directory,
                table=table, archive=publish, as_is=no_run, watch=watch(quiet=as_json),
            )  # fmt: skip
        answer(output, as_json=as_json)
        raise typer.Exit(0 if output.good else FAILED)
    _reject_options(
        {"--summary": table, "--archive": publish}, f"requires a folder of scenarios, found {file}"
    )
    from bentpipe.engine_validation.compare import compare_engines, format_rows
    from bentpipe.engine_validation.run_both import plan_engines, run_both
    from bentpipe.scenario.sweep import parse_override
    from bentpipe.store.files import EmptyStoreError
    from bentpipe.store.journal import host_summary

    _check_figures(files)
    setting_texts = settings or []
    directory = out or Path("out") / file.stem
    engines = plan_engines(
        file, directory, [parse_override(text) for text in setting_texts], setting_texts, seeds
    )
    try:
        summaries = () if no_run else run_both(engines, jobs, watch(quiet=as_json))
    except KeyboardInterrupt:
        print("\ninterrupted: rerun the command to resume", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    failed = print_failures(summaries)
    try:
        comparison = compare_engines(*engines.stores)
    except EmptyStoreError:
        if failed:  # The failures are already printed.
            raise typer.Exit(FAILED) from None
        raise
    if as_json:
        emit(comparison.data())
    else:
        print_table(
            format_rows(comparison.rows),
            f"{comparison.title} (means; differences with 95 % confidence intervals)",
        )
        print(host_summary(engines.stores[1]))
        if comparison.undecided:
            print(
                f"{count(comparison.undecided, 'metric')} undecided; more seeds (--seeds N) narrow "
                "the intervals"
            )
    for line in _write_figures(comparison, page, files):
        if not as_json:
            print(line)
    if failed or not comparison.agreed:
        raise typer.Exit(FAILED)


def _reject_options(given: Mapping[str, Path | None], reason: str) -> None:
    """Reject options that require the other kind of FILE."""
    for option, value in given.items():
        if value is not None:
            refuse(f"{option}: {reason}")


def _check_figures(files: FigureExport | None) -> None:
    """Reject unknown figures before anything runs."""
    if files is not None:
        from bentpipe.engine_validation.figures import KEYS

        with options():
            files.check(KEYS)


def _write_figures(
    comparison: EngineComparison, page: Path | None, files: FigureExport | None
) -> Iterator[str]:
    """Write page and figures, and yield their paths."""
    if page is not None:
        from bentpipe.engine_validation.page import write_page

        yield f"page: {write_page(comparison, page)}"
    if files is not None:
        from bentpipe.engine_validation.figures import figures

        with options():
            yield from map(str, files.write(figures(comparison)))


def print_failures(summaries: tuple[ExecutionSummary, ...]) -> bool:
    """Print failed runs on standard error; return whether there are any."""
    failures = [failure for report in summaries for failure in report.failed]
    for failure in failures[:10]:
        print(f"{failure.word}: {failure.run}: {failure.error}\n  again: {failure.replay}", file=sys.stderr)
    return bool(failures)
