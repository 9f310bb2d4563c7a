"""``show``, ``calls``, ``users``, ``query``, ``diff``, ``pack``, ``verify``: what a store says, if it can be so; made
small."""

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
    StoreDirectory,
    Thresholds,
    options,
    refuse,
    suggest_pack,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.metrics.format import TextTable
    from bentpipe.store.sql import Answers

__all__ = ["calls", "diff", "pack", "query", "show", "users", "verify"]


def show(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Print the summary of a store. Means over seeds, with their 95 % intervals."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.summary_table import bundle_rows, call_rows, page_rows, summary_rows, user_tables
    from bentpipe.metrics.users import has_scheduler
    from bentpipe.store.journal import host_summary
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    title, rows, notes = summary_rows(store, numbers=as_json)
    in_real_time = host_summary(directory)
    if as_json:
        emit(rows)
        for note in notes:
            print(note, file=sys.stderr)
    else:
        print_table(rows, title)
        for note in notes:
            print(note)
        if loads := page_rows(store):
            print_table(loads, "Loads of pages")
        if calls := call_rows(store):
            print_table(calls, f"{CALLS} adaptive play-out; `bentpipe calls` judges them otherwise)")
        if bundles := bundle_rows(store):
            print_table(bundles, BUNDLES)
        if has_scheduler(store):
            print_users(user_tables(store))
        if in_real_time:
            print(in_real_time)
    suggest_pack(directory)


BUNDLES = "Clients of bundle nodes (means over seeds)"
CALLS = "Calls and other datagrams (means over calls and seeds;"


def calls(
    directory: StoreDirectory,
    codec: Annotated[str | None, typer.Option(help="as if spoken with: g711, g729, g729a-vad")] = None,
    playout: Annotated[
        str, typer.Option(metavar="RULE", help='"60 ms" of buffer, a percentile such as p99, or adaptive')
    ] = "adaptive",
    advantage: Annotated[
        float, typer.Option(help="forgiven for being reached at all; 20 by satellite")
    ] = 0.0,
    plc: Annotated[bool, typer.Option("--plc/--no-plc", help="lost speech is concealed (G.711)")] = True,
    as_json: AsJson = False,
) -> None:
    """Judge the calls of a store. Late loss, R and MOS (ITU-T G.107) with any codec and play-out, without a new run."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.call_quality import PlayoutError, RatingConfig, parse
    from bentpipe.metrics.summary_table import call_rows

    try:
        how = RatingConfig(codec, parse(playout), advantage, plc)
    except PlayoutError as error:
        refuse(f"--playout: {error}")
    with options():
        rows = call_rows(directory, how, numbers=as_json)
    suggest_pack(directory)
    if as_json:
        emit(rows)
        return
    if not rows:
        refuse(f"{directory}: nothing in it sends datagrams; load = {{ call = ... }} of a flow does")
    print_table(
        rows, f"{CALLS} play-out {how.playout}{f', codec {codec}' if codec else ''}, A = {advantage:g})"
    )


def users(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Print what users had that share a link. How far apart they are, waits, drops by cause, air; --json has each."""
    from bentpipe.cli.console import emit
    from bentpipe.metrics.summary_table import user_numbers, user_tables

    if as_json:
        emit(user_numbers(directory))
        suggest_pack(directory)
        return
    tables = user_tables(directory)
    suggest_pack(directory)
    if not tables:
        refuse(f"{directory}: nothing tells its users apart; count or user of a flow does")
    print_users(tables)


def print_users(tables: Sequence[TextTable]) -> None:
    """Prints what users had."""
    from bentpipe.cli.console import print_table

    for one in tables:
        print_table(one.rows, one.title)


def query(
    directory: StoreDirectory,
    sql: Annotated[str, typer.Argument(metavar="SQL")],
    unrestricted: Annotated[
        bool, typer.Option("--unrestricted", help="SQL may read and write any file, and use the network")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="a query that needs more ends; default: 2 GB"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, metavar="N", help="default: one a processor")
    ] = None,
    spill: Annotated[
        str | None,
        typer.Option("--spill", metavar="SIZE", help="temporary files that a query may write; default: 4 GB"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a store in SQL. One view a table (runs, summary, flows, links...) with run, seed and the sweep's keys."""
    import duckdb

    from bentpipe.cli.console import emit, print_table
    from bentpipe.store.reader import Store
    from bentpipe.store.sql import unique_names

    with options():
        connection = Store(directory).connect(
            unrestricted=unrestricted, memory=memory, threads=threads, spill=spill
        )

    def answer() -> None:
        connection.execute(sql)
        names = unique_names([column[0] for column in connection.description or []])
        rows = [dict(zip(names, row, strict=True)) for row in connection.fetchall()] if names else []
        if as_json:
            emit(rows)
        else:
            print_table(rows)

    with _ending(connection):
        try:
            connection.guard(answer)
        except (duckdb.Error, RuntimeError) as error:
            refuse(str(error))
    suggest_pack(directory)


@contextmanager
def _ending(connection: Answers) -> Iterator[None]:
    """Close a connection at the end, and on SIGTERM and SIGHUP; end the process where DuckDB does not end a query."""
    from bentpipe.store.query_limits import QueryLimitError

    def end(number: int, _: object) -> None:
        connection.remove_spill()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    ends = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for number in ends:
        signal.signal(number, end)
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
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="a store")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="a store of the same scenario")],
    thresholds: Thresholds = None,
    metrics: Metrics = None,
    as_json: AsJson = False,
) -> None:
    """Compare two stores, pairing their runs by seed. Exit status 1 when a metric got worse."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.change_table import format_rows, notes, rows
    from bentpipe.metrics.compare import OF_STORES, Criteria
    from bentpipe.metrics.store_comparison import compare_stores
    from bentpipe.store.files import StoreError

    with options():
        criteria = Criteria.parse(thresholds or (), metrics or (), OF_STORES)
    try:
        comparison = compare_stores(before, after, criteria=criteria, catalogue=catalogue)
    except StoreError:
        raise
    except ValueError as error:
        refuse(str(error))
    said = notes(comparison)
    for where, count in ((before, comparison.only_before), (after, comparison.only_after)):
        if count:
            said.append(f"{count} flows of runs of {where} have no partner.")
    if as_json:
        emit({"worse": comparison.regressed, "notes": said, "changes": rows(comparison.changes)})
    else:
        shown = format_rows(comparison, MAX_ROWS)
        print_table(shown, f"{before} → {after} (means over seeds; changes with their 95 % intervals)")
        if left_out := len(comparison.changes) - len(shown):
            print(f"{left_out} comparisons without a verdict are not shown; --json has them.")
        print("\n".join(said), end="\n" if said else "")
    if comparison.regressed:
        raise typer.Exit(FAILED)


def catalogue() -> list[dict[str, Any]]:
    """Return the engine's controllers; the engine is loaded when they are asked for."""
    from bentpipe.runners import engine

    return engine.catalogue()


