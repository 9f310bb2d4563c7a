"""Reading a store: one directory a scenario, one directory of Parquet files in it for each finished run.

::

    DIR/scenario.toml           the scenario, verbatim
    DIR/plan.json               title, engine, overrides, and every run: id, cell of the sweep, seed
    DIR/runs/ID/TABLE.parquet   measurements (docs/manual/results.md), with spec.json, the resolved run, and traces
    DIR/runs/ID/SHA256SUMS      what the run consists of, and its checksums
    DIR/packs/NAME/             many runs as one (bentpipe.store.pack)
    DIR/journal.jsonl           when, where and with what it ran: outside the promise of equal bytes

Whatever is read is compared with its checksum first; what is not there any more, or is not what was written, is named,
and a resume makes it again. Rows come in the plan's order of runs and in the order in which a run wrote them, so
everything computed from them is the same on every machine.
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
    from collections.abc import Iterable, Sequence

    import polars as pl

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.numeric_columns import Axis
    from bentpipe.store.sql import Answers

__all__ = ["Store", "open_store"]


class Store(Frames):
    """A store, for reading. Tables are frames with the run's id, seed and cell in front.

    ``store.flows``, ``.links``, ``.summary``... and ``.runs`` are Polars frames, read when they are asked for, of the
    runs that are finished then; of :meth:`still`, of those that were finished when it was made.

    Statistics and figures read ``index`` and ``rows``, whose columns of the sweep (``columns``) have names that no
    other column can have, and join them.
    """

    def __init__(self, path: str | Path, *, numbers: bool = False) -> None:
        """Opens the store at ``path``; with ``numbers``, swept quantities are columns of numbers too
        (:mod:`bentpipe.store.numeric_columns`). Raises StoreError when there is none."""
        self.path = Path(path)
        if lack := lack_of_address_space():
            raise StoreError(f"{self.path} cannot be read: {lack}")
        self.numbers = numbers
        plan = plan_file.read(self.path)
        self.title = plan.title or self.path.resolve().name
        self.engine, self.schema = plan.engine, plan.schema
        self.overrides, self.planned = plan.overrides, plan.planned
        self._plan = plan
        self._kept: StoreIndex | None = None
        self._index: pl.DataFrame | None = None
        self._ends: pl.DataFrame | None = None

    def still(self) -> Self:
        """The store as it is now: runs that finish later do not appear in it.

        Raises:
            NothingRunError: no run has finished.
            StoreError: runs are damaged; it says which.
        """
        if self._kept is not None:
            return self
        kept = self.kept()
        if not kept.folders:
            raise EmptyStoreError(f"{self.path}: no run has finished ({len(self.planned)} are planned)")
        found = copy.copy(self)
        found.path = self.path.resolve()
        found._kept = dataclasses.replace(kept, store=found.path)  # noqa: SLF001 - one of its own
        return found

    @property
    def scenario(self) -> str:
        """The scenario's text. Raises StoreError when it cannot be read, or is not what was written."""
        file = self.path / "scenario.toml"
        try:
            written = read_input(file, links=False)
            text = written.decode()
        except (OSError, UnicodeDecodeError):
            raise StoreError(f"{self.path}: its scenario.toml is missing or cannot be read") from None
        if self._plan.scenario not in (None, checksum(written)):
            what = "is damaged: it is not what was written; the command that made the store writes it anew"
            raise StoreError(f"{file} {what}")
        return text

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Keys of the sweep, in its order, as the scenario has them."""
        return tuple(dict.fromkeys(key for run in self.planned for key in run["cell"]))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The sweep's columns in frames that are computed with: the keys, never called like another column."""
        return tuple(map(column_name, self.keys))

    def finished(self) -> list[dict[str, Any]]:
        """Planned runs that are in the store with all their files, in the plan's order."""
        there = self._look().folders
        return [run for run in self.planned if run["id"] in there]

    def kept(self) -> StoreIndex:
        """The finished runs as they are on the disk now. Raises StoreError that names those that are damaged."""
        kept = self._look()
        kept.refuse()
        return kept

    @property
    def summed(self) -> bool:
        """Whether every run has checksums: those that were made before there were any may have none."""
        return self._plan.summed

    def is_of(self, scenario: str) -> bool:
        """Whether this is the store of a scenario, even where its own copy is damaged."""
        if self._plan.scenario is not None:
            return self._plan.scenario == checksum(scenario.encode())
        return self.scenario == scenario

    def _look(self) -> StoreIndex:
        if self._kept is not None:
            return self._kept
        return build_index(self.path, [run["id"] for run in self.planned], self._plan.summed)

    @property
    def runs(self) -> pl.DataFrame:
        """One row per finished run: ``run``, ``seed``, and the sweep's keys as text. Raises StoreError as kept()."""
        from bentpipe.store.numeric_columns import add_numeric_columns

        return add_numeric_columns(self._frame(self.kept(), self.keys).lazy(), self.axes).collect()

    @property
    def index(self) -> pl.DataFrame:
        """The same for computing: the sweep's keys are called as :attr:`columns`, and have no numbers beside them."""
        if self._index is not None:
            return self._index
        index = self._frame(self.kept(), self.columns)
        if self._kept is not None:
            self._index = index
        return index

    def _frame(self, kept: StoreIndex, keys: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        schema = {"run": pl.String, "seed": pl.Int64, **dict.fromkeys(keys, pl.String)}
        return pl.DataFrame(dict(zip(schema, self.lists_of(kept), strict=True)), schema=schema)

    def lists_of(self, kept: StoreIndex) -> list[list[Any]]:
        """Of the runs of ``kept``, in the plan's order: ids, seeds, and the values of each key of the sweep as text."""
        rows = (
            self.planned
            if len(kept.folders) == len(self.planned)
            else [run for run in self.planned if run["id"] in kept.folders]
        )
        cells = [row["cell"] for row in rows]
        values = ([cell.get(key) for cell in cells] for key in self.keys)
        texts = ([one if type(one) is str else text(one) for one in column] for column in values)
        return [[row["id"] for row in rows], [row["seed"] for row in rows], *texts]

    @property
    def ends(self) -> pl.DataFrame:
        """The instant of the last sample of every run: ``run, end_s``."""
        import polars as pl

        if self._ends is not None:
            return self._ends
        from bentpipe.store.scan import scan

        found = scan(self.kept(), "links")
        if found is None:
            return pl.DataFrame(schema={"run": pl.String, "end_s": pl.Float64})
        last = pl.col("time_s").max().alias("end_s")
        with readable(self.path, "links"):
            ends = found.select("run", "time_s").group_by("run", maintain_order=True).agg(last).collect()
        if self._kept is not None:
            self._ends = ends
        return ends

    def shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame`` with the sweep's columns under the names that the scenario has for them, where these are free."""
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
        """Table ``name`` of all finished runs (or of ``runs``), with the run's id in ``run`` and no cell.

        ``where`` chooses rows, by any of the table's columns, while they are read. Text is ``String`` whatever the file
        holds. Runs that were made without the table are left out; when none has it, the frame is empty and has no
        columns but ``run``.

        Raises:
            StoreError: a run's table is not there any more, or not what was written; it is named.
        """
        import polars as pl

        from bentpipe.store.scan import GROUP, grouped, scan

        found = scan(self.kept(), name, runs)
        if found is None:
            return pl.DataFrame(schema={"run": pl.String})
        if where is not None:
            found = found.filter(where)
        with readable(self.path, name):
            group = [GROUP] if name == "summary" else []  # where there are groups, a flow's is always with it
            rows = (found if columns is None else found.select("run", *columns, *group)).collect()
        if GROUP in rows.columns:
            named = pl.col(GROUP).fill_null(pl.col("flow"))
            rows = rows.select("run", named, pl.exclude("run", GROUP)) if grouped(rows) else rows.drop(GROUP)
        texts = [column for column, kind in rows.schema.items() if kind in (pl.Categorical, pl.Enum)]
        return rows.with_columns(pl.col(texts).cast(pl.String))

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Swept quantities that have a column of numbers; none unless ``numbers``."""
        from bentpipe.store.numeric_columns import axes

        return axes(run["cell"] for run in self.planned) if self.numbers else ()

    def scan(self, name: str) -> pl.LazyFrame:
        """Table ``name`` of all finished runs, in the plan's order, as a lazy frame.

        The checksums of the table's files are compared now; rows are read when the frame is collected, and of these
        only the columns that are asked for.

        Raises:
            StoreError: no such table, no finished run, or a run that is damaged.
        """
        if name == "runs":
            return self.runs.lazy()
        if name not in TABLES:
            raise StoreError(f"no table {name!r}, expected one of: runs, {', '.join(TABLES)}")
        from bentpipe.store.numeric_columns import add_numeric_columns
        from bentpipe.store.scan import GROUP, grouped, scan

        kept = self.kept()
        rows = self._frame(kept, self.keys)
        found = scan(kept, name)
        if found is None:
            raise MissingTableError(f"{self.path}: no finished run has a table {name!r}")
        with readable(self.path, name):
            if name == "summary" and not grouped(found):
                found = found.drop(GROUP)
            there = found.collect_schema().names()
        called = column_headings({column_name(key): key for key in self.keys}, there)
        cells = rows.rename({key: called[column_name(key)] for key in self.keys})
        joined = found.join(cells.lazy(), on="run", how="left", maintain_order="left")
        placed = joined.select(*cells.columns, *(name for name in there if name != "run"))
        return add_numeric_columns(placed, self.axes, {key: called[column_name(key)] for key in self.keys})

    def table(self, name: str) -> pl.DataFrame:
        """Table ``name`` of all finished runs, in the plan's order.

        Raises:
            StoreError: as :meth:`scan`.
        """
        found = self.scan(name)
        with readable(self.path, name):
            return found.collect()

    def files(self, suffix: str) -> list[Path]:
        """Files beside the tables whose name ends in ``suffix``, in the plan's order, as they were written.

        Runs that have traces are never packed. Raises StoreError.
        """
        kept = self.kept()
        folders = (kept.folders[run["id"]] for run in self.planned if run["id"] in kept.folders)
        found = [
            (folder, name)
            for folder in folders
            for name in sorted(folder.files)
            if folder.packed is None and name.endswith(suffix)
        ]
        kept.check(found)
        return [self.path / folder.name / name for folder, name in found]

    def specs(self, runs: Sequence[str]) -> dict[str, RunSpec]:
        """What each of ``runs`` resolved to, by id. Raises StoreError that names one that is damaged."""
        from bentpipe.store.pack import specs

        return specs(self.kept(), runs)

    def connect(
        self,
        *,
        unrestricted: bool = False,
        memory: str | None = None,
        threads: int | None = None,
        spill: str | None = None,
    ) -> Answers:
        """DuckDB with one view a table, each joined with the run's id, seed and cell.

        It reaches these tables and nothing else, neither another file nor the network, unless ``unrestricted``.

        Args:
            unrestricted: whether SQL may reach whatever this process may.
            memory: a query that needs more ends; ``"2 GB"`` by default.
            threads: processors that a query uses; by default those that this process may use.
            spill: temporary files that a query may write; ``"4 GB"`` by default.

        Raises:
            StoreError: no finished run, or one that is damaged.
            ScenarioError: a limit that is none.
        """
        from bentpipe.store.query_limits import QueryLimits
        from bentpipe.store.sql import connect

        limits = QueryLimits.parse(memory, threads, spill)
        return connect(self, TABLES, unrestricted=unrestricted, limits=limits)


def open_store(path: Path | str | Store) -> Store:
    """The store at ``path``, or one that is open, as it is now.

    Raises:
        NothingRunError: it is not there, or no run of it has finished.
        StoreError: it cannot be read, or runs are damaged; it says which.
    """
    return (path if isinstance(path, Store) else Store(path)).still()
