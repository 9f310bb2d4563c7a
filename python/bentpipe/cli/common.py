"""What the commands share: words of the command line, refusals, plans."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.plan.runs import Plan
    from bentpipe.runners.conduct import Report

__all__ = [
    "BAD_INPUT",
    "FAILED",
    "INTERRUPTED",
    "AsJson",
    "Jobs",
    "ScenarioFile",
    "Seeds",
    "Settings",
    "StoreDirectory",
    "count",
    "folder",
    "interruptible",
    "not_made",
    "options",
    "read_plan",
    "refuse",
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


def not_made(report: Report) -> str:
    """How many runs failed, and for how many the machine was too late."""
    words = [failure.word for failure in report.failed]
    return "".join(f"; {words.count(word)} {word}" for word in ("failed", "late") if word in words)


@contextmanager
def interruptible() -> Iterator[None]:
    """Says on standard error what Ctrl-C left of a session, and how it goes on."""
    from bentpipe.runners.session import Interrupted

    try:
        yield
    except Interrupted as left:
        print(f"\ninterrupted: {left}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def options(**others: str) -> Iterator[None]:
    """Says what is wrong with an argument of its option; ``others`` are arguments whose word is not ``--NAME``."""
    from bentpipe.scenario.problems import ARGUMENT, NO_FILE, ScenarioError

    try:
        yield
    except ScenarioError as error:
        if error.source != ARGUMENT:
            raise
        said = [(others.get(key, f"--{key}" if key else ""), text) for key, text in error.problems]
        raise ScenarioError(said, NO_FILE) from None


def refuse(message: str) -> NoReturn:
    """Says ``message`` and ends with exit status 2."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(BAD_INPUT)


def folder(out: Path | None) -> None:
    """Refuses ``--out`` where it is a file, before anything is worked out."""
    if out is not None and out.exists() and not out.is_dir():
        refuse(f"--out: {out} is a file, expected a folder")


def read_plan(file: Path, settings: list[str] | None, seeds: int | None, clock: str = "sim") -> Plan:
    """The plan of a scenario with ``--set`` and ``--seeds``, for virtual or real time (``emu``).

    Raises:
        ScenarioError: what is wrong, or what real time cannot have.
    """
    from bentpipe.api.planning import planned
    from bentpipe.cli.terminal import patience
    from bentpipe.plan.document import open_document
    from bentpipe.scenario.sweep import parse_override

    given = settings or []
    document = open_document(file, [parse_override(text) for text in given], given)
    plan = planned(document, seeds=seeds, engine="emu" if clock == "emu" else "sim", each=patience())
    _say(plan)
    return plan


def _say(plan: Plan) -> None:
    """What is in order and yet hardly meant, on standard error."""
    from bentpipe.plan.remarks import remarks

    for remark in remarks(plan):
        print(f"note: {remark.line(plan.document.name)}", file=sys.stderr)


def count(things: Sequence[object] | int, what: str) -> str:
    """A number of things: ``1 run``, ``2 runs``."""
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {what}" + ("" if number == 1 else "s")