MAX_ROWS = 40
"""Comparisons up to which ``diff`` prints those without a verdict too."""


def pack(directory: StoreDirectory) -> None:
    """Pack the finished runs of a store. One file a table for 1,000 runs; every command reads it as before."""
    from bentpipe.cli.common import count
    from bentpipe.cli.console import patience
    from bentpipe.store.packing import pack as packed

    done = packed(directory, patience("packing", "runs"))
    print(f"{count(done.runs, 'run')} packed into {count(done.packs, 'pack')}")
    for number, why in (
        (done.left.traced, "with traces, which are files of their own"),
        (done.left.large, "too large to gain by it"),
        (done.left.unsummed, "made before runs had checksums"),
    ):
        if number:
            print(f"{count(number, 'run')} {why}: as they were")


_SHOWN = 5


def verify(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Check bundles and traced packets without the engine.

    Packets need [trace] stages = true. Exit 1 when something cannot be.
    """
    from bentpipe.cli.console import emit
    from bentpipe.store.reader import Store
    from bentpipe.trace_check import verify as check

    wrong, rows = 0, []
    for verdict in check(Store(directory)):
        wrong += bool(verdict.findings)
        found = [{"rule": one.rule, "place": one.place, "found": one.text} for one in verdict.findings]
        rows.append(
            {"run": verdict.run, "packets": verdict.packets, "steps": verdict.steps}
            | ({} if verdict.bundles is None else {"bundle_events": verdict.bundles})
            | {"findings": found}
        )
        if not as_json:
            said = f"{len(found):,} findings" if found else "nothing found"
            looked = f"{verdict.packets:,} packets, {verdict.steps:,} steps"
            if verdict.bundles is not None:
                looked += f", {verdict.bundles:,} events of bundles"
            print(f"{verdict.run}  {looked}: {said}")
            for one in found[:_SHOWN]:
                print(f"    {one['rule']}: {one['place']}: {one['found']}")
            if len(found) > _SHOWN:
                print(f"    and {len(found) - _SHOWN:,} more (--json has all)")
    if as_json:
        emit(rows)
    if wrong:
        raise typer.Exit(FAILED)
