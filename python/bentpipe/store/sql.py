"""SQL over a store: DuckDB with a view for each table, restricted to the files of the store.

DuckDB gets a list of readable files and locked settings: no other file, no network, no extension. A readable file is
also writable for DuckDB, so statements that write files are refused before DuckDB executes them.
"""

from __future__ import annotations

import dataclasses
import re
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from bentpipe.store.files import StoreError, readable
from bentpipe.store.query_errors import describe_error, empty_table
from bentpipe.store.query_frame import OPTIONAL_PACKAGES, require
from bentpipe.store.query_limits import Guard, QueryLimits, Relation, SpillFolder
from bentpipe.store.sql_names import quoted, unique_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import duckdb
    import polars

    from bentpipe.store.index import StoredFile
    from bentpipe.store.reader import Store

__all__ = ["Answers", "OutOfBoundsError", "QueryError", "TableDescription", "connect"]

_Result = TypeVar("_Result")
if TYPE_CHECKING:
    Computed = Mapping[str, Callable[[], polars.DataFrame]]

_PERMITTED = frozenset({
    "SELECT", "EXPLAIN", "MULTI", "CREATE", "CREATE_FUNC", "DROP", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "ALTER",
    "SET", "VARIABLE_SET", "CALL", "PRAGMA", "TRANSACTION", "ANALYZE",
})  # fmt: skip
"""Kinds of statement that write no file; MULTI (several statements) is the result of PIVOT."""


class OutOfBoundsError(StoreError):
    """Statement that accesses more than the tables of the store."""


class QueryError(StoreError):
    """Invalid query, or a query that failed; the cause is the error of DuckDB."""


class TableDescription(NamedTuple):
    """Table of a connection."""

    name: str
    rows: int
    columns: tuple[tuple[str, str], ...]
    """Name and type of each column; empty if no run has the table."""


_COLUMNS = (
    "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY table_oid, column_index"
)
_TYPES = "SELECT concat(table_name, '.', column_name), data_type FROM duckdb_columns() WHERE NOT internal"


