"""Command ``compare-builds``: comparison of two builds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.common import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    Controllers,
    Metrics,
    Seeds,
    Settings,
    Sweeps,
    Thresholds,
    options,
    refuse,
)
from bentpipe.cli.shell import TrailingCommand

if TYPE_CHECKING:
    from bentpipe.build_comparison.result import BuildComparison
    from bentpipe.metrics.compare import Criteria

__all__ = ["CompareBuildsCommand", "compare_builds"]

MIN_RUNS = 5
"""Minimum number of rounds of a program: a verdict needs as many pairs
(:data:`bentpipe.metrics.compare.MIN_SEEDS`)."""

UNDECIDED = 3
"""Exit status without a regression if a comparison of the primary metric has no verdict."""

_COMMAND = "bentpipe.command"
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


class CompareBuildsCommand(TrailingCommand):
    """Command line of a scenario, or of an access and a command after ``--``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before ``--``; the context stores the command after it."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[at + 1 :] if at < len(args) else None
        return super().parse_args(ctx, args[:at])


def compare_builds(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(metavar="FILE | ACCESS -- CMD...", help="scenario, or access network and command"),
    ],
    before: Annotated[
        str,
        typer.Option(
            metavar="BUILD",
            help="virtual environment, engine (.so), store, or controller (FILE.py:CLASS); with CMD: value of {}",
        ),
    ],
    after: Annotated[
        str | None, typer.Option(metavar="BUILD", help="second build [default without CMD: this bentpipe]")
    ] = None,
    thresholds: Thresholds = None,
    metrics: Metrics = None,
    confidence: Annotated[str, typer.Option(metavar="SHARE", help="confidence level")] = "95 %",
    settings: Settings = None,
    sweeps: Sweeps = None,
    controllers: Controllers = None,
    seeds: Seeds = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="worker processes [default: one per processor]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="directory of both stores [default: out/compare-builds-NAME]"
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=MIN_RUNS, metavar="N", help="number of rounds, with CMD [default: 10]")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="warm-up rounds, with CMD [default: 1]"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="time limit of a run, with CMD [default: 60 s]")
    ] = None,
    server: Annotated[
        str | None, typer.Option(metavar="CMD", help="server command, with CMD; {} is the build")
    ] = None,
    server_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, metavar="PORT", help="port of the server, which must be open before CMD starts"
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"write Markdown; ${_STEP_SUMMARY} gets it too"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Compare two builds.

    The workload is a scenario, or a program over an access. Exit status 1 if the second build is worse, 3 if a
    comparison of the primary metric has no verdict.
    """
    from bentpipe.build_comparison.markdown import headline_text, markdown
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.change_table import format_rows, rows
    from bentpipe.store.files import write_atomic

    if summary is not None and (summary.is_dir() or not summary.absolute().parent.is_dir()):
        refuse(f"--summary: {summary} cannot be written, expected a file in an existing directory")
    command: list[str] | None = context.meta[_COMMAND]
    level = _parse_level(confidence)
    if command is None:
        _reject_unused("requires a command after --", runs=runs, warmup=warmup, timeout=timeout, server=server,
                server_port=server_port)  # fmt: skip
        options_of_scenario = {"--set": settings, "--sweep": sweeps, "--controller": controllers}
        arguments = [
            word
            for option, texts in options_of_scenario.items()
            for text in texts or ()
            for word in (option, text)
        ]
        arguments += ["--seeds", str(seeds)] if seeds is not None else []
        comparison = _compare_engines(
            Path(subject), before, after, out, arguments, jobs, level, (thresholds, metrics)
        )
    else:
        _reject_unused("cannot be combined with a command, which runs in emulation", sweep=sweeps,
                controller=controllers, seeds=seeds, jobs=jobs, out=out)  # fmt: skip
        run_counts = (10 if runs is None else runs, 1 if warmup is None else warmup)
        workload = (command, server or "", server_port, timeout or "60 s")
        comparison = _compare_programs(
            subject, before, after, workload, run_counts, settings, level, (thresholds, metrics)
        )
    title = f"{subject}: {comparison.before.word} → {comparison.after.word}"
    text = markdown(
        title,
        comparison,
        f"Paired t-tests; intervals of {confidence}, p-values corrected by Holm's procedure.",
    )
    if summary is not None:
        write_atomic(summary, text.encode())
    if place := os.environ.get(_STEP_SUMMARY):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text)
    messages = [headline_text(comparison.comparison), *comparison.notes()]
    if as_json:
        emit(
            {
                "worse": comparison.worse,
                "undecided": comparison.undecided,
                "messages": messages,
                "changes": rows(comparison.comparison.changes),
            }
        )
    else:
        print_table(
            format_rows(comparison.comparison),
            f"{title} (means over pairs; changes with {confidence} confidence intervals)",
        )
        print("\n".join(messages))
    if comparison.worse:
        raise typer.Exit(FAILED)
    if comparison.undecided:
        raise typer.Exit(UNDECIDED)


def _reject_unused(reason: str, **given: object) -> None:
    """Reject options without an effect."""
    for name, value in given.items():
        if value is not None:
            refuse(f"--{name.replace('_', '-')}: {reason}")


def _parse_level(text: str) -> float:
    from bentpipe.scenario.quantities import Probability, UnitError

    try:
        level = Probability.parse(text).value
    except UnitError as error:
        refuse(f"--confidence: {error}")
    if not MIN_LEVEL <= level <= MAX_LEVEL:
        refuse(f'--confidence: found "{text}", expected from 50 % to 99.9 %')
    return level


MIN_LEVEL, MAX_LEVEL = 0.5, 0.999
"""Range of the confidence level. With five pairs, the t interval of 99.9 % is three times as wide as that of
95 %."""


def _criteria(selection: tuple[list[str] | None, list[str] | None], known: list[str]) -> Criteria:
    from bentpipe.metrics.compare import Criteria

    thresholds, metrics = selection
    with options():
        return Criteria.parse(thresholds or (), metrics or (), known)


def _compare_engines(
    file: Path,
    before: str,
    after: str | None,
    out: Path | None,
    arguments: list[str],
    jobs: int | None,
    level: float,
    selection: tuple[list[str] | None, list[str] | None],
) -> BuildComparison:
    """Compare two builds with a scenario in simulation."""
    from bentpipe.build_comparison.build import build_of
    from bentpipe.build_comparison.scenario_pairs import BuildFailed, regress
    from bentpipe.metrics.compare import OF_STORES
    from bentpipe.scenario.errors import ScenarioError
    from bentpipe.store.files import StoreError

    if not file.is_file():
        refuse(f"{file}: no such file, expected a scenario; an access requires -- and a command after it")
    criteria = _criteria(selection, list(OF_STORES))
    try:
        with options():
            return regress(
                file, build_of("before", before), build_of("after", after),
                out or Path(f"out/compare-builds-{file.stem}"),
                options=arguments, jobs=jobs, confidence=level, criteria=criteria,
                tell=lambda text: print(text, file=sys.stderr),
            )  # fmt: skip
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ScenarioError, StoreError):
        raise
    except (BuildFailed, ValueError) as error:
        refuse(str(error))


def _compare_programs(
    access: str,
    before: str,
    after: str | None,
    workload: tuple[list[str], str, int | None, str],
    run_counts: tuple[int, int],
    settings: list[str] | None,
    level: float,
    selection: tuple[list[str] | None, list[str] | None],
) -> BuildComparison:
    """Compare two builds with a real program over an access."""
    from bentpipe.build_comparison.command_pairs import DeadlineMissedError, Workload, regress
    from bentpipe.cli.console import patience
    from bentpipe.lab.command_timing import CommandError
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.metrics.compare import OF_PROGRAMS
    from bentpipe.scenario.quantities import Duration, UnitError
    from bentpipe.scenario.sweep import parse_override

    if after is None:
        refuse("--after: missing, expected the second value of {} in the command")
    command, server, server_port, timeout = workload
    try:
        timeout_s = Duration.parse(timeout).ns / 1e9
    except UnitError as error:
        refuse(f"--timeout: {error}")
    criteria = _criteria(selection, list(OF_PROGRAMS))
    overrides = [parse_override(text) for text in settings or ()]
    try:
        return regress(
            access, before, after, Workload(command, server, server_port, timeout_s), runs=run_counts[0],
            warmup=run_counts[1],
            overrides=overrides, confidence=level, criteria=criteria, each=patience("comparing", "rounds"),
        )  # fmt: skip
    except (CommandError, DeadlineMissedError) as failed:
        print(f"error: {failed}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except InterruptedLab:
        raise typer.Exit(INTERRUPTED) from None
