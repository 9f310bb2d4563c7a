"""Results of a store: tables as frames, metrics and figures."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from bentpipe.scenario.errors import unknown_name
from bentpipe.store.codec import TABLES
from bentpipe.store.files import StoreError
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import altair
    import pandas
    import polars as pl
    import pyarrow

    from bentpipe.figures.figure import Figure
    from bentpipe.figures.registry import FigureContext
    from bentpipe.metrics.compare import Comparison
    from bentpipe.store.index import StoreIndex
    from bentpipe.store.sql import Answers

__all__ = ["Form", "Results", "TemporaryDirectory"]

Form = Literal["wide", "long"]
FORMS: tuple[Form, ...] = ("wide", "long")
"""Wide: one column for each metric. Long: one row for each metric."""


class TemporaryDirectory:
    """Temporary directory, removed with its last user, at :meth:`close` or at the exit of the process.

    Python's own class warns (ResourceWarning) unless somebody closes it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="bentpipe-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    @property
    def closed(self) -> bool:
        """Whether the directory is removed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Remove the directory; repeated calls are valid."""
        self._finalizer()


class Results(Store):
    """Store with tables, metrics and figures, and with a representation in notebooks.

    The first columns of every frame are the cell: the swept keys as text. After each quantity follows a column of
    numbers in its unit: ``path.satellite.delay`` is ``"250 ms"``, ``path.satellite.delay_s`` is 0.25.

    A store without ``out`` is in a temporary directory. It exists as long as this object, and :meth:`close` or a
    ``with`` block removes it earlier.
    """

    def __init__(self, path: str | Path, temporary: TemporaryDirectory | None = None) -> None:
        """Open the store at ``path``, in the directory ``temporary`` if given. Raises StoreError without a store."""
        self._temporary = temporary
        super().__init__(path, numbers=True)
        self._cached_context: tuple[frozenset[str], FigureContext] | None = None

    def __repr__(self) -> str:
        """Return title, number of runs and path."""
        if self._is_closed():
            return f"<bentpipe results: {self.title}, closed>"
        return f"<bentpipe results: {self.title}, {len(self.finished())} of {len(self.planned)} runs, {self.path}>"

    def __dir__(self) -> list[str]:
        """Return the documented names; the names that statistics and figures use are left out."""
        special = [name for name in super().__dir__() if name.startswith("__")]
        return sorted({*special, *_NAMES, *TABLES})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove a temporary store; a store in ``out`` stays. Repeated calls are valid."""
        self._cached_context = None
        if self._temporary is not None:
            self._temporary.close()

    def _is_closed(self) -> bool:
        return self._temporary is not None and self._temporary.closed

    def _find_index(self) -> StoreIndex:
        if self._is_closed():
            raise StoreError("the temporary store is closed; run with out=DIR to keep the results")
        return super()._find_index()

    def _repr_html_(self) -> str | None:
        from bentpipe.report.notebook import html, without_runs

        try:
            return html(self)
        except StoreError as error:
            return without_runs(self.title, str(error))

    def metrics(self, form: Form = "wide") -> pl.DataFrame:
        """Return the metrics of each run, flow (or group of flows) and direction.

        Each page load and bundle client has a row without direction.

        The wide form has one column for each metric. Its columns are ``run, seed``, the cell, ``flow, direction``, and
        goodput, completion times, fairness and others (docs/reference/metrics.md defines them). Units are in the names:
        ``_bit_s``, ``_s``, ``_ms``, ``_bytes``; a ratio is a share of 1. A missing value is null. The long form has one
        row for each number, with the name in ``metric`` and the number in ``value``.

        Args:
            form: ``"wide"`` or ``"long"``.

        Raises:
            StoreError: no finished run, or a damaged one.
            ValueError: unknown form.
        """
        _check_form(form)
        frame = self._all_metrics()
        return self._to_frame(frame if form == "wide" else _to_long(frame, self._context().store.columns))

    def _all_metrics(self) -> pl.DataFrame:
        from bentpipe.metrics.store_metrics import store_metrics

        context = self._context()
        return store_metrics(context.store, context.metrics)

    def cells(self, form: Form = "long") -> pl.DataFrame:
        """Return the metrics over seeds of each cell, flow and direction, as ``bentpipe show --json`` prints them.

        The long form has one row for each ``metric``: ``n`` seeds, their ``mean`` and ``median``. ``mean_low`` and its
        like are the bounds of the 95 % intervals; they are null with too few seeds. The wide form has one column for
        each metric, with its mean.

        Args:
            form: ``"long"`` or ``"wide"``.

        Raises:
            StoreError: no finished run, or a damaged one.
            ValueError: unknown form.
        """
        _check_form(form)
        from bentpipe.metrics.store_metrics import cell_metrics

        frame = cell_metrics(self._all_metrics(), self._context().store.keys)
        if form == "wide":
            frame = frame.drop("n", "mean_low", "mean_high", "median", "median_low", "median_high")
            frame = frame.pivot(
                on="metric", on_columns=frame["metric"].unique(maintain_order=True).to_list(), values="mean",
                index=[name for name in frame.columns if name not in ("metric", "mean")],
                aggregate_function="first",
            )  # fmt: skip
        return self._to_frame(frame)

    def user_metrics(self) -> pl.DataFrame:
        """Return the metrics of each user of a shared link, one row per run, user and direction.

        They are goodput, queueing delays, drops by cause and airtime (docs/reference/results.md). The frame is empty if
        the store does not distinguish users. Raises StoreError as :meth:`metrics`.
        """
        users = self._context().users
        return self._to_frame(users) if users.width else users

    def rate_calls(
        self, codec: str | None = None, playout: str = "adaptive", advantage: float = 0.0, *, plc: bool = True
    ) -> pl.DataFrame:
        """Return the rated calls, one row per run, flow and direction, with late loss, R and MOS.

        Args:
            codec: the codec of all calls; None for that of each call.
            playout: play-out buffer: ``"60 ms"``, a percentile such as ``"p99"``, or ``"adaptive"``.
            advantage: advantage factor of the access (ITU-T G.107 clause 7.6): 20 by satellite.
            plc: whether lost speech is concealed, if the codec leaves that open.

        Raises:
            ScenarioError: an invalid codec or advantage.
            PlayoutError: an invalid play-out (a ValueError).
            StoreError: as :meth:`metrics`.
        """
        from bentpipe.metrics.call_quality import RatingConfig, parse, rate_calls

        return self._to_frame(
            rate_calls(self._context().store, RatingConfig(codec, parse(playout), advantage, plc))
        )

    def figure(self, key: str, time_range: str | None = None) -> altair.TopLevelMixin:
        """Return a figure of the report as an Altair chart, for notebooks and ``.save("x.svg")``.

        Args:
            key: the figure, such as ``"cwnd"``; :meth:`figures` lists the available ones.
            time_range: part of a time series: ``"30 s"`` is the first 30 s, ``"10 s..80 s"`` a part.

        Raises:
            ValueError: unknown figure, a figure without data in this store, or an invalid range.
            StoreError: no finished run, or a damaged one.
        """
        import altair as alt

        return alt.Chart.from_dict(self._figure(key, time_range).whole())

    def figures(self) -> list[str]:
        """Return the keys of the figures with data in this store, in the order of the report. Raises StoreError."""
        from bentpipe.figures.registry import figures

        return [figure.key for figure in figures(self._context())]

    def report(self, out: str | Path | None = None, time_range: str | None = None) -> Path:
        """Write the HTML report, one self-contained file, and return its path.

        Args:
            out: the file; by default ``report.html`` in the store.
            time_range: part of the time series, as in :meth:`figure`.

        Raises:
            StoreError: no finished run, or a damaged one.
            ValueError: an invalid range.
        """
        from bentpipe.figures.registry import parse_range
        from bentpipe.report.store_page import write_report

        return write_report(self, Path(out) if out is not None else None, parse_range(time_range))

    def diff(self, after: Store | str | Path) -> Comparison:
        """Compare this store with ``after`` by pairs of runs: effects with 95 % intervals and verdicts.

        Returns:
            ``.frame()`` has one row per metric, cell, flow and direction; ``.regressed`` states whether a metric got
            worse; ``.notes`` lists the differences of the scenarios.

        Raises:
            StoreError: a store without finished runs, or a damaged one.
            ValueError: no pair of runs with the same cell and seed.
        """
        from bentpipe.metrics.store_comparison import compare_stores
        from bentpipe.runners import engine

        return compare_stores(self, after, catalogue=engine.catalogue)

    def connect(
        self,
        *,
        unrestricted: bool = False,
        memory: str | None = None,
        threads: int | None = None,
        spill: str | None = None,
        computed: Mapping[str, Callable[[], pl.DataFrame]] | None = None,
    ) -> Answers:
        """Return a DuckDB connection with one view for each table, and the tables of metrics.

        Args:
            unrestricted: permit access beyond the tables, to other files and the network.
            memory: maximum memory of a query; ``"2 GB"`` by default.
            threads: processors of a query; by default those that this process may use.
            spill: maximum temporary files of a query; ``"4 GB"`` by default.
            computed: functions that compute further tables, by name; None: those of metrics.

        Raises:
            StoreError: no finished run, or a damaged one.
            ScenarioError: invalid limit.
        """
        from bentpipe.metrics.computed_tables import computed_tables

        computed = computed_tables(self) if computed is None else computed
        return super().connect(
            unrestricted=unrestricted, memory=memory, threads=threads, spill=spill, computed=computed
        )

    def sql(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        *,
        memory: str | None = None,
        threads: int | None = None,
        spill: str | None = None,
    ) -> pl.DataFrame:
        """Return the result of a DuckDB query as a frame; the rows pass as Arrow data.

        Each table is a view, joined with run, seed, cell and numbers. :meth:`connect` returns a connection for several
        queries.

        Args:
            query: the SQL statement.
            parameters: values of the ``?`` in it.
            memory: memory limit, as in :meth:`connect`.
            threads: thread limit, as in :meth:`connect`.
            spill: limit of temporary files, as in :meth:`connect`.

        Raises:
            StoreError: no finished run, a damaged one, or a query that accesses other data or exceeds its limits.
            QueryError: an invalid query (a StoreError).
            ScenarioError: an invalid limit.
        """
        import duckdb

        from bentpipe.store.query_frame import to_polars

        with self.connect(memory=memory, threads=threads, spill=spill) as connection:

            def answer() -> pl.DataFrame:
                options = {} if parameters is None else {"params": list(parameters)}
                return to_polars(connection.sql(query, **options))

            try:
                return connection.guard(answer)
            except duckdb.Error as error:
                raise connection.to_query_error(error) from error

    def to_pandas(self, name: str, form: Form | None = None) -> pandas.DataFrame:
        """Return a table, or the metrics, as a frame of pandas (``pip install pandas pyarrow``).

        Args:
            name: a table such as ``"flows"``, ``"runs"``, ``"metrics"``, ``"cells"`` or ``"user_metrics"``.
            form: form of ``metrics`` and ``cells``.

        Raises:
            ImportError: pandas or pyarrow is not installed.
            StoreError: as :meth:`table`.
            ValueError: a form of another table, or an unknown one.
        """
        from bentpipe.store.query_frame import require

        require("pandas", "pyarrow")
        return self._named_frame(name, form).to_pandas()

    def to_arrow(self, name: str, form: Form | None = None) -> pyarrow.Table:
        """Return a table, or the metrics, as a table of Arrow (``pip install pyarrow``).

        The arguments are those of :meth:`to_pandas`. Frames of Polars also pass to other programs without pyarrow, by
        the Arrow PyCapsule interface.

        Raises:
            ImportError: pyarrow is not installed.
            StoreError: as :meth:`table`.
            ValueError: a form of another table, or an unknown one.
        """
        from bentpipe.store.query_frame import require

        require("pyarrow")
        return self._named_frame(name, form).to_arrow()

    def _named_frame(self, name: str, form: Form | None) -> pl.DataFrame:
        """Return the frame of a table or of metrics."""
        forms = {"metrics": self.metrics, "cells": self.cells}
        if name in forms:
            return forms[name]() if form is None else forms[name](form)
        if form is not None:
            raise ValueError(f'form: found "{form}" for "{name}", expected it for metrics or cells only')
        return self.user_metrics() if name == "user_metrics" else self.table(name)

    def _context(self, time_range: str | None = None) -> FigureContext:
        """Return the context of the runs finished now, cached for the same runs."""
        from bentpipe.figures.registry import FigureContext, parse_range
        from bentpipe.store.reader import open_store

        runs = frozenset(self.load_index().folders)
        if self._cached_context is None or self._cached_context[0] != runs:
            self._cached_context = None  # free the old frames before the new ones are computed
            self._cached_context = (runs, FigureContext(open_store(self)))
        context = self._cached_context[1]
        return context if time_range is None else FigureContext(context.store, parse_range(time_range))

    def _figure(self, key: str, time_range: str | None) -> Figure:
        from bentpipe.figures.registry import FIGURES

        if key not in FIGURES:
            raise ValueError(f"figure: {unknown_name(key, FIGURES, 'figure')}")
        figure = FIGURES[key](self._context(time_range))
        if figure is None:
            raise ValueError(
                f'figure: {self.title} has nothing for "{key}"; figures() lists the available figures'
            )
        return figure

    def _to_frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame with the keys of the scenario as names, if these are unique, and with numeric columns."""
        from bentpipe.scenario.sweep_columns import column_name
        from bentpipe.store.numeric_columns import add_numeric_columns

        named = self._context().store.shown(frame)
        names = {key: key if key in named.columns and column_name(key) not in named.columns else column_name(key)
                  for key in self.keys}  # fmt: skip
        return add_numeric_columns(named.lazy(), self.axes, names).collect()


