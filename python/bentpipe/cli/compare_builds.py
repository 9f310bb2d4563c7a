"""``regress``: two builds do the same, and the second is worse or not."""

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
from bentpipe.cli.shell import BeforeCommand

if TYPE_CHECKING:
    from bentpipe.build_comparison.result import BuildComparison
    from bentpipe.metrics.compare import Criteria

__all__ = ["RegressCommand", "regress"]

MIN_RUNS = 5
"""Rounds of a program: as many pairs as a verdict takes (:data:`bentpipe.metrics.compare.MIN_SEEDS`)."""

_COMMAND = "bentpipe.command"
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


class RegressCommand(BeforeCommand):
    """A scenario; or an access, and behind ``--`` the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever, without the command, which the context keeps."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[at + 1 :] if at < len(args) else None
        return super().parse_args(ctx, args[:at])


def regress(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE | ACCESS -- CMD...", help="a scenario; or a preset or path, and a command"
        ),
    ],
    before: Annotated[
        str,
        typer.Option(
            metavar="BUILD",
            help="a virtual environment, an engine (.so), NAME=FILE.py:CLASS, a store; with CMD what {} stands for",
        ),
    ],
    after: Annotated[
        str | None, typer.Option(metavar="BUILD", help="the other; without CMD default: this bentpipe")
    ] = None,
    thresholds: Thresholds = None,
    metrics: Metrics = None,
    confidence: Annotated[str, typer.Option(metavar="SHARE", help="level of the intervals")] = "95 %",
    settings: Settings = None,
    sweeps: Sweeps = None,
    controllers: Controllers = None,
    seeds: Seeds = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="worker processes; default: one a processor")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="of both stores; default: out/regress-FILE's name"),
    ] = None,
    runs: Annotated[int | None, typer.Option(min=MIN_RUNS, metavar="N", help="with CMD: rounds [10]")] = None,
    warmup: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="with CMD: rounds before them that do not count [1]"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="with CMD: longest that it may take [60 s]")
    ] = None,
    server: Annotated[
        str | None, typer.Option(metavar="CMD", help="with CMD: a service at the far end, {} for the build")
    ] = None,
    listens: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="PORT", help="of the service: it is waited for")
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"the answer in Markdown; also added to ${_STEP_SUMMARY}"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Compare two builds. A scenario, or a program behind an access; exit status 1 when the second is worse."""
    from bentpipe.build_comparison.markdown import headline_text, markdown
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.change_table import format_rows, rows
    from bentpipe.store.files import write_atomic

    if summary is not None and (summary.is_dir() or not summary.absolute().parent.is_dir()):
        refuse(f"--summary: {summary} cannot be written, expected a file in a folder that is there")
    command: list[str] | None = context.meta[_COMMAND]
    level = _level(confidence)
    if command is None:
        _unused("without a command behind --", runs=runs, warmup=warmup, timeout=timeout, server=server,
                listens=listens)  # fmt: skip
        given = {"--set": settings, "--sweep": sweeps, "--controller": controllers}
        words = [word for option, texts in given.items() for text in texts or () for word in (option, text)]
        words += ["--seeds", str(seeds)] if seeds is not None else []
        found = _engines(Path(what), before, after, out, words, jobs, level, (thresholds, metrics))
    else:
        _unused("beside a command, which runs in real time", sweep=sweeps, controller=controllers, seeds=seeds,
                jobs=jobs, out=out)  # fmt: skip
        rounds = (10 if runs is None else runs, 1 if warmup is None else warmup)
        work = (command, server or "", listens, timeout or "60 s")
        found = _programs(what, before, after, work, rounds, settings, level, (thresholds, metrics))
    title = f"{what}: {found.before.word} → {found.after.word}"
    text = markdown(
        title, found, f"Paired t-tests; intervals of {confidence}, p-values corrected by Holm's procedure."
    )
    if summary is not None:
        write_atomic(summary, text.encode())
    if place := os.environ.get(_STEP_SUMMARY):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text)
    answer = [headline_text(found.comparison), *found.notes()]
    if as_json:
        emit({"worse": found.worse, "said": answer, "changes": rows(found.comparison.changes)})
    else:
        print_table(
            format_rows(found.comparison),
            f"{title} (means over pairs; changes with their {confidence} intervals)",
        )
        print("\n".join(answer))
    if found.worse:
        raise typer.Exit(FAILED)


def _unused(where: str, **given: object) -> None:
    """Refuses options that say nothing there."""
    for name, value in given.items():
        if value is not None:
            refuse(f"--{name}: found {where}")


def _level(text: str) -> float:
    from bentpipe.scenario.quantities import Probability, UnitError

    try:
        level = Probability.parse(text).value
    except UnitError as error:
        refuse(f"--confidence: {error}")
    if not LEAST_LEVEL <= level <= MOST_LEVEL:
        refuse(f'--confidence: found "{text}", expected from 50 % to 99.9 %')
    return level


LEAST_LEVEL, MOST_LEVEL = 0.5, 0.999
"""Levels of intervals. Of five pairs, Student's interval at 99.9 % is three times as wide as at 95 %."""


def _criteria(asked: tuple[list[str] | None, list[str] | None], known: list[str]) -> Criteria:
    from bentpipe.metrics.compare import Criteria

    thresholds, metrics = asked
    with options():
        return Criteria.parse(thresholds or (), metrics or (), known)


def _engines(
    file: Path,
    before: str,
    after: str | None,
    out: Path | None,
    words: list[str],
    jobs: int | None,
    level: float,
    asked: tuple[list[str] | None, list[str] | None],
) -> BuildComparison:
    """A scenario in virtual time."""
    from bentpipe.build_comparison.build import build_of
    from bentpipe.build_comparison.scenario_pairs import BuildFailed, regress
    from bentpipe.metrics.compare import OF_STORES
    from bentpipe.scenario.errors import ScenarioError
    from bentpipe.store.files import StoreError

    if not file.is_file():
        refuse(f"{file}: no such file, expected a scenario; of an access, -- and a command stand behind it")
    criteria = _criteria(asked, list(OF_STORES))
    try:
        with options():
            return regress(
                file, build_of("before", before), build_of("after", after), out or Path(f"out/regress-{file.stem}"),
                options=words, jobs=jobs, confidence=level, criteria=criteria,
                tell=lambda text: print(text, file=sys.stderr),
            )  # fmt: skip
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ScenarioError, StoreError):
        raise
    except (BuildFailed, ValueError) as error:
        refuse(str(error))


def _programs(
    access: str,
    before: str,
    after: str | None,
    work: tuple[list[str], str, int | None, str],
    rounds: tuple[int, int],
    settings: list[str] | None,
    level: float,
    asked: tuple[list[str] | None, list[str] | None],
) -> BuildComparison:
    """A real program behind an access."""
    from bentpipe.build_comparison.command_pairs import DeadlineMissedError, Workload, regress
    from bentpipe.cli.console import patience
    from bentpipe.lab.command_timing import CommandError
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.metrics.compare import OF_PROGRAMS
    from bentpipe.scenario.quantities import Duration, UnitError
    from bentpipe.scenario.sweep import parse_override

    if after is None:
        refuse("--after: missing, expected what {} in the command stands for the second time")
    command, server, listens, timeout = work
    try:
        longest = Duration.parse(timeout).ns / 1e9
    except UnitError as error:
        refuse(f"--timeout: {error}")
    criteria = _criteria(asked, list(OF_PROGRAMS))
    overrides = [parse_override(text) for text in settings or ()]
    try:
        return regress(
            access, before, after, Workload(command, server, listens, longest), runs=rounds[0], warmup=rounds[1],
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
