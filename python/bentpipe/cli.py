"""The command line. Exit status: 0 done, 1 a run failed (or got worse), 2 bad input.

Heavy libraries are imported by the command that needs them, so that ``bentpipe --help`` is quick.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan import Plan
    from bentpipe.runners.outcome import Runner
    from bentpipe.session import Report

__all__ = ["app", "main"]

app = typer.Typer(
    name="bentpipe",
    help="A laboratory for transport protocols over satellite paths.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

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
    int | None, typer.Option("--jobs", min=1, metavar="N", help="worker processes; default: one a processor")
]


class ExportFormat(StrEnum):
    """Formats of ``export``."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    ods = "ods"
    qlog = "qlog"
    pcapng = "pcapng"


def main() -> None:
    """The console script: errors of the user's become one message and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without the letters of a title shows question marks
    try:
        app()
    except (KeyboardInterrupt, BrokenPipeError):
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        # The kinds of error are imported only once there is one.
        status, message = _told(error)
        if os.environ.get("BENTPIPE_TRACEBACK"):
            raise
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(status) from None


def _told(error: Exception) -> tuple[int, str]:
    """Exit status and message of an error."""
    from bentpipe.problems import BrokenControllerError, ScenarioError
    from bentpipe.runners.outcome import RunnerError
    from bentpipe.store import DiskError, StoreError

    if isinstance(error, (DiskError, BrokenControllerError)):
        return FAILED, str(error)
    if isinstance(error, (ScenarioError, StoreError, RunnerError)):
        return BAD_INPUT, str(error)
    if isinstance(error, ImportError):
        return BAD_INPUT, f"{error}; `bentpipe doctor` says what is missing"
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        where = f"{error.filename}: " if error.filename else ""
        return FAILED if full else BAD_INPUT, f"{where}{error.strerror or error}"
    again = "BENTPIPE_TRACEBACK=1 before the same command shows where"
    return FAILED, f"a fault of bentpipe's: {type(error).__name__}: {error}; {again}"


def _refuse(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(BAD_INPUT)


def _plan(file: Path, settings: list[str] | None, seeds: int | None) -> Plan:
    from bentpipe.plan import make, open_document
    from bentpipe.runners import engine
    from bentpipe.sweep import parse_override

    given = settings or []
    document = open_document(file, [parse_override(text) for text in given], given)
    chosen = tuple(range(1, seeds + 1)) if seeds is not None else None
    return make(document, engine.version(), seeds=chosen, catalogue=engine.catalogue())


def _version(asked: bool) -> None:
    if asked:
        from bentpipe.runners import engine

        print(f"bentpipe {engine.version()}")
        raise typer.Exit


@app.callback()
def _everything(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="print the version of the engine"),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    file: ScenarioFile,
    settings: Settings = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="the store; default: out/FILE's name")
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="dask://HOST:PORT", help="run on a Dask cluster")
    ] = None,
    seeds: Seeds = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="only this run; repeatable")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario into a store. The same command resumes what was interrupted."""
    from bentpipe.session import conduct
    from bentpipe.store import Writer
    from bentpipe.terminal import emit, progress

    plan = _plan(file, settings, seeds)
    ids = [one.id for one in plan.runs]
    for wrong in [one for one in only or [] if one not in ids]:
        _refuse(f"--only: no run {wrong} in this plan of {len(ids)} runs")
    target = out or Path("out") / file.stem
    runner = _runner(on, jobs)
    with Writer(target, plan) as writer:
        wanted = writer.missing([one for one in plan.runs if not only or one.id in only])
        try:
            with progress(plan, wanted, quiet=as_json) as each:
                report = conduct(plan, runner, writer, only=only or (), each=each, where=on or "local")
        except KeyboardInterrupt:
            print(
                f"\ninterrupted: {writer.count()} of {len(ids)} runs are in {target}; "
                "the same command goes on from there",
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        emit(_report_rows(report))
    else:
        _print_report(report)
    if report.failed:
        raise typer.Exit(FAILED)


def _runner(on: str | None, jobs: int | None) -> Runner:
    if on is None:
        from bentpipe.runners.local import LocalRunner

        return LocalRunner(jobs)
    if not re.fullmatch(r"dask://[^/:]+:\d+|dask://\[[0-9a-fA-F:]+\]:\d+", on):
        _refuse(f'--on: found "{on}", expected dask://HOST:PORT')
    from bentpipe.runners import engine
    from bentpipe.runners.dask import DaskRunner

    runner = DaskRunner(on, engine.version())
    runner.check()
    return runner


def _report_rows(report: Report) -> dict[str, Any]:
    return {
        "store": str(report.store),
        "planned": report.planned,
        "kept": report.kept,
        "done": report.done,
        "failed": [{"run": f.run, "error": f.error, "replay": f.replay} for f in report.failed],
        "seconds": round(report.seconds, 3),
        "packets": report.packets,
    }


def _print_report(report: Report) -> None:
    kept = f" ({report.kept} were there already)" if report.kept else ""
    print(
        f"{report.done + report.kept} of {report.planned} runs in {report.store}{kept}, {report.seconds:.1f} s"
    )
    for failure in report.failed[:10]:
        print(f"failed: {failure.run}: {failure.error}\n  again: {failure.replay}", file=sys.stderr)
    if len(report.failed) > 10:
        print(f"... and {len(report.failed) - 10} more: see journal.jsonl", file=sys.stderr)


@app.command()
def check(
    file: ScenarioFile, settings: Settings = None, seeds: Seeds = None, as_json: AsJson = False
) -> None:
    """Say what is wrong with a scenario, or what follows from it. Nothing runs."""
    from dataclasses import asdict

    from bentpipe.bounds import bounds, estimate_seconds
    from bentpipe.runners.local import cores
    from bentpipe.sweep import describe
    from bentpipe.terminal import emit, print_table

    plan = _plan(file, settings, seeds)
    found = bounds(plan)
    estimate = estimate_seconds(plan, cores())
    if as_json:
        emit(
            {
                "title": plan.title,
                "engine": plan.engine,
                "cells": len(plan.cells),
                "runs": len(plan.runs),
                "link_seconds": plan.link_seconds,
                "estimated_seconds": round(estimate, 1),
                "bounds": [asdict(bound) for bound in found],
            }
        )
        return
    print(
        f"{plan.title}: {_count(plan.cells, 'cell')}, {_count(plan.runs, 'run')}, "
        f"{plan.link_seconds:,.0f} s of link time,"
    )
    print(f"about {max(estimate, 1):,.0f} s on {cores()} processors")
    by_bound: dict[tuple[Any, ...], list[str]] = {}
    for bound in found:
        row = {key: value for key, value in asdict(bound).items() if key != "cell"}
        by_bound.setdefault(tuple(row.items()), []).append(describe(bound.cell))
    rows = []
    for items, cells in by_bound.items():
        row = dict(items)
        rows.append(
            {
                "flow": row["flow"],
                "rate": None if row["rate_bit_s"] is None else row["rate_bit_s"] / 1e6,
                "least RTT": row["min_rtt_ms"],
                "BDP": row["bdp_bytes"],
                "queue": row["queue_bytes"],
                "packets": row["queue_packets"],
                "slow start": row["slow_start_s"],
                "goodput": None if row["goodput_bit_s"] is None else row["goodput_bit_s"] / 1e6,
                "cells": cells[0] if len(cells) == 1 else len(cells),
            }
        )
    print_table(
        rows,
        "What no run of it can beat",
        {
            "rate": "rate Mbit/s",
            "least RTT": "least RTT ms",
            "BDP": "BDP bytes",
            "queue": "queue bytes",
            "packets": "queue packets",
            "slow start": "slow start s",
            "goodput": "goodput ≤ Mbit/s",
        },
    )


def _count(things: Sequence[object], what: str) -> str:
    return f"{len(things):,} {what}" + ("" if len(things) == 1 else "s")


@app.command()
def show(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Print the summary of a store. Means over seeds, with their 95 % intervals."""
    from bentpipe.summary import summary_rows
    from bentpipe.terminal import emit, print_table

    title, rows = summary_rows(directory, numbers=as_json)
    if as_json:
        emit(rows)
    else:
        print_table(rows, title)


@app.command()
def query(
    directory: StoreDirectory, sql: Annotated[str, typer.Argument(metavar="SQL")], as_json: AsJson = False
) -> None:
    """Ask a store in SQL. One view a table (runs, summary, flows, links...) with run, seed and the sweep's keys."""
    import duckdb

    from bentpipe.store import Store
    from bentpipe.terminal import emit, print_table

    connection = Store(directory).connect()
    try:
        connection.execute(sql)
        names = _once([column[0] for column in connection.description or []])
        rows = [dict(zip(names, row, strict=True)) for row in connection.fetchall()] if names else []
    except (duckdb.Error, RuntimeError) as error:
        _refuse(str(error))
    if as_json:
        emit(rows)
    else:
        print_table(rows)


def _once(names: Sequence[str]) -> list[str]:
    """Names of columns, with a number behind those that are there already."""
    unlike: list[str] = []
    for name in names:
        count = itertools.count(2)
        fresh = name
        while fresh in unlike:
            fresh = f"{name}_{next(count)}"
        unlike.append(fresh)
    return unlike


@app.command()
def export(
    directory: StoreDirectory,
    form: Annotated[ExportFormat, typer.Option("--format", "-f", help="what to write")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="PATH", help="where; default: beside DIR")
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="F.ods", help="a spreadsheet whose data sheets to fill")
    ] = None,
) -> None:
    """Write a store in another format. CSV, Parquet, JSON, a spreadsheet, or the traces it holds."""
    from bentpipe.export import export as write
    from bentpipe.store import Store

    if template is not None and form is not ExportFormat.ods:
        _refuse("--template goes with --format ods")
    for path in write(Store(directory), form.value, out, template):
        print(path)


