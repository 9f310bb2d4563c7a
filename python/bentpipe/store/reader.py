"""What statistics, figures and reports read of a store: its finished runs and chosen columns of their tables.

:class:`bentpipe.Store` is the store itself; a :class:`Reading` is a picture of it at one moment, in which runs
that finish later do not appear, and which reads only the columns it is asked for, of all runs at once. Rows come in
the plan's order of runs and in the order in which a run wrote them, so everything computed from them is the same
on every machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from bentpipe.scenario.columns import column, headings, plain
from bentpipe.store.directory import Store
from bentpipe.store.files import Kept, NothingRunError, readable
from bentpipe.store.scanning import GROUP, grouped, scan

__all__ = ["GROUP", "Reading", "read_store"]


@dataclass(frozen=True)
class Reading:
    """A store, opened for reading.

    ``runs`` has one row per finished run: ``run`` (its id), ``seed`` and one column of text per key of the sweep
    (``keys``: as :func:`bentpipe.scenario.columns.column` calls it, so that it is never another column's name);
    ``planned`` counts the unfinished ones too. ``overrides`` are the scenario's changes by ``--set``.
    """

    path: Path
    title: str
    engine: str
    scenario: str
    overrides: tuple[str, ...]
    keys: tuple[str, ...]
    runs: pl.DataFrame
    planned: int
    kept: Kept

    @cached_property
    def ends(self) -> pl.DataFrame:
        """The instant of the last sample of every run: ``run, end_s``."""
        times = self.table("links", ["time_s"])
        return times.group_by("run", maintain_order=True).agg(end_s=pl.col("time_s").max())

    def shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame`` with the sweep's columns under the names that the scenario has for them, where these are free."""
        others = [name for name in frame.columns if name not in self.keys]
        return frame.rename(headings({key: plain(key) for key in self.keys}, others), strict=False)

    def table(
        self, name: str, columns: Sequence[str] | None = None, runs: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Table ``name`` of all finished runs (or of ``runs``), with the run's id in ``run``.

        Text is ``String`` whatever the file holds. Runs that were made without the table are left out; when none has
        it, the frame is empty and has no columns but ``run``.

        Raises:
            StoreError: a run's table is not there any more, or not what was written; it is named.
        """
        found = scan(self.kept, name, self.runs["run"] if runs is None else runs)
        if found is None:
            return pl.DataFrame(schema={"run": pl.String})
        with readable(self.path, name):
            rows = (found if columns is None else found.select("run", *columns)).collect()
        if GROUP in rows.columns:
            named = pl.col(GROUP).fill_null(pl.col("flow"))
            rows = rows.select("run", named, pl.exclude("run", GROUP)) if grouped(rows) else rows.drop(GROUP)
        texts = [column for column, kind in rows.schema.items() if kind in (pl.Categorical, pl.Enum)]
        return rows.with_columns(pl.col(texts).cast(pl.String))


def read_store(path: Path | str | Store) -> Reading:
    """Open a store.

    Raises:
        NothingRunError: it is not there, or no run of it has finished.
        StoreError: it cannot be read, or runs are damaged; it says which.
    """
    store = path if isinstance(path, Store) else Store(path)
    kept = store.kept()
    runs = store.rows_of(kept)
    if not runs.height:
        raise NothingRunError(f"{store.path}: no run has finished ({len(store.planned)} are planned)")
    return Reading(
        path=store.path.resolve(),
        title=store.title or store.path.name,
        engine=store.engine,
        scenario=store.scenario,
        overrides=store.overrides,
        keys=tuple(column(key) for key in store.keys),
        runs=runs.rename({key: column(key) for key in store.keys}),
        planned=len(store.planned),
        kept=dataclasses.replace(kept, store=store.path.resolve()),
    )