class Answers:
    """Connection to DuckDB for queries on one store.

    ``execute``, ``sql`` and ``query`` are DuckDB's, with DuckDB's results: ``fetchall``, ``pl``, ``df`` and others.
    ``sql(...).pl()`` needs no further package, ``df`` needs pandas, and ``arrow`` needs pyarrow. A
    restricted connection raises OutOfBoundsError for a statement that accesses more than the tables of the store.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        allowed: Sequence[str] | None,
        limits: QueryLimits,
        store: Store,
        tables: Mapping[str, bool],
        computed: Computed,
    ) -> None:
        """Restrict a connection to the files ``allowed``; None: no restriction.

        ``tables`` has the names of all tables, and whether a finished run has the table.
        """
        self._tables = dict(tables) | dict.fromkeys(computed, True)
        self._of_metrics = tuple(computed)
        self._store = store
        """A temporary store exists as long as this object or a result of it."""
        self._connection = connection
        self._computed = dict(computed)
        """Functions that compute the tables that no query has used yet."""
        self._last = ""
        """Last statement."""
        self._bounded = allowed is not None
        self._guard = Guard(connection, limits)
        self._spill = SpillFolder()
        """Folder for data that exceeds the memory."""
        self._finalizer = weakref.finalize(self, self._spill.remove)
        limits.apply(connection, self._spill.path)
        if allowed is not None:
            for setting in (
                f"allowed_directories = {_list([str(self._spill.path)])}",
                f"allowed_paths = {_list(allowed)}",
                "autoload_known_extensions = false",
                "autoinstall_known_extensions = false",
                "python_enable_replacements = false",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                connection.execute(f"SET {setting}")

    def __repr__(self) -> str:
        """Return the tables."""
        return f"<bentpipe SQL connection: {', '.join(self._views())}>"

    def _views(self) -> list[str]:
        return [name for name, has_rows in self._tables.items() if has_rows]

    def to_query_error(self, error: Exception) -> QueryError:
        """Return an error of DuckDB as one of bentpipe, with the nearest valid name."""
        if "column" in str(
            error
        ):  # a table of metrics may have it, of which no query has computed the columns yet
            self._add_computed(" ".join(self._computed))
        return QueryError(describe_error(str(error), self._last, self._tables, self._columns()))

    def empty_tables(self) -> list[str]:
        """Return a message for each table without rows that the last statement names."""
        named = [name for name in self._tables if re.search(rf"\b{name}\b", self._last, re.IGNORECASE)]
        return [empty_table(name) for name in named if not self._count(name)]

    def describe(self) -> list[TableDescription]:
        """Return every table with its rows and columns, first the tables of metrics, which it computes."""
        self._add_computed(" ".join(self._computed))
        columns = self._columns()
        types = dict(self._guard.call(lambda: self._connection.execute(_TYPES).fetchall()))
        return [
            TableDescription(
                name, self._count(name),
                tuple((column, types[f"{name}.{column}"]) for column in columns.get(name, ())),
            )
            for name in dict.fromkeys((*self._of_metrics, *self._tables))
        ]  # fmt: skip

    def _count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if no run has it."""
        if table not in self._columns():
            return 0
        statement = f"SELECT count(*) FROM {table}"  # noqa: S608 - a name of this module's tables
        rows = self._guard.call(lambda: self._connection.execute(statement).fetchone())
        return int(rows[0]) if rows else 0

    def _columns(self) -> dict[str, list[str]]:
        """Return the columns of each table; of the tables of metrics, once a query has used them."""
        rows = self._guard.call(lambda: self._connection.execute(_COLUMNS).fetchall())
        found: dict[str, list[str]] = {}
        for table, column in rows:
            found.setdefault(table, []).append(column)
        return found

    def execute(self, sql: str, parameters: object = None) -> Self:
        """Execute statements; fetch the result of the last one."""
        self._query("execute", sql, parameters)
        return self

    def sql(self, sql: str, **options: Any) -> Any:
        """Execute statements; return the result of the last one as a relation of DuckDB, or None."""
        relation = self._query("sql", sql, **options)
        return None if relation is None else Relation(relation, self._guard, self)

    query = sql

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._spill.remove()
        if not self._guard.abandoned:  # closing would wait for the query
            self._connection.close()

    def remove_spill(self) -> None:
        """Remove temporary files, as the last action of a process."""
        self._spill.remove()

    def guard(self, function: Callable[[], _Result]) -> _Result:
        """Return the result of ``function``, which queries and prints: the limits hold for both together."""
        return self._guard.call(function)

    @property
    def abandoned(self) -> bool:
        """Whether an interrupted query goes on; only ``os._exit`` can then end the process."""
        return self._guard.abandoned

    def __getattr__(self, name: str) -> Any:
        """Return a method of DuckDB that fetches results."""
        if name in _FETCH_METHODS or not self._bounded:
            attribute = getattr(self._connection, name)
            require(*(("pyarrow",) if name == "pl" else OPTIONAL_PACKAGES.get(name, ())))
            if name not in _FETCH_METHODS or not callable(attribute) or name == "interrupt":
                return attribute
            return lambda *args, **options: self._guard.call(lambda: attribute(*args, **options))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _query(self, method: str, sql: str, *arguments: Any, **options: Any) -> Any:
        import duckdb

        self._last = sql
        self._add_computed(sql)

        def call_method() -> Any:
            return getattr(self._connection, method)(sql, *arguments, **options)

        if not self._bounded:
            return self._guard.call(call_method)
        try:
            self._check(sql)
            return self._guard.call(call_method)
        except duckdb.Error as error:
            if message := _restricted_access(error):
                raise OutOfBoundsError(message) from None
            raise

    def _add_computed(self, sql: str) -> None:
        """Compute the tables that ``sql`` names for the first time, and add a view for each."""
        for name in [name for name in self._computed if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]:
            frame = self._computed.pop(name)()
            if frame.width:
                file = self._spill.path / f"{name}.parquet"
                frame.write_parquet(file)
                source = f"read_parquet({_text(str(file))})"
                self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source}")  # noqa: S608

    def _check(self, sql: str) -> None:
        """Raise OutOfBoundsError for a statement that writes files."""
        for statement in self._connection.extract_statements(sql):
            try:
                kind = statement.type.name
            except ValueError:  # DuckDB's Python API has no name for the kind: UPDATE EXTENSIONS
                kind = ""
            is_copy = kind in ("EXPLAIN", "MULTI") and re.search(r"\bcopy\b", statement.query, re.IGNORECASE)
            if kind not in _PERMITTED or is_copy:
                words = statement.query.split()
                raise OutOfBoundsError(
                    _restriction_message(words[0].upper() if words and not is_copy else "COPY")
                )


_FETCH_METHODS = frozenset({
    "fetchone", "fetchmany", "fetchall", "fetchdf", "fetchnumpy", "fetch_df", "fetch_df_chunk", "fetch_arrow_table",
    "fetch_record_batch", "to_arrow_reader", "to_arrow_table", "df", "pl", "arrow", "description", "rowcount",
    "interrupt",
})  # fmt: skip