@app.command()
def report(
    directory: StoreDirectory,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="F.html", help="default: DIR/report.html")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="also every figure as PDF and SVG")
    ] = None,
    between: Annotated[
        str | None, typer.Option("--range", metavar="FROM..TO", help='of figures over time: "0..30 s"')
    ] = None,
) -> None:
    """Write one HTML page about a store. It needs no network; figures also as PDF and SVG."""
    from bentpipe import report as pages
    from bentpipe.figures import parse_range

    try:
        span = parse_range(between)
    except ValueError as error:
        _refuse(f"--range: {error}")
    print(pages.build(directory, out, span))
    if figures is not None:
        for path in pages.figures_pdf(directory, figures, span):
            print(path)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="a store")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="a store of the same scenario")],
    as_json: AsJson = False,
) -> None:
    """Compare two stores, run by run. An interval a metric; exit status 1 when one got worse."""
    from bentpipe.diff import compare
    from bentpipe.store import StoreError
    from bentpipe.terminal import emit, print_table

    try:
        comparison = compare(before, after)
    except StoreError:
        raise
    except ValueError as error:
        _refuse(str(error))
    if as_json:
        emit(comparison.rows())
    else:
        print_table(comparison.lines(), f"{before} → {after} (means; differences with their 95 % intervals)")
        for where, count in ((before, comparison.only_before), (after, comparison.only_after)):
            if count:
                print(f"{count} rows of {where} have no partner")
    if comparison.regressed:
        raise typer.Exit(FAILED)


