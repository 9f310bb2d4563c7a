"""One table of many runs, read lazily: what every reader of a store is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.store.files import readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.store.files import Kept

__all__ = ["GROUP", "grouped", "scan"]

GROUP = "flow_group"
"""Column of ``summary``, and of what is made of it, where a scenario has groups: the group of a flow, or the flow."""


def scan(kept: Kept, name: str, runs: Iterable[str]) -> pl.LazyFrame | None:
    """Table ``name`` of ``runs``, one after the other, each row with its run's id in ``run``, the first column.

    Rows of a run are in the order in which it wrote them; runs without the table are left out, and where none has it
    there is nothing. ``summary`` always has the column ``GROUP``, null where a run has no groups.

    Raises:
        StoreError: a run's table is not there any more, or not what was written; it is named.
    """
    files = {str(file): run for run, file in kept.table(name, runs).items()}
    if not files:
        return None
    places = list(files)
    if name == "summary":
        # of one scenario files have the same columns, but that a sweep may make groups in some of its cells alone
        with readable(kept.store, name):
            schema = {**pl.read_parquet_schema(places[0])}
        schema.setdefault(GROUP, pl.String())
        rows = pl.scan_parquet(
            places, glob=False, include_file_paths="run", schema=schema, missing_columns="insert"
        )
    else:
        rows = pl.scan_parquet(places, glob=False, include_file_paths="run")
    run = pl.col("run").replace_strict(places, list(files.values()), return_dtype=pl.String)
    return rows.select(run, pl.exclude("run"))


def grouped(summary: pl.DataFrame | pl.LazyFrame) -> bool:
    """Whether a table ``summary`` that was scanned has a flow of a group."""
    found: bool = summary.lazy().select(pl.col(GROUP).is_not_null().any()).collect().item()
    return found
