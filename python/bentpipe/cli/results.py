"""Contents and checks of a store.

The commands are ``show``, ``calls``, ``users``, ``query``, ``diff``, ``pack`` and ``verify``.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.common import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    AsJson,
    Metrics,
    StoreDirectories,
    StoreDirectory,
    Thresholds,
    options,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.figures.context import FigureContext
    from bentpipe.metrics.format import TextTable
    from bentpipe.store.listing import ListedStore
    from bentpipe.store.reader import Store
    from bentpipe.store.sql import Answers

__all__ = ["calls", "diff", "pack", "query", "show", "users", "verify"]


def show(directories: StoreDirectories, as_json: AsJson = False) -> None:
    """Print the summary of a store, or of several stores side by side; list the stores of a folder.

    Means over seeds with 95 % confidence intervals. With several stores, what differs in their settings is in the title
    and in the first columns.
    """
    from bentpipe.cli.console import emit, print_table
    from bentpipe.figures.context import FigureContext
    from bentpipe.metrics.summary_table import bundle_rows, call_rows, page_rows, summary_rows, user_tables
    from bentpipe.metrics.users import has_scheduler
    from bentpipe.store.journal import host_summary
    from bentpipe.store.listing import is_store, list_stores
    from bentpipe.store.plan_file import find
    from bentpipe.store.reader import open_store

    folder = find(directories[0])
    if len(directories) == 1 and folder.is_dir() and not is_store(folder) and (stores := list_stores(folder)):
        _print_stores(stores, as_json=as_json)
        return
    store = open_store(_read_stores(directories))
    context = FigureContext(store)
    title, rows, notes = summary_rows(store, numbers=as_json, metrics=context.metrics)
    host_text = " ".join(filter(None, (host_summary(part.path) for part in store.parts)))
    if as_json:
        emit(rows)
        for note in notes:
            print(note, file=sys.stderr)
    else:
        print_table(rows, title)
        _print_findings(context, notes)
        if loads := page_rows(store):
            print_table(loads, "Page loads")
        if calls := call_rows(store):
            print_table(calls, f"{CALLS} adaptive play-out; `bentpipe calls` has other settings)")
        if bundles := bundle_rows(store):
            print_table(bundles, BUNDLES)
        if has_scheduler(store):
            print_users(user_tables(store))
        if host_text:
            print(host_text)


def _print_findings(context: FigureContext, notes: Sequence[str]) -> None:
    """Print the notes below the table of results, the findings and the comparison of the variants."""
    from bentpipe.cli.console import print_table
    from bentpipe.report.findings import findings, variant_pairs
    from bentpipe.report.unfinished import unfinished_note

    for note in notes:
        print(note)
    if unfinished := unfinished_note(context):
        print(f"{unfinished}.")
    if not context.dims:
        return
    print(findings(context))
    if (pairs := variant_pairs(context)) is not None and len(pairs.rows) <= MAX_PAIRS:
        print_table(pairs.text_rows(), "Pairwise comparison")
        print(*pairs.notes, sep="\n")


MAX_PAIRS = 24
"""Largest number of pairs that ``show`` prints; the report has all."""


def _print_stores(stores: Sequence[ListedStore], *, as_json: bool) -> None:
    """Print the stores of a folder, the latest first."""
    from bentpipe.cli.console import emit, print_table

    rows = [
        {
            "store": str(store.path),
            "title": store.title,
            "runs": f"{store.finished} of {store.planned}",
            "changed": store.changed.strftime("%Y-%m-%d %H:%M"),
        }
        for store in stores
    ]
    emit(rows) if as_json else print_table(rows)


def _read_stores(directories: Sequence[Path]) -> Path | Store:
    """Return the only directory, or several stores as one."""
    if len(directories) == 1:
        return directories[0]
    from bentpipe.store.joined import join_stores

    return join_stores(directories)


BUNDLES = "Clients of bundle nodes (means over seeds)"
"""Titles of tables."""
CALLS = "Calls and other datagrams (means over calls and seeds;"


def calls(
    directory: StoreDirectory,
    codec: Annotated[str | None, typer.Option(help="codec: g711, g729, g729a-vad")] = None,
    playout: Annotated[
        str,
        typer.Option(
            metavar="RULE", help='play-out: fixed buffer "60 ms", percentile such as p99, or adaptive'
        ),
    ] = "adaptive",
    advantage: Annotated[float, typer.Option(help="advantage factor A; 20 for satellite access")] = 0.0,
    plc: Annotated[bool, typer.Option("--plc/--no-plc", help="with packet loss concealment (G.711)")] = True,
    as_json: AsJson = False,
) -> None:
    """Rate the calls of a store (ITU-T G.107 E-model).

    Prints late loss, R and MOS for any codec and play-out. No run is repeated.
    """
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.call_quality import PlayoutError, RatingConfig, parse
    from bentpipe.metrics.summary_table import call_rows

    try:
        config = RatingConfig(codec, parse(playout), advantage, plc)
    except PlayoutError as error:
        refuse(f"--playout: {error}")
    with options():
        rows = call_rows(directory, config, numbers=as_json)
    if as_json:
        emit(rows)
        return
    if not rows:
        refuse(f"{directory}: no datagram flows in this store; set load = {{ call = ... }} of a flow")
    print_table(
        rows, f"{CALLS} play-out {config.playout}{f', codec {codec}' if codec else ''}, A = {advantage:g})"
    )


def users(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Print per-user statistics of shared links.

    Fairness, queueing delays, drops by cause, airtime; --json has every user.
    """
    from bentpipe.cli.console import emit
    from bentpipe.metrics.summary_table import user_numbers, user_tables

    if as_json:
        emit(user_numbers(directory))
        return
    tables = user_tables(directory)
    if not tables:
        refuse(f"{directory}: no per-user data in this store; set count or user of a flow")
    print_users(tables)


