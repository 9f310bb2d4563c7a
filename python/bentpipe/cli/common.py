"""What the commands share: words of the command line, refusals, plans."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    "suggest_pack",
]

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

ScenarioFile = Annotated[Path, typer.Argument(metavar="FILE", help="a scenario (TOML)")]
StoreDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="a store")]
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
        "--controller", metavar="NAME=FILE.py:CLASS", help="a congestion controller of one's own; repeatable"
    ),
]
HarPage = Annotated[
    str | None,
    typer.Option(
        "--har-page", metavar="N|ID", help="of a HAR file with several pages or runs [default: the first]"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, metavar="N", help="this many seeds, not the scenario's")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, metavar="N", help="worker processes; default: one a processor (in real time: 1)"
    ),
]

Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold", metavar="[METRIC=]SHARE", help="smallest change that counts [1 %]; repeatable"
    ),
]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", metavar="NAME", help="compare this metric only; repeatable")
]


def not_made(report: ExecutionSummary) -> str:
    """How many runs failed, and for how many the machine was too late."""
    words = [failure.word for failure in report.failed]
    return "".join(f"; {words.count(word)} {word}" for word in ("failed", "late") if word in words)


@contextmanager
def interruptible() -> Iterator[None]:
    """Says on standard error what Ctrl-C left of a session, and how it goes on."""
    from bentpipe.runners.observed import InterruptedExecution

    try:
        yield
    except InterruptedExecution as left:
        print(f"\ninterrupted: {left}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def options(**others: str) -> Iterator[None]:
    """Says what is wrong with an argument of its option; ``others`` are arguments whose word is not ``--NAME``."""
    from bentpipe.scenario.errors import NO_FILE, SOURCE_ARGUMENT, ScenarioError

    try:
        yield
    except ScenarioError as error:
        if error.source != SOURCE_ARGUMENT:
            raise
        said = [(others.get(key, f"--{key}" if key else ""), text) for key, text in error.problems]
        raise ScenarioError(said, NO_FILE) from None


def refuse(message: str) -> NoReturn:
    """Says ``message`` and ends with exit status 2."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(BAD_INPUT)


def folder(out: Path | None, option: str = "--out") -> None:
    """Refuses an ``option``'s folder where it is a file, before anything is worked out."""
    if out is not None and out.exists() and not out.is_dir():
        refuse(f"{option}: {out} is a file, expected a folder")


def read_plan(
    file: Path,
    settings: list[str] | None,
    seeds: int | None,
    clock: str = "sim",
    *,
    sweeps: Sequence[str] | None = None,
    own: Mapping[str, type] | None = None,
    options: Sequence[str] = (),
) -> Plan:
    """The plan of a scenario with ``--set``, ``--sweep`` and ``--seeds``, for virtual or real time (``emu``).

    ``own`` are controllers of the command line, and ``options`` its words for them.

    Raises:
        ScenarioError: what is wrong, or what real time cannot have.
    """
    from dataclasses import replace

    from bentpipe.api.plan import plan_document
    from bentpipe.api.user_code import fingerprint
    from bentpipe.cli.console import patience
    from bentpipe.plan.document import load_scenario
    from bentpipe.scenario.sweep import format_override, parse_override, parse_sweep

    given = [(parse_override(text), text) for text in settings or ()]
    given += [(one, format_override(*one)) for one in map(parse_sweep, sweeps or ())]
    document = load_scenario(file, [one for one, _ in given], [text for _, text in given])
    plan = plan_document(
        replace(document, options=tuple(options)),
        seeds=seeds,
        engine="emu" if clock == "emu" else "sim",
        fingerprints={name: fingerprint(kind) for name, kind in own.items()} if own else None,
        on_cell=patience(),
    )
    _say(plan)
    return plan


def _say(plan: Plan) -> None:
    """What is in order and yet hardly meant, on standard error."""
    from bentpipe.plan.analysis.lint import lint_plan

    for remark in lint_plan(plan):
        print(f"note: {remark.line(plan.document.name)}", file=sys.stderr)


MOST_UNPACKED = 5_000
"""Directories of runs in a store above which packing them is suggested: opening it takes seconds then."""


def suggest_pack(directory: Path) -> None:
    """Say on standard error that ``bentpipe pack`` would help, where a store has many runs that are not packed."""
    try:
        unpacked = sum(1 for _ in os.scandir(directory / "runs"))
    except OSError:
        return
    if unpacked > MOST_UNPACKED:
        what = f"{directory} has {unpacked:,} runs that are not packed"
        why = f"bentpipe pack {directory} makes it smaller and faster to read"
        print(f"note: {what}; {why}", file=sys.stderr)


def count(things: Sequence[object] | int, what: str) -> str:
    """A number of things: ``1 run``, ``2 runs``."""
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {what}" + ("" if number == 1 else "s")
