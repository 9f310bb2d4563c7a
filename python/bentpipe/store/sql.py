"""SQL over a store: DuckDB with a view for each table, restricted to the files of the store.

DuckDB gets a list of readable files and locked settings: no other file, no network, no extension. A readable file is
also writable for DuckDB, so statements that write files are refused before DuckDB executes them.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import weakref
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bentpipe.scenario.quantity_text import nearest
from bentpipe.store.files import StoreError, readable
from bentpipe.store.query_limits import Guard, QueryLimits, Relation, SpillFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb

    from bentpipe.store.index import StoredFile
    from bentpipe.store.reader import Store

__all__ = ["Answers", "OutOfBoundsError", "connect", "unique_names"]

_Result = TypeVar("_Result")

_PERMITTED = frozenset({
    "SELECT", "EXPLAIN", "MULTI", "CREATE", "CREATE_FUNC", "DROP", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "ALTER",
    "SET", "VARIABLE_SET", "CALL", "PRAGMA", "TRANSACTION", "ANALYZE",
})  # fmt: skip
"""Kinds of statement that write no file; MULTI (several statements) is the result of PIVOT."""


class OutOfBoundsError(StoreError):
    """Statement that accesses more than the tables of the store."""


class Answers:
    """Connection to DuckDB for queries on one store.

    ``execute``, ``sql`` and ``query`` are DuckDB's, with DuckDB's results: ``fetchall``, ``pl``, ``df`` and others. A
    restricted connection raises OutOfBoundsError for a statement that accesses more than the tables of the store.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        allowed: Sequence[str] | None,
        limits: QueryLimits,
    ) -> None:
        """Restrict a connection with views to the files ``allowed``; None: no restriction."""
        self._connection = connection
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

    def execute(self, sql: str, parameters: object = None) -> Self:
        """Execute statements; fetch the result of the last one."""
        self._query("execute", sql, parameters)
        return self

    def sql(self, sql: str, **options: Any) -> Any:
        """Execute statements; return the result of the last one as a relation of DuckDB, or None."""
        relation = self._query("sql", sql, **options)
        return None if relation is None else Relation(relation, self._guard)

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
            if name not in _FETCH_METHODS or not callable(attribute) or name == "interrupt":
                return attribute
            return lambda *args, **options: self._guard.call(lambda: attribute(*args, **options))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _query(self, method: str, sql: str, *arguments: Any, **options: Any) -> Any:
        import duckdb

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
    "fetch_record_batch", "df", "pl", "arrow", "description", "rowcount", "interrupt",
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


def describe_error(error: duckdb.Error) -> str:
    """Return the message for an invalid query in one line: cause, nearest right name, line of the query."""
    text = str(error)
    cause = re.sub(r"^[\w ]+ Error: ", "", text.split("\n", 1)[0]).rstrip("!")
    cause = re.sub(r"Table with name (\S+) does not exist", r'no table "\1"', cause)
    cause = re.sub(r"Scalar Function with name (\S+) does not exist", r'no function "\1"', cause)
    cause = re.sub(r'Referenced column "([^"]+)" not found in FROM clause', r'no column "\1"', cause)
    candidates = re.search(r"^(?:Did you mean|Candidate bindings:) (.*)", text, re.MULTILINE)
    names = re.findall(r'"([^"]+)"', candidates[1]) if candidates else []
    unknown = re.search(r'"([^"]+)"', cause)
    near = nearest(unknown[1], names) if unknown else None
    hint = f'; did you mean "{near}"?' if near else ""
    line = re.search(r"^LINE (\d+):", text, re.MULTILINE)
    place = f"line {line[1]}: " if line and line[1] != "1" else ""
    return f"{place}{cause[:1].lower()}{cause[1:]}{hint}"


def connect(
    store: Store, tables: Sequence[str], *, unrestricted: bool = False, limits: QueryLimits | None = None
) -> Answers:
    """Return a connection with a view for each of ``tables``, joined with run, seed and cell.

    Args:
        store: store to query.
        tables: names of the tables.
        unrestricted: permit access beyond the tables.
        limits: limits of each query; None: the defaults.

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
        f"{_quoted(name)} {type_}" for name, type_ in zip(unique_names(names), types, strict=True)
    )
    connection.execute(f"CREATE TABLE runs ({definitions})")
    arrays = ", ".join(f"unnest(?::{type_}[])" for type_ in types)  # one statement for each row takes 0.5 ms
    connection.execute(f"INSERT INTO runs SELECT {arrays}", columns)
    allowed: list[str] = []
    resolved = dataclasses.replace(index, store=store.path.resolve())
    for name in tables:
        files = [file for file in resolved.table(name) if not file.is_empty]
        if not files:
            continue
        allowed += [str(file.path) for file in files]
        with readable(store.path, name):
            connection.execute(f"CREATE VIEW {name} AS {_view(files)}")
    return Answers(connection, None if unrestricted else allowed, limits or QueryLimits.parse())


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


def unique_names(names: Sequence[str]) -> list[str]:
    """Return column names for SQL, with a number as suffix of names that differ only in case or not at all."""
    result: dict[str, str] = {}
    for name in names:
        count = itertools.count(2)
        candidate = name
        while candidate.casefold() in result:
            candidate = f"{name}_{next(count)}"
        result[candidate.casefold()] = candidate
    return list(result.values())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"