def print_users(tables: Sequence[TextTable]) -> None:
    """Print the tables of users."""
    from bentpipe.cli.console import print_table

    for table in tables:
        print_table(table.rows, table.title)


def query(
    directory: StoreDirectory,
    sql: Annotated[
        str | None,
        typer.Argument(metavar="SQL", help="statement [default: list tables, columns, units, rows]"),
    ] = None,
    unrestricted: Annotated[
        bool, typer.Option("--unrestricted", help="allow SQL to access any file and the network")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="memory limit of a query [default: 2 GB]"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, metavar="N", help="threads [default: one per processor]")
    ] = None,
    spill: Annotated[
        str | None,
        typer.Option("--spill", metavar="SIZE", help="limit of temporary files [default: 4 GB]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Query a store in SQL. Without SQL, list its tables, columns, units and rows.

    Every table (runs, flow_summary, flows, links...) is a view with run, seed and the swept keys. The numbers of show
    are the tables metrics and cells.
    """
    import duckdb

    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.computed_tables import computed_tables
    from bentpipe.store.reader import Store
    from bentpipe.store.sql_names import unique_names

    if sql is not None and not sql.strip():
        refuse('SQL: missing, expected a query such as "SELECT * FROM runs"')
    with options():
        store = Store(directory)
        connection = store.connect(
            unrestricted=unrestricted,
            memory=memory,
            threads=threads,
            spill=spill,
            computed=computed_tables(store),
        )

    def answer() -> None:
        if sql is None:
            _list_tables(store, connection, as_json=as_json)
            return
        connection.execute(sql)
        names = unique_names([column[0] for column in connection.description or []])
        rows = [dict(zip(names, row, strict=True)) for row in connection.fetchall()] if names else []
        if as_json:
            emit(rows)
        else:
            print_table(rows)
        if not rows:
            for message in connection.empty_tables():
                print(f"warning: {message}", file=sys.stderr)

    with _closing(connection):
        try:
            connection.guard(answer)
        except duckdb.Error as error:
            refuse(str(connection.to_query_error(error)))
        except RuntimeError as error:
            refuse(str(error))


def _spells(name: str, unit: str) -> bool:
    """Return whether the name of a column has its unit as a word, such as bytes."""
    return len(unit) > 2 and name.endswith(unit)


def _list_tables(store: Store, connection: Answers, *, as_json: bool) -> None:
    """Print the tables of a store: rows, columns with their units, and the key that would fill an empty one."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.registry import column_unit
    from bentpipe.plan.spec.result_columns import FILLED_BY

    tables = connection.describe()
    if as_json:
        emit(
            [
                {
                    "table": table.name,
                    "rows": table.rows,
                    "columns": [
                        {"name": name, "type": kind, "unit": column_unit(name)}
                        for name, kind in table.columns
                    ],
                    "filled_by": None if table.rows else FILLED_BY.get(table.name),
                }
                for table in tables
            ]
        )
        return
    rows = [
        {
            "table": table.name,
            "rows": table.rows,
            "columns (units)": ", ".join(
                f"{name} ({unit})" if (unit := column_unit(name)) and not _spells(name, unit) else name
                for name, _ in table.columns
            ),
        }
        for table in tables
        if table.rows
    ]
    print_table(rows, f"{store.title} ({store.path})")
    empty = [
        {"empty table": table.name, "to fill it": FILLED_BY.get(table.name, "")}
        for table in tables
        if not table.rows
    ]
    if empty:
        print_table(empty)


@contextmanager
def _closing(connection: Answers) -> Iterator[None]:
    """Close the connection at the end, and on SIGTERM and SIGHUP.

    End the process if DuckDB does not end a query.
    """
    from bentpipe.store.query_limits import QueryLimitError

    def handle(number: int, _: object) -> None:
        connection.remove_spill()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for number in signals:
        signal.signal(number, handle)
    try:
        with connection:
            yield
    except (KeyboardInterrupt, QueryLimitError) as error:
        if not connection.abandoned:
            raise
        if isinstance(error, QueryLimitError):
            print(f"error: {error}", file=sys.stderr)
        os._exit(INTERRUPTED if isinstance(error, KeyboardInterrupt) else BAD_INPUT)
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="store")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="store of the same scenario")],
    thresholds: Thresholds = None,
    metrics: Metrics = None,
    as_json: AsJson = False,
) -> None:
    """Compare two stores, with runs paired by seed.

    Exit status 1 if a metric got worse.
    """
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.change_table import format_rows, notes, rows
    from bentpipe.metrics.compare import OF_STORES, Criteria
    from bentpipe.metrics.scenario_differences import path_differences
    from bentpipe.metrics.store_comparison import compare_stores, shared_metrics
    from bentpipe.scenario.errors import ScenarioError
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import Store

    with options():
        try:
            criteria = Criteria.parse(thresholds or (), metrics or (), OF_STORES)
        except ScenarioError:
            # The suggestions of the message are metrics that these stores have.
            Criteria.parse(thresholds or (), metrics or (), shared_metrics(before, after) or OF_STORES)
            raise
    try:
        comparison = compare_stores(before, after, criteria=criteria, catalogue=catalogue)
    except StoreError:
        raise
    except ValueError as error:
        refuse(str(error))
    messages = notes(comparison)
    for store, count in ((before, comparison.only_before), (after, comparison.only_after)):
        if count:
            messages.append(f"{count} flows of runs of {store} have no counterpart.")
    if as_json:
        emit({"worse": comparison.regressed, "notes": messages, "changes": rows(comparison.changes)})
    else:
        table_rows = format_rows(comparison, MAX_ROWS)
        paths = path_differences(Store(before), Store(after))
        title = f"{before} → {after}{f': different paths, {paths}' if paths else ''}"
        print_table(table_rows, f"{title} (means over seeds; changes with 95 % confidence intervals)")
        if left_out := len(comparison.changes) - len(table_rows):
            print(f"{left_out} comparisons without a verdict are not shown; --json has them.")
        print("\n".join(messages), end="\n" if messages else "")
    if comparison.regressed:
        raise typer.Exit(FAILED)