@app.command()
def schema() -> None:
    """Print the JSON schema of scenarios, for editors."""
    from bentpipe.scenario import Scenario
    from bentpipe.terminal import emit

    emit({"$schema": "https://json-schema.org/draft/2020-12/schema", **Scenario.model_json_schema()})


@app.command()
def presets(as_json: AsJson = False) -> None:
    """List accesses for [path] preset = "NAME". Every number has its source."""
    from dataclasses import asdict

    from bentpipe.presets import presets as known
    from bentpipe.terminal import emit, print_table

    if as_json:
        emit([asdict(preset) for preset in known()])
        return
    print_table([{"preset": p.name, "what": p.title, "source": p.source} for p in known()])


@app.command()
def bench(
    times: Annotated[int, typer.Option(min=1, metavar="N", help="runs of each case")] = 7,
    as_json: AsJson = False,
) -> None:
    """Measure the engine. Packets per CPU second, runs interleaved, median and spread."""
    from dataclasses import asdict

    from bentpipe.bench import bench as measure
    from bentpipe.terminal import emit, print_table

    figures = measure(times, None if as_json else lambda text: print(text, file=sys.stderr))
    if as_json:
        emit([asdict(figure) for figure in figures])
        return
    print_table(
        [
            {
                "case": f.case,
                "packets": f.packets,
                "per CPU second": round(f.median),
                "lowest": round(f.lowest),
                "highest": round(f.highest),
                "at least": f.least,
                "times real time": f.times_real,
                "memory MB": f.memory_mb,
                "of it the run's": f.growth_mb,
            }
            for f in figures
        ],
        f"Packets of both directions per CPU second, median of {times}",
    )


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what of this machine bentpipe can use. Exit status 2 when something needed is missing."""
    from dataclasses import asdict

    from bentpipe.doctor import examine
    from bentpipe.terminal import emit, print_table

    checks = examine()
    if as_json:
        emit([asdict(item) for item in checks])
    else:
        marks = {(True, True): "ok", (True, False): "ok", (False, True): "MISSING", (False, False): "without"}
        print_table([{"": marks[c.good, c.needed], "what": c.what, "found": c.found} for c in checks])
    if any(item.needed and not item.good for item in checks):
        raise typer.Exit(BAD_INPUT)


@app.command("check-cc")
def check_cc(
    controller: Annotated[
        str, typer.Argument(metavar="NAME|FILE.py", help="a built-in controller, or a file with a class")
    ],
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="an option; repeatable")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the conformance list on a congestion controller."""
    from bentpipe.conformance import verdicts
    from bentpipe.terminal import emit, print_table

    rows = verdicts(controller, option or [])
    if as_json:
        emit(rows)
    else:
        print_table([_conformance(row) for row in rows], f"Conformance of {controller}")
    if any(not row["passed"] and row["exemption"] is None for row in rows):
        raise typer.Exit(FAILED)


def _conformance(row: Mapping[str, Any]) -> dict[str, Any]:
    verdict = "ok" if row["passed"] else "FAILED" if row["exemption"] is None else "exempt"
    found = row["detail"] if verdict != "exempt" else f"{row['detail']}; exempt: {row['exemption']}"
    return {"check": row["name"], "": verdict, "found": found, "asked by": row["rfc_section"]}


@app.command()
def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a study, such as andreotti-2025")],
    only: Annotated[str | None, typer.Option(metavar="X", help="only this part of it")] = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="the stores; default: out/NAME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a published study. Prints published against measured, with a verdict a row."""
    from bentpipe import studies

    status = studies.run(name, only=only, seeds=seeds, jobs=jobs, out=out, as_json=as_json)
    if status:
        raise typer.Exit(status)


if __name__ == "__main__":
    main()
