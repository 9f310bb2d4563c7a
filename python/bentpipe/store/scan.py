"""One table of many runs as a lazy frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.store.files import readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.store.index import StoredFile, StoreIndex

__all__ = ["GROUP", "grouped", "scan"]

GROUP = "flow_group"
"""Column of ``flow_summary`` in scenarios with groups: the group of a flow, or the flow."""


def scan(index: StoreIndex, name: str, runs: Iterable[str] | None = None) -> pl.LazyFrame | None:
    """Return table ``name`` of ``runs`` (None: all) as one lazy frame; None: no run has it.

    The first column ``run`` has the id of the run. Rows of a run keep their order. Runs without the table are left
    out.
    ``flow_summary`` always has the column ``GROUP``, null where a run has no groups.

    Raises:
        StoreError: a file of the table is missing or damaged.
    """
    requested = None if runs is None else list(runs)
    files = index.table(name, requested)
    if not files:
        return None
    loose = [file for file in files if not file.packed and not file.is_empty]
    packed = [file for file in files if file.packed]
    pieces: list[tuple[list[str], pl.LazyFrame]] = []
    if loose:
        run_ids = [file.runs[0] for file in loose]
        places = [str(file.path) for file in loose]
        run = pl.col("run").replace_strict(places, run_ids, return_dtype=pl.String)
        pieces.append((run_ids, _scan_files(index, name, places, "run").select(run, pl.exclude("run"))))
    if packed:
        pieces += _scan_packs(index, name, packed)
    if not pieces:
        return pl.LazyFrame(schema={"run": pl.String})
    return _concatenate(pieces, list(index.folders) if requested is None else requested)


def _scan_packs(
    index: StoreIndex, name: str, files: list[StoredFile]
) -> list[tuple[list[str], pl.LazyFrame]]:
    """Return the requested rows of packs, and the order of their runs."""
    order = [run for file in files for run in file.folder.packed or ()]
    rows = _scan_files(index, name, [str(file.path) for file in files], None)
    if all(file.is_complete for file in files):
        return [(order, rows)]
    requested = {run for file in files for run in file.runs}
    order = [run for run in order if run in requested]
    if len(order) > len(requested):  # a run is in two packs, and only one of them is read
        return [piece for file in files for piece in _scan_packs(index, name, [file])]
    return [(order, rows.filter(pl.col("run").is_in(order)))]


def _scan_files(index: StoreIndex, name: str, places: list[str], path: str | None) -> pl.LazyFrame:
    """Scan files one after the other; ``path`` is the name of a column with the file, or None."""
    if name != "flow_summary":
        return pl.scan_parquet(places, glob=False, include_file_paths=path)
    # files of one scenario have equal columns, except that a sweep may have groups in some cells only
    with readable(index.store, name):
        schema = {**pl.read_parquet_schema(places[0])}
    schema.setdefault(GROUP, pl.String())
    return pl.scan_parquet(
        places, glob=False, include_file_paths=path, schema=schema, missing_columns="insert"
    )


def _concatenate(pieces: list[tuple[list[str], pl.LazyFrame]], wanted: list[str]) -> pl.LazyFrame:
    """Concatenate pieces in the order of ``wanted``; sort only if necessary."""
    if len(pieces) == 1 and pieces[0][0] == wanted:
        return pieces[0][1]
    rank = {run: rank_ for rank_, run in enumerate(wanted)}
    pieces.sort(key=lambda piece: rank[piece[0][0]])
    rows = pieces[0][1]
    if len(pieces) > 1:
        names = rows.collect_schema().names()
        rows = pl.concat([piece.select(names) for _, piece in pieces])
    ranks_found = [rank[run] for run_ids, _ in pieces for run in run_ids]
    if ranks_found != sorted(ranks_found):
        ranks = pl.LazyFrame({"run": wanted, "__rank": range(len(wanted))})
        rows = rows.join(ranks, on="run", how="left", maintain_order="left")
        rows = rows.sort("__rank", maintain_order=True).drop("__rank")
    return rows


def grouped(summary: pl.DataFrame | pl.LazyFrame) -> bool:
    """Return whether a scanned table ``flow_summary`` has a flow of a group."""
    has_group: bool = summary.lazy().select(pl.col(GROUP).is_not_null().any()).collect().item()
    return has_group
