"""``run``."""

from __future__ import annotations

import re
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
    suggest_pack,
)
from bentpipe.scenario.errors import unknown_name

if TYPE_CHECKING:
    from bentpipe.runners.execute import ExecutionSummary

__all__ = ["Engine", "known_engine", "run"]

Engine = Annotated[
    str,
    typer.Option("--engine", metavar="|".join(ENGINES), help="virtual time, or real time on this machine"),
]


def known_engine(engine: str) -> None:
    """Refuses what is none."""
    if engine not in ENGINES:
        refuse(f"--engine: {unknown_name(engine, ENGINES, 'engine')}")


def run(
    file: ScenarioFile,
    settings: Settings = None,
    sweeps: Sweeps = None,
    controllers: Controllers = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="the store; default: out/FILE's name")
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="dask://HOST:PORT", help="run on a Dask cluster")
    ] = None,
    engine: Engine = "sim",
    seeds: Seeds = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="only this run; repeatable")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario into a store. The same command resumes what was interrupted."""
    from bentpipe.api.engine_choice import create_runner
    from bentpipe.api.user_code import import_path, load_controllers
    from bentpipe.cli.console import emit, watch
    from bentpipe.runners.execute import REAL_TIME
    from bentpipe.runners.observed import execute

    known_engine(engine)
    if engine == "emu" and on is not None:
        refuse("--on: found a cluster beside --engine emu, which runs on this machine")
    if on is not None and jobs is not None:
        refuse("--jobs: found beside --on, whose workers have a number of their own; expected one of them")
    if controllers and (engine == "emu" or on is not None):
        where = (
            "--engine emu, which runs with those it has"
            if engine == "emu"
            else "--on, whose workers lack its file"
        )
        refuse(f"--controller: found beside {where}")
    own = load_controllers(controllers or ())
    words = [word for one in controllers or () for word in ("--controller", one)]
    plan = read_plan(file, settings, seeds, engine, sweeps=sweeps, own=own, options=words)
    ids = [one.id for one in plan.runs]
    for wrong in [one for one in only or [] if one not in ids]:
        refuse(f"--only: no run {wrong} in this plan of {count(ids, 'run')}")
    target = out or Path("out") / (file.stem if engine == "sim" else f"{file.stem}-{engine}")
    if on is not None and not re.fullmatch(r"dask://[^/:]+:\d+|dask://\[[0-9a-fA-F:]+\]:\d+", on):
        refuse(f'--on: found "{on}", expected dask://HOST:PORT')
    places = {name: place for name, kind in own.items() if (place := import_path(kind)) is not None}
    runner = create_runner(engine, jobs, on, places)
    where = on or ("local" if engine == "sim" else REAL_TIME)
    with interruptible():
        report = execute(plan, runner, target, only=only or (), watch=watch(quiet=as_json), where=where)
    if as_json:
        emit(_report_rows(report))
    else:
        _print_report(report)
    suggest_pack(target)
    if report.failed:
        raise typer.Exit(FAILED)


def _report_rows(report: ExecutionSummary) -> dict[str, Any]:
    return {
        "store": str(report.store),
        "planned": report.planned,
        "kept": report.kept,
        "done": report.done,
        **{
            word: [
                {"run": f.run, "error": f.error, "replay": f.replay} for f in report.failed if f.word == word
            ]
            for word in ("failed", "late")
        },
        "damaged": [{"run": run, "error": error} for run, error in report.damaged.items()],
        "seconds": round(report.seconds, 3),
        "packets": report.packets,
    }


def _print_report(report: ExecutionSummary) -> None:
    kept = f" ({report.kept} were there already)" if report.kept else ""
    print(
        f"{report.done + report.kept} of {report.planned} runs in {report.store}{kept}, {report.seconds:.1f} s"
        f"{not_made(report)}"
    )
    if report.refused:
        print(f"nothing to do: {report.store} is whole, and cannot be written ({report.refused})")
    for failure in report.failed[:10]:
        print(f"{failure.word}: {failure.run}: {failure.error}\n  again: {failure.replay}", file=sys.stderr)
    if len(report.failed) > 10:
        print(f"... and {len(report.failed) - 10} more: see journal.jsonl", file=sys.stderr)
