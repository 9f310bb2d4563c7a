"""Reading a store: a directory for each scenario, with a directory of Parquet files for each finished run.

::

    DIR/scenario.toml           the scenario, verbatim
    DIR/plan.json               title, engine, overrides, and every run: id, cell of the sweep, seed
    DIR/runs/ID/TABLE.parquet   measurements (docs/reference/results.md), with spec.json, the resolved run, and traces
    DIR/runs/ID/SHA256SUMS      files of the run, with checksums
    DIR/packs/NAME/             many runs in one directory (bentpipe.store.pack)
    DIR/journal.jsonl           times, hosts and versions of runs: not covered by the promise of equal bytes

Every read verifies the checksum first. An error names missing and damaged files, and a resume repeats their runs.
Rows are in the order of runs in the plan, and within a run in the order of the writer. Everything computed from them
is therefore equal on every machine.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bentpipe.scenario.address_space import lack_of_address_space
from bentpipe.scenario.input_file import read_input
from bentpipe.scenario.sweep_columns import column_headings, column_name, sweep_key
from bentpipe.store import plan_file
from bentpipe.store.codec import TABLES
from bentpipe.store.files import EmptyStoreError, MissingTableError, StoreError, checksum, readable
from bentpipe.store.index import StoreIndex, build_index
from bentpipe.store.numeric_columns import text
from bentpipe.store.tables import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.numeric_columns import Axis
    from bentpipe.store.sql import Answers

__all__ = ["Store", "open_store"]


class Store(Frames):
    """Store, for reading. Tables are frames that begin with run id, seed and cell.

    ``store.flows``, ``.links``, ``.summary`` and others, and ``.runs``, are Polars frames of the finished runs, read
    at
    access. A :meth:`still` store has the runs that were finished at its creation.

    Statistics and figures read ``index`` and ``rows`` and join them. Their sweep columns (``columns``) have names that
    no other column has.
    """

    def __init__(self, path: str | Path, *, numbers: bool = False) -> None:
        """Open the store at ``path``.

        Args:
            path: directory of the store, or that of a command with the store in ``store``.
            numbers: add swept quantities as numeric columns (:mod:`bentpipe.store.numeric_columns`).

        Raises:
            StoreError: no store.
        """
        self.path = plan_file.find(Path(path))
        if lack := lack_of_address_space():
            raise StoreError(f"{self.path} cannot be read: {lack}")
        self.numbers = numbers
        plan = plan_file.read(self.path)
        self.title = plan.title or self.path.resolve().name
        self.engine, self.schema = plan.engine, plan.schema
        self.settings, self.planned = plan.overrides, plan.planned
        self._plan = plan
        self._snapshot: StoreIndex | None = None
        self._index: pl.DataFrame | None = None
        self._ends: pl.DataFrame | None = None

    def still(self) -> Self:
        """Return a snapshot of the store: runs that finish later are not in it.

        Raises:
            EmptyStoreError: no run has finished.
            StoreError: runs are damaged; the message names them.
        """
        if self._snapshot is not None:
            return self
        index = self.load_index()
        if not index.folders:
            raise EmptyStoreError(f"{self.path}: no run has finished ({len(self.planned)} are planned)")
        snapshot = copy.copy(self)
        snapshot.path = self.path.resolve()
        snapshot._snapshot = dataclasses.replace(index, store=snapshot.path)  # noqa: SLF001 - a copy of this object
        return snapshot

    @property
    def parts(self) -> tuple[Store, ...]:
        """The store itself; of several stores side by side, each of them."""
        return (self,)

    @property
    def scenario(self) -> str:
        """Text of the scenario.

        Raises:
            StoreError: the file is unreadable or damaged.
        """
        file = self.path / "scenario.toml"
        try:
            content = read_input(file, links=False)
            text = content.decode()
        except (OSError, UnicodeDecodeError):
            raise StoreError(f"{self.path}: its scenario.toml is missing or cannot be read") from None
        if self._plan.scenario not in (None, checksum(content)):
            reason = "is damaged: checksum mismatch; rerun the command of the store to restore it"
            raise StoreError(f"{file} {reason}")
        return text

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Keys of the sweep, in the order and spelling of the scenario."""
        return tuple(dict.fromkeys(key for run in self.planned for key in run["cell"]))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the sweep in frames for computation: unique names of the keys."""
        return tuple(map(column_name, self.keys))

    def finished(self) -> list[dict[str, Any]]:
        """Return the planned runs that are complete in the store, in the order of the plan."""
        folders = self._find_index().folders
        return [run for run in self.planned if run["id"] in folders]

    def load_index(self) -> StoreIndex:
        """Return the index of the finished runs on disk.

        Raises:
            StoreError: runs are damaged; the message names them.
        """
        index = self._find_index()
        index.raise_if_damaged()
        return index

    def has_scenario(self, scenario: str) -> bool:
        """Return whether the store has this scenario, even if its own copy is damaged."""
        return self._plan.scenario == checksum(scenario.encode())

    def _find_index(self) -> StoreIndex:
        if self._snapshot is not None:
            return self._snapshot
        return build_index(self.path, [run["id"] for run in self.planned])

    @property
    def runs(self) -> pl.DataFrame:
        """One row per finished run: ``run``, ``seed`` and the keys of the sweep as text.

        Raises:
            StoreError: runs are damaged; the message names them.
        """
        from bentpipe.store.numeric_columns import add_numeric_columns

        return add_numeric_columns(self._frame(self.load_index(), self.keys).lazy(), self.axes).collect()

    @property
    def index(self) -> pl.DataFrame:
        """Runs as :attr:`runs`, for computation.

        Sweep columns have the names :attr:`columns`. There are no numeric columns.
        """
        if self._index is not None:
            return self._index
        index = self._frame(self.load_index(), self.columns)
        if self._snapshot is not None:
            self._index = index
        return index

    def _frame(self, index: StoreIndex, keys: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        schema = {"run": pl.String, "seed": pl.Int64, **dict.fromkeys(keys, pl.String)}
        return pl.DataFrame(dict(zip(schema, self.column_values(index), strict=True)), schema=schema)

    def column_values(self, index: StoreIndex) -> list[list[Any]]:
        """Return ids, seeds and the values of each sweep key as text.

        Args:
            index: runs of the result, in the order of the plan.
        """
        rows = (
            self.planned
            if len(index.folders) == len(self.planned)
            else [run for run in self.planned if run["id"] in index.folders]
        )
        cells = [row["cell"] for row in rows]
        values = ([cell.get(key) for cell in cells] for key in self.keys)
        texts = (
            [value if type(value) is str else text(value) for value in values_of_key]
            for values_of_key in values
        )
        return [[row["id"] for row in rows], [row["seed"] for row in rows], *texts]

    @property
    def ends(self) -> pl.DataFrame:
        """Instant of the last sample of every run: ``run, end_s``."""
        import polars as pl

        if self._ends is not None:
            return self._ends
        from bentpipe.store.scan import scan

        rows = scan(self.load_index(), "links")
        if rows is None:
            return pl.DataFrame(schema={"run": pl.String, "end_s": pl.Float64})
        last_sample = pl.col("time_s").max().alias("end_s")
        with readable(self.path, "links"):
            ends = (
                rows.select("run", "time_s").group_by("run", maintain_order=True).agg(last_sample).collect()
            )
        if self._snapshot is not None:
            self._ends = ends
        return ends

    def shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return ``frame`` with the sweep columns under the names of the scenario, where these are free."""
        others = [name for name in frame.columns if name not in self.columns]
        return frame.rename(
            column_headings({key: sweep_key(key) for key in self.columns}, others), strict=False
        )

    def rows(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        runs: Iterable[str] | None = None,
        where: pl.Expr | None = None,
    ) -> pl.DataFrame:
        """Return table ``name`` of finished runs, with the run id in ``run`` and no cell.

        Text is ``String`` in all files. Runs without the table are left out. If no run has it, the frame is empty and
        has
        only the column ``run``.

        Args:
            name: table.
            columns: columns beside ``run``; None: all.
            runs: ids of the runs; None: all finished runs.
            where: filter on columns of the table, applied during the read.

        Raises:
            StoreError: a file of the table is missing or damaged.
        """
        import polars as pl

        from bentpipe.store.scan import GROUP, grouped, scan

        lazy = scan(self.load_index(), name, runs)
        if lazy is None:
            return pl.DataFrame(schema={"run": pl.String})
        if where is not None:
            lazy = lazy.filter(where)
        with readable(self.path, name):
            group = [GROUP] if name == "flow_summary" else []  # a flow always has its group
            rows = (lazy if columns is None else lazy.select("run", *columns, *group)).collect()
        if GROUP in rows.columns:
            group_or_flow = pl.col(GROUP).fill_null(pl.col("flow"))
            rows = (
                rows.select("run", group_or_flow, pl.exclude("run", GROUP))
                if grouped(rows)
                else rows.drop(GROUP)
            )
        texts = [column for column, type_ in rows.schema.items() if type_ in (pl.Categorical, pl.Enum)]
        return rows.with_columns(pl.col(texts).cast(pl.String))

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Swept quantities with a numeric column; empty unless ``numbers``."""
        from bentpipe.store.numeric_columns import axes

        return axes(run["cell"] for run in self.planned) if self.numbers else ()

    def scan(self, name: str) -> pl.LazyFrame:
        """Return table ``name`` of all finished runs as a lazy frame, in the order of the plan.

        The call verifies the checksums of the table's files. Collecting the frame reads rows, and only the columns in
        use.

        Raises:
            StoreError: no such table, no finished run, or a damaged run.
        """
        if name == "runs":
            return self.runs.lazy()
        if name not in TABLES:
            raise StoreError(f"no table {name!r}, expected one of: runs, {', '.join(TABLES)}")
        from bentpipe.store.numeric_columns import add_numeric_columns
        from bentpipe.store.scan import GROUP, grouped, scan

        index = self.load_index()
        rows = self._frame(index, self.keys)
        table = scan(index, name)
        if table is None:
            raise MissingTableError(f"{self.path}: no finished run has a table {name!r}")
        with readable(self.path, name):
            if name == "flow_summary" and not grouped(table):
                table = table.drop(GROUP)
            names = table.collect_schema().names()
        headings = column_headings({column_name(key): key for key in self.keys}, names)
        cells = rows.rename({key: headings[column_name(key)] for key in self.keys})
        joined = table.join(cells.lazy(), on="run", how="left", maintain_order="left")
        ordered = joined.select(*cells.columns, *(name for name in names if name != "run"))
        return add_numeric_columns(ordered, self.axes, {key: headings[column_name(key)] for key in self.keys})

    def table(self, name: str) -> pl.DataFrame:
        """Return table ``name`` of all finished runs, in the order of the plan.

        Raises:
            StoreError: as :meth:`scan`.
        """
        table = self.scan(name)
        with readable(self.path, name):
            return table.collect()

    def files(self, suffix: str) -> list[Path]:
        """Return the verified files that are not tables and whose name ends in ``suffix``, in the order of the plan.

        Runs with traces are never packed.

        Raises:
            StoreError: a file is damaged.
        """
        index = self.load_index()
        folders = (index.folders[run["id"]] for run in self.planned if run["id"] in index.folders)
        files = [
            (folder, name)
            for folder in folders
            for name in sorted(folder.files)
            if folder.packed is None and name.endswith(suffix)
        ]
        index.check(files)
        return [self.path / folder.name / name for folder, name in files]

    def specs(self, runs: Sequence[str]) -> dict[str, RunSpec]:
        """Return the specification of each of ``runs``, by id.

        Raises:
            StoreError: a specification is damaged; the message names it.
        """
        from bentpipe.store.pack import specs

        return specs(self.load_index(), runs)

    def connect(
        self,
        *,
        unrestricted: bool = False,
        memory: str | None = None,
        threads: int | None = None,
        spill: str | None = None,
        computed: Mapping[str, Callable[[], pl.DataFrame]] | None = None,
    ) -> Answers:
        """Return a DuckDB connection with one view for each table, joined with run id, seed and cell.

        Args:
            unrestricted: permit access beyond the tables, to other files and the network.
            memory: maximum memory of a query; ``"2 GB"`` by default.
            threads: processors of a query; by default those that this process may use.
            spill: maximum temporary files of a query; ``"4 GB"`` by default.
            computed: functions that compute further tables, by name.

        Raises:
            StoreError: no finished run, or a damaged one.
            ScenarioError: invalid limit.
        """
        from bentpipe.store.query_limits import QueryLimits
        from bentpipe.store.sql import connect

        limits = QueryLimits.parse(memory, threads, spill)
        return connect(self, TABLES, unrestricted=unrestricted, limits=limits, computed=computed)


def open_store(path: Path | str | Store) -> Store:
    """Return a snapshot of the store at ``path``, or of an open store.

    Raises:
        EmptyStoreError: no store, or no finished run.
        StoreError: the store is unreadable, or runs are damaged; the message names them.
    """
    return (path if isinstance(path, Store) else Store(path)).still()
