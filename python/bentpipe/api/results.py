"""Results of a store: tables as frames, metrics and figures."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import unknown_name
from bentpipe.store.files import StoreError
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Sequence

    import altair
    import polars as pl

    from bentpipe.figures.figure import Figure
    from bentpipe.figures.registry import FigureContext
    from bentpipe.metrics.compare import Comparison

__all__ = ["Results"]


class Results(Store):
    """Store with tables, metrics and figures, and with a representation in notebooks.

    The first columns of every frame are the cell: the swept keys as text and, after each quantity, a column of numbers
    in its unit (``path.satellite.delay`` is ``"250 ms"``, ``path.satellite.delay_s`` is 0.25).

    A store without ``out`` is in a temporary directory, which exists as long as this object.
    """

    def __init__(self, path: str | Path, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """Open the store at ``path``, in the directory ``temporary`` if given. Raises StoreError without a store."""
        super().__init__(path, numbers=True)
        self._temporary = temporary
        self._cached_context: tuple[frozenset[str], FigureContext] | None = None

    def __repr__(self) -> str:
        """Return title, number of runs and path."""
        return f"<bentpipe results: {self.title}, {len(self.finished())} of {len(self.planned)} runs, {self.path}>"

    def _repr_html_(self) -> str | None:
        try:
            from bentpipe.report.notebook import html, without_runs
        except ImportError:
            return None
        try:
            return html(self.path)
        except StoreError as error:
            return without_runs(self.title, str(error))

    @property
    def metrics(self) -> pl.DataFrame:
        """Metrics, one row per run, flow (or group of flows) and direction.

        The columns are ``run, seed``, the cell, ``flow, direction``, and goodput, completion times, fairness and others
        (docs/manual/report.md defines them). Units are in the names: ``_bit_s``, ``_s``, ``_ms``, ``_bytes``; a ratio
        is a share of 1. A missing value is null.

        Raises:
            StoreError: no finished run, or a damaged one.
        """
        return self._to_frame(self._context().metrics)

    @property
    def cells(self) -> pl.DataFrame:
        """Metrics over seeds, one row per cell, flow, direction and ``metric``, as printed by ``bentpipe show --json``.

        The columns are ``n`` seeds, their ``mean`` and ``median``, and the bounds of the 95 % intervals
        (``mean_low``...; null with too few seeds). Raises StoreError as :attr:`metrics`.
        """
        from bentpipe.metrics.compute import aggregate_seeds
        from bentpipe.metrics.groups import OVER_FLOWS
        from bentpipe.metrics.registry import OVER_SEEDS

        context = self._context()
        of_groups = [name for name in ("flows", *OVER_FLOWS) if name in context.metrics.columns]
        return self._to_frame(aggregate_seeds(context.metrics, context.store.keys, [*OVER_SEEDS, *of_groups]))

    @property
    def user_metrics(self) -> pl.DataFrame:
        """Metrics of each user of a shared link, one row per run, user and direction.

        They are goodput, queueing delays, drops by cause and airtime (docs/manual/results.md). The frame is empty if
        the store does not distinguish users. Raises StoreError as :attr:`metrics`.
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
            StoreError: as :attr:`metrics`.
        """
        from bentpipe.metrics.call_quality import RatingConfig, parse, rate_calls

        return self._to_frame(
            rate_calls(self._context().store, RatingConfig(codec, parse(playout), advantage, plc))
        )

    def figure(self, key: str, range: str | None = None) -> altair.TopLevelMixin:  # noqa: A002 - the name of the option
        """Return a figure of the report as an Altair chart, for notebooks and ``.save("x.svg")``.

        Args:
            key: the figure, such as ``"cwnd"``; :meth:`figures` lists the available ones.
            range: time range of a time series: ``"30 s"`` is the first 30 s, ``"10 s..80 s"`` a part.

        Raises:
            ValueError: unknown figure, a figure without data in this store, or an invalid range.
            StoreError: no finished run, or a damaged one.
        """
        import altair as alt

        return alt.Chart.from_dict(self._figure(key, range).whole())

    def figures(self) -> list[str]:
        """Return the keys of the figures with data in this store, in the order of the report. Raises StoreError."""
        from bentpipe.figures.registry import figures

        return [figure.key for figure in figures(self._context())]

    def report(self, out: str | Path | None = None, range: str | None = None) -> Path:  # noqa: A002
        """Write the HTML report, one self-contained file, and return its path.

        Args:
            out: the file; by default ``report.html`` in the store.
            range: time range of the time series, as in :meth:`figure`.

        Raises:
            StoreError: no finished run, or a damaged one.
            ValueError: an invalid range.
        """
        from bentpipe.figures.registry import parse_range
        from bentpipe.report.store_page import write_report

        return write_report(self, Path(out) if out is not None else None, parse_range(range))

    def diff(self, after: Store | str | Path) -> Comparison:
        """Compare this store with ``after`` by pairs of runs: effects with 95 % intervals and verdicts.

        Returns:
            ``.frame()`` has one row per metric, cell, flow and direction; ``.regressed`` is whether a metric got worse;
            ``.notes`` lists the differences of the scenarios.

        Raises:
            StoreError: a store without finished runs, or a damaged one.
            ValueError: no pair of runs with the same cell and seed.
        """
        from bentpipe.metrics.store_comparison import compare_stores
        from bentpipe.runners import engine

        return compare_stores(self, after, catalogue=engine.catalogue)

    def sql(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        *,
        memory: str | None = None,
        threads: int | None = None,
        spill: str | None = None,
    ) -> pl.DataFrame:
        """Return the result of a DuckDB query as a frame.

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
            ScenarioError: an invalid limit.
            duckdb.Error: an invalid query.
        """
        with self.connect(memory=memory, threads=threads, spill=spill) as connection:
            relation = (
                connection.sql(query)
                if parameters is None
                else connection.sql(query, params=list(parameters))
            )
            return _to_polars(relation)

    def _context(self, range: str | None = None) -> FigureContext:  # noqa: A002
        """Return the context of the runs finished now, cached for the same runs."""
        from bentpipe.figures.registry import FigureContext, parse_range
        from bentpipe.store.reader import open_store

        runs = frozenset(self.load_index().folders)
        if self._cached_context is None or self._cached_context[0] != runs:
            self._cached_context = None  # free the old frames before the new ones are computed
            self._cached_context = (runs, FigureContext(open_store(self)))
        context = self._cached_context[1]
        return context if range is None else FigureContext(context.store, parse_range(range))

    def _figure(self, key: str, range: str | None) -> Figure:  # noqa: A002
        from bentpipe.figures.registry import FIGURES

        if key not in FIGURES:
            raise ValueError(f"figure: {unknown_name(key, FIGURES, 'figure')}")
        figure = FIGURES[key](self._context(range))
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


_POLARS_TYPES = {
    "BOOLEAN": "Boolean", "VARCHAR": "String", "FLOAT": "Float32", "DOUBLE": "Float64", "DECIMAL": "Float64",
    "TINYINT": "Int8", "SMALLINT": "Int16", "INTEGER": "Int32", "BIGINT": "Int64", "HUGEINT": "Int64",
    "UTINYINT": "UInt8", "USMALLINT": "UInt16", "UINTEGER": "UInt32", "UBIGINT": "UInt64",
}  # fmt: skip
"""Polars type of each DuckDB type. A sum of integers is a HUGEINT and usually fits into 64 bits."""


def _to_polars(relation: Any) -> pl.DataFrame:
    """Return a relation of DuckDB as a frame; without columns if a statement has no result."""
    import polars as pl

    from bentpipe.store.sql import unique_names

    if relation is None:
        return pl.DataFrame()
    names, kinds, rows = (
        unique_names(relation.columns),
        [str(kind) for kind in relation.types],
        relation.fetchall(),
    )
    columns = []
    for index, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        values = [row[index] for row in rows]
        if kind.startswith("DECIMAL"):
            values = [float(value) if isinstance(value, Decimal) else value for value in values]
        is_wide = kind == "HUGEINT" and any(abs(value) >= 2**63 for value in values if value is not None)
        type_name = "Int128" if is_wide else _POLARS_TYPES.get(kind.partition("(")[0])
        columns.append(
            pl.Series(name, values, dtype=getattr(pl, type_name) if type_name else None, strict=True)
        )
    return pl.DataFrame(columns)