def _restriction_message(object_: str) -> str:
    fix = "query --unrestricted or connect(unrestricted=True)"
    return f"{object_} is not allowed: SQL may read only the tables of this store; use {fix}"


def _restricted_access(error: duckdb.Error) -> str:
    """Return the message for a DuckDB error of the restriction; empty: another error."""
    text = str(error)
    if match := re.search(r'Cannot access (?:file|directory) "([^"]*)"', text):
        return _restriction_message(match[1])
    if match := re.search(r'configuration option "+([^"]*)"+ - the configuration has been locked', text):
        return _restriction_message(f"the setting {match[1]}")
    if "disabled through configuration" in text or "disabled by configuration" in text:
        return _restriction_message(text.split(":", 1)[-1].strip().splitlines()[0])
    if match := re.match(r"Catalog Error: Table with name (\S*[/.:]\S*) does not exist!", text):
        return _restriction_message(match[1])
    return ""


def connect(
    store: Store,
    tables: Sequence[str],
    *,
    unrestricted: bool = False,
    limits: QueryLimits | None = None,
    computed: Computed | None = None,
) -> Answers:
    """Return a connection with a view for each of ``tables``, joined with run, seed and cell.

    Args:
        store: store to query.
        tables: names of the tables.
        unrestricted: permit access beyond the tables.
        limits: limits of each query; None: the defaults.
        computed: functions that compute further tables, by name; called when a query names the table.

    Raises:
        StoreError: no finished run, or a damaged one.
    """
    import duckdb

    index = store.load_index()
    values = store.column_values(index)
    if not values[0]:
        raise StoreError(f"{store.path}: no run has finished")
    connection = duckdb.connect(":memory:")
    names, types, columns = _columns(store, values)
    definitions = ", ".join(
        f"{quoted(name)} {type_}" for name, type_ in zip(unique_names(names), types, strict=True)
    )
    connection.execute(f"CREATE TABLE runs ({definitions})")
    arrays = ", ".join(f"unnest(?::{type_}[])" for type_ in types)  # one statement for each row takes 0.5 ms
    connection.execute(f"INSERT INTO runs SELECT {arrays}", columns)
    allowed: list[str] = []
    present = {"runs": True, **dict.fromkeys(tables, False)}
    resolved = dataclasses.replace(index, store=store.path.resolve())
    for name in tables:
        files = [file for file in resolved.table(name) if not file.is_empty]
        if not files:
            continue
        allowed += [str(file.path) for file in files]
        with readable(store.path, name):
            connection.execute(f"CREATE VIEW {name} AS {_view(files)}")
        present[name] = True
    limits = limits or QueryLimits.parse()
    return Answers(connection, None if unrestricted else allowed, limits, store, present, computed or {})


def _view(files: Sequence[StoredFile]) -> str:
    """Return the query of a view: rows of packs have a run column, other rows the path of their run."""
    loose = [str(file.path) for file in files if not file.packed]
    packed = [file for file in files if file.packed]
    parts = []
    if loose:
        parts.append(
            "SELECT runs.*, t.* EXCLUDE (filename) "  # noqa: S608 - the names are constants
            f"FROM read_parquet({_list(loose)}, filename=true, union_by_name=true) t "
            "JOIN runs ON runs.run = parse_path(t.filename)[-2]"
        )
    complete = [str(file.path) for file in packed if file.is_complete]
    path_lists = [(complete, "")] if complete else []
    path_lists += [
        ([str(file.path)], f" WHERE list_contains({_list(file.runs)}, t.run)")
        for file in packed
        if not file.is_complete
    ]
    parts += [
        f"SELECT runs.*, t.* EXCLUDE (run) FROM read_parquet({_list(paths)}, union_by_name=true) t "  # noqa: S608
        f"JOIN runs ON runs.run = t.run{condition}"
        for paths, condition in path_lists
    ]
    return " UNION ALL BY NAME ".join(parts)


def _columns(store: Store, values: Sequence[list[Any]]) -> tuple[list[str], list[str], list[list[Any]]]:
    """Return names, types and values of the columns of ``runs``: texts of the sweep, each followed by its numbers."""
    names, types, columns = ["run", "seed"], ["VARCHAR", "BIGINT"], [*values[:2]]
    for key, texts in zip(store.keys, values[2:], strict=True):
        axes = [axis for axis in store.axes if axis.key == key]
        names += [key, *(f"{key}{axis.unit}" for axis in axes)]
        types += ["VARCHAR", *("DOUBLE" for _ in axes)]
        columns += [texts, *([axis.values.get(text) for text in texts] for axis in axes)]
    return names, types, columns


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"
