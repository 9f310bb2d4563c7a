"""Options, errors and plans that commands share."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import ExecutionSummary

__all__ = [
    "BAD_INPUT",
    "FAILED",
    "INTERRUPTED",
    "AsJson",
    "Controllers",
    "HarPage",
    "Jobs",
    "Metrics",
    "ScenarioFile",
    "Seeds",
    "Settings",
    "StoreDirectories",
    "StoreDirectory",
    "Sweeps",
    "Thresholds",
    "count",
    "folder",
    "interruptible",
    "not_made",
    "options",
    "read_plan",
    "refuse",
    "repetition_text",
]

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

ScenarioFile = Annotated[Path, typer.Argument(metavar="FILE", help="scenario (TOML)")]
StoreDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="store")]
StoreDirectories = Annotated[list[Path], typer.Argument(metavar="DIR...", help="store; several side by side")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="set a dotted key of the scenario; repeatable"),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option("--sweep", metavar="KEY=A,B", help="sweep a dotted key over these values; repeatable"),
]
Controllers = Annotated[
    list[str] | None,
    typer.Option(
        "--controller",
        metavar="[NAME=]FILE.py:CLASS",
        help="user-supplied congestion controller, or NAME=CONTROLLER; repeatable",
    ),
]
HarPage = Annotated[
    str | None,
    typer.Option("--har-page", metavar="N|ID", help="page or run of a HAR file [default: the first]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, metavar="N", help="number of seeds, instead of the scenario's")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, metavar="N", help="worker processes [default: one per processor; emulation: 1]"
    ),
]

Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold", metavar="[METRIC=]SHARE", help="smallest relevant change [default: 1 %]; repeatable"
    ),
]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", metavar="NAME", help="compare only this metric; repeatable")
]


def not_made(report: ExecutionSummary) -> str:
    """Return the numbers of failed and invalid runs as text."""
    kinds = [failure.word for failure in report.failed]
    return "".join(f"; {kinds.count(kind)} {kind}" for kind in ("failed", "invalid") if kind in kinds)


@contextmanager
def interruptible() -> Iterator[None]:
    """Report on standard error what remains after Ctrl-C and how to resume; exit with status 130."""
    from bentpipe.runners.execute import InterruptedExecution

    try:
        yield
    except InterruptedExecution as interruption:
        print(f"\ninterrupted: {interruption}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def options(**option_names: str) -> Iterator[None]:
    """Report an invalid function argument under the name of its option.

    Args:
        **option_names: names of arguments whose option is not ``--NAME``, with that option.
    """
    from bentpipe.scenario.errors import NO_FILE, SOURCE_ARGUMENT, ScenarioError

    try:
        yield
    except ScenarioError as error:
        if error.source != SOURCE_ARGUMENT:
            raise
        problems = [(option_names.get(key, f"--{key}" if key else ""), text) for key, text in error.problems]
        raise ScenarioError(problems, NO_FILE) from None


def refuse(message: str) -> NoReturn:
    """Print ``message`` as an error and exit with status 2."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(BAD_INPUT)


def folder(out: Path | None, option: str = "--out") -> None:
    """Reject an ``option`` whose directory is a file, before any computation."""
    if out is not None and out.exists() and not out.is_dir():
        refuse(f"{option}: {out} is a file, expected a folder")


def read_plan(
    file: Path,
    settings: list[str] | None,
    seeds: int | None,
    clock: str = "sim",
    *,
    sweeps: Sequence[str] | None = None,
    controllers: Sequence[str] | None = None,
) -> tuple[Plan, dict[str, type]]:
    """Return the plan of a scenario with ``--set``, ``--sweep`` and ``--seeds``, and its user-supplied controllers.

    Args:
        file: the scenario.
        settings: values of ``--set``.
        seeds: number of seeds; None: as in the scenario.
        clock: engine: ``sim`` or ``emu``.
        sweeps: values of ``--sweep``.
        controllers: values of ``--controller``.

    Raises:
        ScenarioError: the scenario is invalid, or emulation does not support it.
    """
    from dataclasses import replace

    from bentpipe.api.plan import plan_document
    from bentpipe.api.user_code import controller_aliases, fingerprint, load_controllers, scenario_controllers
    from bentpipe.cli.console import patience
    from bentpipe.plan.document import load_scenario
    from bentpipe.scenario.sweep import format_override, parse_override, parse_sweep

    own = load_controllers(controllers or ())
    words = tuple(word for text in controllers or () for word in ("--controller", text))
    given = [(parse_override(text), text) for text in settings or ()]
    given += [(override, format_override(*override)) for override in map(parse_sweep, sweeps or ())]
    document = load_scenario(file, [override for override, _ in given], [text for _, text in given])
    with options(controllers="--controller"):
        plan = plan_document(
            replace(document, options=words, controllers=controller_aliases(controllers or ())),
            seeds=seeds,
            engine="emu" if clock == "emu" else "sim",
            fingerprints={name: fingerprint(kind) for name, kind in own.items()} if own else None,
            on_cell=patience(),
        )
    _print_warnings(plan)
    return plan, own | scenario_controllers(plan.document)


def _print_warnings(plan: Plan) -> None:
    """Print lint warnings on standard error: settings that are valid but probably wrong."""
    from bentpipe.plan.analysis.lint import lint_plan

    for message in lint_plan(plan):
        print(f"warning: {message.line(plan.document.name)}", file=sys.stderr)


def repetition_text(plan: Plan) -> str:
    """Return how the number of runs follows from cells and seeds; empty if each cell has every seed."""
    once = sum(len(cell.seeds) == 1 for cell in plan.cells)
    repeated = len(plan.cells) - once
    if plan.seeds == 1 or not once or not repeated:
        return ""
    return (
        f"{count(repeated, 'cell')} × {plan.seeds} seeds + {count(once, 'cell')} × 1: "
        "without random inputs all seeds give the same run"
    )


def count(items: Sequence[object] | int, noun: str) -> str:
    """Return a number of things: ``1 run``, ``2 runs``."""
    number = items if isinstance(items, int) else len(items)
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
