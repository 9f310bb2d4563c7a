"""One table of many runs, read lazily: what every reader of a store is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.store.files import readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.store.index import Held, StoreIndex

__all__ = ["GROUP", "grouped", "scan"]

GROUP = "flow_group"
"""Column of ``summary``, and of what is made of it, where a scenario has groups: the group of a flow, or the flow."""


def scan(kept: StoreIndex, name: str, runs: Iterable[str] | None = None) -> pl.LazyFrame | None:
    """Table ``name`` of ``runs``, or all, one after the other, each row with its run's id in ``run``, the first column.

    Rows of a run are in the order in which it wrote them; runs without the table are left out, and where none has it
    there is nothing. ``summary`` always has the column ``GROUP``, null where a run has no groups.

    Raises:
        StoreError: a run's table is not there any more, or not what was written; it is named.
    """
    wanted = None if runs is None else list(runs)
    held = kept.table(name, wanted)
    if not held:
        return None
    loose = [one for one in held if not one.packed and not one.bare]
    packed = [one for one in held if one.packed]
    pieces: list[tuple[list[str], pl.LazyFrame]] = []
    if loose:
        order = [one.runs[0] for one in loose]
        places = [str(one.path) for one in loose]
        run = pl.col("run").replace_strict(places, order, return_dtype=pl.String)
        pieces.append((order, _scanned(kept, name, places, "run").select(run, pl.exclude("run"))))
    if packed:
        pieces += _of_packs(kept, name, packed)
    if not pieces:
        return pl.LazyFrame(schema={"run": pl.String})
    return _in_order(pieces, list(kept.folders) if wanted is None else wanted)


def _of_packs(kept: StoreIndex, name: str, packed: list[Held]) -> list[tuple[list[str], pl.LazyFrame]]:
    """The rows that are wanted of packs, and whose they are one after the other."""
    order = [run for one in packed for run in one.folder.packed or ()]
    rows = _scanned(kept, name, [str(one.path) for one in packed], None)
    if all(one.whole for one in packed):
        return [(order, rows)]
    own = {run for one in packed for run in one.runs}
    order = [run for run in order if run in own]
    if len(order) > len(own):  # a run is in two of them, and wanted of one
        return [piece for one in packed for piece in _of_packs(kept, name, [one])]
    return [(order, rows.filter(pl.col("run").is_in(order)))]


def _scanned(kept: StoreIndex, name: str, places: list[str], path: str | None) -> pl.LazyFrame:
    """Files one after the other; the column ``path`` says which, if it has a name."""
    if name != "summary":
        return pl.scan_parquet(places, glob=False, include_file_paths=path)
    # of one scenario files have the same columns, but that a sweep may make groups in some of its cells alone
    with readable(kept.store, name):
        schema = {**pl.read_parquet_schema(places[0])}
    schema.setdefault(GROUP, pl.String())
    return pl.scan_parquet(
        places, glob=False, include_file_paths=path, schema=schema, missing_columns="insert"
    )


def _in_order(pieces: list[tuple[list[str], pl.LazyFrame]], wanted: list[str]) -> pl.LazyFrame:
    """Pieces as one, with runs in the order of ``wanted``; it is sorted only where they do not follow each other so."""
    if len(pieces) == 1 and pieces[0][0] == wanted:
        return pieces[0][1]
    rank = {run: place for place, run in enumerate(wanted)}
    pieces.sort(key=lambda piece: rank[piece[0][0]])
    rows = pieces[0][1]
    if len(pieces) > 1:
        names = rows.collect_schema().names()
        rows = pl.concat([piece.select(names) for _, piece in pieces])
    places = [rank[run] for order, _ in pieces for run in order]
    if places != sorted(places):
        ranks = pl.LazyFrame({"run": wanted, "__rank": range(len(wanted))})
        rows = rows.join(ranks, on="run", how="left", maintain_order="left")
        rows = rows.sort("__rank", maintain_order=True).drop("__rank")
    return rows


def grouped(summary: pl.DataFrame | pl.LazyFrame) -> bool:
    """Whether a table ``summary`` that was scanned has a flow of a group."""
    found: bool = summary.lazy().select(pl.col(GROUP).is_not_null().any()).collect().item()
    return found
