"""Results: a store's tables as frames, and what is computed and drawn from them."""

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
    """A store whose tables, metrics and figures are at hand, and which shows itself in a notebook.

    Every frame has the cell in front: the sweep's keys as text, and behind each that is a quantity a column of numbers
    in its unit (``path.satellite.delay`` is ``"250 ms"``, ``path.satellite.delay_s`` is 0.25).

    One made without ``out`` lives in a temporary directory, as long as this object does.
    """

    def __init__(self, path: str | Path, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """Opens the store at ``path``; keeps ``temporary`` alive. Raises StoreError when there is no store."""
        super().__init__(path, numbers=True)
        self._temporary = temporary
        self._known: tuple[frozenset[str], FigureContext] | None = None

    def __repr__(self) -> str:
        """Title, place and number of runs."""
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
        """One row per run, flow (or group of flows) and direction: ``run, seed``, the cell, ``flow, direction``, and
        goodput, completion times, fairness... (docs/manual/report.md defines them).

        Units stand in the names: ``_bit_s``, ``_s``, ``_ms``, ``_bytes``; a ratio is a part of 1. What a run does not
        have is null.

        Raises:
            StoreError: no finished run, or one that is damaged.
        """
        return self._shown(self._material().metrics)

    @property
    def cells(self) -> pl.DataFrame:
        """The metrics over seeds: one row per cell, flow, direction and ``metric``, with ``n`` seeds, their ``mean``
        and ``median`` and the bounds of the 95 % intervals (``mean_low``...; null where there are too few seeds).
        What ``bentpipe show --json`` prints. Raises StoreError as :attr:`metrics`.
        """
        from bentpipe.metrics.compute import OVER_SEEDS, aggregate_seeds
        from bentpipe.metrics.groups import OVER_FLOWS

        material = self._material()
        of_groups = [name for name in ("flows", *OVER_FLOWS) if name in material.metrics.columns]
        return self._shown(aggregate_seeds(material.metrics, material.store.keys, [*OVER_SEEDS, *of_groups]))

    @property
    def user_metrics(self) -> pl.DataFrame:
        """What each user had that shares a link with others: one row per run, user and direction, with goodput, waits,
        drops by cause and air (docs/manual/results.md). Without rows where users are not told apart.

        Raises StoreError as :attr:`metrics`.
        """
        users = self._material().users
        return self._shown(users) if users.width else users

    def rate_calls(
        self, codec: str | None = None, playout: str = "adaptive", advantage: float = 0.0, *, plc: bool = True
    ) -> pl.DataFrame:
        """Calls as listeners would judge them: one row per run, flow and direction, with late loss, R and MOS.

        Args:
            codec: as if spoken with this one; None: that of each call.
            playout: ``"60 ms"`` of buffer, a percentile such as ``"p99"``, or ``"adaptive"``.
            advantage: what is forgiven for being reached at all (ITU-T G.107 clause 7.6): 20 by satellite.
            plc: lost speech is concealed, where the codec leaves that open.

        Raises:
            ScenarioError: a codec or an advantage that is none.
            PlayoutError: a play-out that is none (a ValueError).
            StoreError: as :attr:`metrics`.
        """
        from bentpipe.metrics.call_quality import RatingConfig, parse, rate_calls

        return self._shown(
            rate_calls(self._material().store, RatingConfig(codec, parse(playout), advantage, plc))
        )

    def figure(self, key: str, range: str | None = None) -> altair.TopLevelMixin:  # noqa: A002 - as the command has it
        """A figure of the report as an Altair chart, which a notebook draws and ``.save("x.svg")`` writes.

        Args:
            key: which, such as ``"cwnd"``; :meth:`figures` has those there are.
            range: of time, for figures over time: ``"30 s"`` is the first 30 s, ``"10 s..80 s"`` a part.

        Raises:
            ValueError: no such figure, one that this store has nothing for, or a range that is none.
            StoreError: no finished run, or one that is damaged.
        """
        import altair as alt

        return alt.Chart.from_dict(self._figure(key, range).whole())

    def figures(self) -> list[str]:
        """Keys of the figures that this store has something for, in the report's order. Raises StoreError."""
        from bentpipe.figures.registry import figures

        return [figure.key for figure in figures(self._material())]

    def report(self, out: str | Path | None = None, range: str | None = None) -> Path:  # noqa: A002
        """Writes the report, one page that opens anywhere, and says where: ``out``, or ``report.html`` in the store.

        ``range`` is of the figures over time, as in :meth:`figure`. Raises StoreError, ValueError for the range.
        """
        from bentpipe.figures.registry import parse_range
        from bentpipe.report.store_page import write_report

        return write_report(self, Path(out) if out is not None else None, parse_range(range))

    def diff(self, after: Store | str | Path) -> Comparison:
        """Compare this store with ``after``, run by run: paired effects with 95 % intervals, a verdict a comparison.

        ``.frame()`` has one row a metric, cell, flow and direction; ``.regressed`` says whether one got worse;
        ``.notes`` says what the scenarios differ in.

        Raises:
            StoreError: one of the two has no finished run, or is damaged.
            ValueError: no run of one has a partner in the other (same cell and seed).
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
        """The answer of DuckDB to ``query`` as a frame: a view a table, each joined with run, seed, cell and numbers.

        ``parameters`` stand for the ``?`` in it; the other arguments are limits as of :meth:`connect`, which gives the
        connection, for more than one question.

        Raises:
            StoreError: no finished run, one that is damaged, a query that reaches for more than the store's tables or
                needs more than its limits.
            ScenarioError: a limit that is none.
            duckdb.Error: what is wrong with the query.
        """
        with self.connect(memory=memory, threads=threads, spill=spill) as connection:
            found = (
                connection.sql(query)
                if parameters is None
                else connection.sql(query, params=list(parameters))
            )
            return _frame(found)

    def _material(self, range: str | None = None) -> FigureContext:  # noqa: A002
        """What is computed of the runs that are finished now; once for the same runs."""
        from bentpipe.figures.registry import FigureContext, parse_range
        from bentpipe.store.reader import open_store

        there = frozenset(self.load_index().folders)
        if self._known is None or self._known[0] != there:
            self._known = None  # what is kept of the store as it is now must not keep what it was
            self._known = (there, FigureContext(open_store(self)))
        known = self._known[1]
        return known if range is None else FigureContext(known.store, parse_range(range))

    def _figure(self, key: str, range: str | None) -> Figure:  # noqa: A002
        from bentpipe.figures.registry import FIGURES

        if key not in FIGURES:
            raise ValueError(f"figure: {unknown_name(key, FIGURES, 'figure')}")
        figure = FIGURES[key](self._material(range))
        if figure is None:
            raise ValueError(f'figure: {self.title} has nothing for "{key}"; figures() says what there is')
        return figure

    def _shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With keys called as the scenario has them, where no other column is, and their numbers."""
        from bentpipe.scenario.sweep_columns import column_name
        from bentpipe.store.numeric_columns import add_numeric_columns

        shown = self._material().store.shown(frame)
        called = {key: key if key in shown.columns and column_name(key) not in shown.columns else column_name(key)
                  for key in self.keys}  # fmt: skip
        return add_numeric_columns(shown.lazy(), self.axes, called).collect()


_TYPES = {
    "BOOLEAN": "Boolean", "VARCHAR": "String", "FLOAT": "Float32", "DOUBLE": "Float64", "DECIMAL": "Float64",
    "TINYINT": "Int8", "SMALLINT": "Int16", "INTEGER": "Int32", "BIGINT": "Int64", "HUGEINT": "Int64",
    "UTINYINT": "UInt8", "USMALLINT": "UInt16", "UINTEGER": "UInt32", "UBIGINT": "UInt64",
}  # fmt: skip
"""DuckDB's types in Polars' words. A sum of whole numbers is a HUGEINT, and nearly always fits into 64 bits."""


def _frame(found: Any) -> pl.DataFrame:
    """A relation of DuckDB as a frame; without columns where a statement has no answer."""
    import polars as pl

    from bentpipe.store.sql import unique_names

    if found is None:
        return pl.DataFrame()
    names, kinds, rows = unique_names(found.columns), [str(kind) for kind in found.types], found.fetchall()
    columns = []
    for index, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        values = [row[index] for row in rows]
        if kind.startswith("DECIMAL"):
            values = [float(value) if isinstance(value, Decimal) else value for value in values]
        wide = kind == "HUGEINT" and any(abs(value) >= 2**63 for value in values if value is not None)
        word = "Int128" if wide else _TYPES.get(kind.partition("(")[0])
        columns.append(pl.Series(name, values, dtype=getattr(pl, word) if word else None, strict=True))
    return pl.DataFrame(columns)