_NAMES = (
    "cells", "close", "columns", "connect", "diff", "engine", "figure", "figures", "finished", "keys", "metrics",
    "path", "planned", "rate_calls", "report", "runs", "scan", "scenario", "settings", "sql", "table", "title",
    "to_arrow", "to_pandas", "user_metrics",
)  # fmt: skip
"""Documented names of :class:`Results` beside its tables (docs/how-to/python.md)."""


def _check_form(form: str) -> None:
    if form not in FORMS:
        raise ValueError(f"form: {unknown_name(str(form), FORMS, 'form')}")


def _to_long(metrics: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the long form of metrics: one row for each number."""
    import polars as pl
    import polars.selectors as cs

    index = [
        name
        for name in ("run", "seed", *keys, "flow", "direction", "load", "protocol", "congestion")
        if name in metrics.columns
    ]
    numbers = metrics.select(cs.numeric() | cs.boolean()).columns
    values = [name for name in numbers if name not in index]
    order = pl.int_range(pl.len(), dtype=pl.Int64).alias("_row")
    floats = metrics.with_columns(order, pl.col(values).cast(pl.Float64))
    long = floats.unpivot(values, index=["_row", *index], variable_name="metric", value_name="value")
    return long.sort("_row", maintain_order=True).drop("_row").drop_nulls("value")