def catalogue() -> list[dict[str, Any]]:
    """Return the controllers of the engine, which is loaded on the first call."""
    from bentpipe.runners import engine

    return engine.catalogue()


MAX_ROWS = 40
"""Number of comparisons up to which ``diff`` also prints those without a verdict."""


def pack(directory: StoreDirectory) -> None:
    """Pack the finished runs of a store.

    A pack has one file for each table of 1,000 runs. Every command reads packs.
    """
    from bentpipe.cli.common import count
    from bentpipe.cli.console import patience
    from bentpipe.store.packing import pack as packed

    result = packed(directory, patience("packing", "runs"))
    print(f"{count(result.runs, 'run')} packed into {count(result.packs, 'pack')}")
    for number, reason in (
        (result.left.traced, "with traces, which are separate files"),
        (result.left.large, "too large to gain from packing"),
    ):
        if number:
            print(f"{count(number, 'run')} unchanged: {reason}")


_MAX_FINDINGS = 5


def verify(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Verify packet and bundle traces against the scenario, independently of the engine.

    Packets require [trace] stages = true. Exit status 1 if a trace is inconsistent.
    """
    from bentpipe.cli.console import emit
    from bentpipe.store.reader import Store
    from bentpipe.trace_check import verify as check

    failures, rows = 0, []
    for verdict in check(Store(directory)):
        failures += bool(verdict.findings)
        findings = [
            {"rule": finding.rule, "place": finding.place, "found": finding.text}
            for finding in verdict.findings
        ]
        rows.append(
            {"run": verdict.run, "packets": verdict.packets, "steps": verdict.steps}
            | ({} if verdict.bundles is None else {"bundle_events": verdict.bundles})
            | {"findings": findings}
        )
        if not as_json:
            summary = f"{len(findings):,} findings" if findings else "nothing found"
            scope = f"{verdict.packets:,} packets, {verdict.steps:,} steps"
            if verdict.bundles is not None:
                scope += f", {verdict.bundles:,} events of bundles"
            print(f"{verdict.run}  {scope}: {summary}")
            for finding in findings[:_MAX_FINDINGS]:
                print(f"    {finding['rule']}: {finding['place']}: {finding['found']}")
            if len(findings) > _MAX_FINDINGS:
                print(f"    and {len(findings) - _MAX_FINDINGS:,} more (--json has all)")
    if as_json:
        emit(rows)
    if failures:
        raise typer.Exit(FAILED)
