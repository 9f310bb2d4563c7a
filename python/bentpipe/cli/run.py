"""Command ``run``."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.api.engine_choice import ENGINES
from bentpipe.cli.common import (
    FAILED,
    AsJson,
    Controllers,
    Jobs,
    ScenarioFile,
    Seeds,
    Settings,
    Sweeps,
    count,
    interruptible,
    not_made,
    read_plan,
    refuse,
    repetition_text,
)
from bentpipe.scenario.errors import unknown_name

if TYPE_CHECKING:
    from bentpipe.runners.execute import ExecutionSummary, RunFailure

__all__ = ["Engine", "known_engine", "run"]

Engine = Annotated[
    str,
    typer.Option(
        "--engine", metavar="|".join(ENGINES), help="simulation (sim) or emulation in real time (emu)"
    ),
]


def known_engine(engine: str) -> None:
    """Reject an unknown engine."""
    if engine not in ENGINES:
        refuse(f"--engine: {unknown_name(engine, ENGINES, 'engine')}")


def run(
    file: ScenarioFile,
    settings: Settings = None,
    sweeps: Sweeps = None,
    controllers: Controllers = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="store [default: out/NAME]")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="dask://HOST:PORT", help="run on a Dask cluster")
    ] = None,
    engine: Engine = "sim",
    seeds: Seeds = None,
    only: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="run only this one; repeatable")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario into a store. Rerun the command to resume an interrupted one."""
    from bentpipe.api.engine_choice import create_runner
    from bentpipe.api.user_code import import_path
    from bentpipe.cli.console import emit, watch
    from bentpipe.plan.flow.controllers import located_controllers
    from bentpipe.runners.execute import REAL_TIME, execute

    known_engine(engine)
    if engine == "emu" and cluster is not None:
        refuse("--cluster: cannot be combined with --engine emu, which runs on this host")
    if cluster is not None and jobs is not None:
        refuse("--jobs: cannot be combined with --cluster: the cluster determines the number of workers")
    if controllers and (engine == "emu" or cluster is not None):
        engine_or_cluster = (
            "--engine emu, which supports only built-in controllers"
            if engine == "emu"
            else "--cluster, whose workers lack its file"
        )
        refuse(f"--controller: cannot be combined with {engine_or_cluster}")
    plan, own = read_plan(file, settings, seeds, engine, sweeps=sweeps, controllers=controllers)
    if cluster is not None and (located := located_controllers(plan.document.data)):
        name, key = next(iter(located.items()))
        refuse(f"{key}: {name} cannot be combined with --cluster, whose workers lack its file")
    ids = [one.id for one in plan.runs]
    for unknown in [one for one in only or [] if one not in ids]:
        refuse(f"--run: no run {unknown} in this plan of {count(ids, 'run')}")
    directory = out or Path("out") / (file.stem if engine == "sim" else f"{file.stem}-{engine}")
    if cluster is not None and not re.fullmatch(r"dask://[^/:]+:\d+|dask://\[[0-9a-fA-F:]+\]:\d+", cluster):
        refuse(f'--cluster: found "{cluster}", expected dask://HOST:PORT')
    import_places = {name: place for name, kind in own.items() if (place := import_path(kind)) is not None}
    runner = create_runner(engine, jobs, cluster, import_places)
    engine_or_cluster = cluster or ("local" if engine == "sim" else REAL_TIME)
    with interruptible():
        summary = execute(
            plan, runner, directory, only=only or (), watch=watch(quiet=as_json), where=engine_or_cluster
        )
    if as_json:
        emit(_summary_data(summary))
    else:
        _print_summary(summary)
        if text := repetition_text(plan):
            print(f"runs: {text}")
        if sys.stderr.isatty() and summary.done + summary.reused:
            store = shlex.quote(str(directory))
            print(f"next: bentpipe show {store}\n      bentpipe report {store}", file=sys.stderr)
    if summary.done + summary.reused and (note := _unfinished(directory)):
        print(f"warning: {note}", file=sys.stderr)
    if summary.failed:
        raise typer.Exit(FAILED)


def _unfinished(store: Path) -> str:
    """Return the sentence on the unfinished transfers of a store; empty if the store is unreadable."""
    from bentpipe.figures.context import FigureContext
    from bentpipe.report.unfinished import unfinished_note
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import open_store

    try:
        return unfinished_note(FigureContext(open_store(store)))
    except StoreError:
        return ""  # the result of the command is that of its runs; `show` describes the damage


def _summary_data(report: ExecutionSummary) -> dict[str, Any]:
    return {
        "store": str(report.store),
        "planned": report.planned,
        "reused": report.reused,
        "done": report.done,
        **{
            word: [
                {"run": f.run, "error": f.error, "replay": f.replay} for f in report.failed if f.word == word
            ]
            for word in ("failed", "invalid")
        },
        "damaged": [{"run": run, "error": error} for run, error in report.damaged.items()],
        "seconds": round(report.seconds, 3),
        "packets": report.packets,
    }


def _print_summary(report: ExecutionSummary) -> None:
    reused = f" ({report.reused} from earlier runs)" if report.reused else ""
    print(
        f"{report.done + report.reused} of {report.planned} runs in {report.store}{reused}, {report.seconds:.1f} s"
        f"{not_made(report)}"
    )
    if report.refused:
        print(f"nothing to do: {report.store} is complete, and not writable ({report.refused})")
    by_error: dict[tuple[str, str], list[RunFailure]] = {}
    for failure in report.failed:
        by_error.setdefault((failure.word, failure.error), []).append(failure)
    for (word, error), failures in list(by_error.items())[:MAX_ERRORS]:
        first = failures[0]
        more = f" and {count(len(failures) - 1, 'more run')}" if len(failures) > 1 else ""
        print(f"{word}: {first.run}{more}: {error}\n  again: {first.replay}", file=sys.stderr)
    if len(by_error) > MAX_ERRORS:
        print(f"... and {len(by_error) - MAX_ERRORS} other errors: see journal.jsonl", file=sys.stderr)


MAX_ERRORS = 10
"""Largest number of different errors that ``run`` prints."""
