"""``show``, ``query`` and ``diff``: what a store says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli.common import FAILED, AsJson, StoreDirectory, refuse

__all__ = ["diff", "query", "show"]


def show(directory: StoreDirectory, as_json: AsJson = False) -> None:
    """Print the summary of a store. Means over seeds, with their 95 % intervals."""
    from bentpipe.realtime import machine
    from bentpipe.summary import page_rows, summary_rows
    from bentpipe.terminal import emit, print_table

    title, rows = summary_rows(directory, numbers=as_json)
    if as_json:
        emit(rows)
    else:
        print_table(rows, title)
        if loads := page_rows(directory):
            print_table(loads, "Loads of pages")
        if said := machine(directory):
            print(said)


def query(
    directory: StoreDirectory,
    sql: Annotated[str, typer.Argument(metavar="SQL")],
    unrestricted: Annotated[
        bool, typer.Option("--unrestricted", help="SQL may read and write any file, and use the network")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a store in SQL. One view a table (runs, summary, flows, links...) with run, seed and the sweep's keys."""
    import duckdb

    from bentpipe.asking import unlike
    from bentpipe.store import Store
    from bentpipe.terminal import emit, print_table

    connection = Store(directory).connect(unrestricted=unrestricted)
    try:
        connection.execute(sql)
        names = unlike([column[0] for column in connection.description or []])
        rows = [dict(zip(names, row, strict=True)) for row in connection.fetchall()] if names else []
    except (duckdb.Error, RuntimeError) as error:
        refuse(str(error))
    if as_json:
        emit(rows)
    else:
        print_table(rows)


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
        refuse(str(error))
    if as_json:
        emit(comparison.rows())
    else:
        print_table(comparison.lines(), f"{before} → {after} (means; differences with their 95 % intervals)")
        for where, count in ((before, comparison.only_before), (after, comparison.only_after)):
            if count:
                print(f"{count} rows of {where} have no partner")
    if comparison.regressed:
        raise typer.Exit(FAILED)
