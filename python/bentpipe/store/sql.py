"""SQL over a store: DuckDB with a view a table, which by itself reaches nothing else.

DuckDB is told which files it may read, and that its settings are final: no other file, no network, no extension. It
may also write to what it may read, so statements that write files are refused before it sees them.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import weakref
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bentpipe.store.files import StoreError, readable
from bentpipe.store.query_limits import Guard, QueryLimits, Relation, SpillFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb

    from bentpipe.store.index import Held
    from bentpipe.store.reader import Store

__all__ = ["Answers", "OutOfBoundsError", "connect", "unique_names"]

_Found = TypeVar("_Found")

_HARMLESS = frozenset({
    "SELECT", "EXPLAIN", "MULTI", "CREATE", "CREATE_FUNC", "DROP", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "ALTER",
    "SET", "VARIABLE_SET", "CALL", "PRAGMA", "TRANSACTION", "ANALYZE",
})  # fmt: skip
"""Kinds of statement that write no file; several in one (MULTI) is what PIVOT becomes."""


class OutOfBoundsError(StoreError):
    """A statement that reaches for more than the store's tables."""


class Answers:
    """A connection to DuckDB for questions about one store.

    ``execute``, ``sql`` and ``query`` are DuckDB's, and so is what they give: ``fetchall``, ``pl``, ``df``... One that
    is bounded raises OutOfBoundsError for a statement that reaches for more than the store's tables.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        allowed: Sequence[str] | None,
        limits: QueryLimits,
    ) -> None:
        """Of a connection that has its views. From now on it reaches the files ``allowed``; None: whatever it likes."""
        self._connection = connection
        self._bounded = allowed is not None
        self._guard = Guard(connection, limits)
        self._spill = SpillFolder()
        """Where DuckDB puts what does not fit into memory."""
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
        """Runs statements; the answer of the last one is to be fetched."""
        self._ask("execute", sql, parameters)
        return self

    def sql(self, sql: str, **more: Any) -> Any:
        """Runs statements; the answer of the last one as DuckDB's relation, or None."""
        found = self._ask("sql", sql, **more)
        return None if found is None else Relation(found, self._guard)

    query = sql

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets DuckDB go."""
        self._spill.remove()
        if not self._guard.abandoned:  # it would wait for the query
            self._connection.close()

    def remove_spill(self) -> None:
        """Remove temporary files, as the last thing that a process does."""
        self._spill.remove()

    def guard(self, function: Callable[[], _Found]) -> _Found:
        """Return what ``function`` returns, which asks and shows the answer: the limits hold for both together."""
        return self._guard.call(function)

    @property
    def abandoned(self) -> bool:
        """Whether a query goes on that did not end; the process can end only by ``os._exit``."""
        return self._guard.abandoned

    def __getattr__(self, name: str) -> Any:
        """How an answer is fetched, as DuckDB has it."""
        if name in _FETCHING or not self._bounded:
            found = getattr(self._connection, name)
            if name not in _FETCHING or not callable(found) or name == "interrupt":
                return found
            return lambda *args, **options: self._guard.call(lambda: found(*args, **options))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _ask(self, how: str, sql: str, *words: Any, **more: Any) -> Any:
        import duckdb

        def ask() -> Any:
            return getattr(self._connection, how)(sql, *words, **more)

        if not self._bounded:
            return self._guard.call(ask)
        try:
            self._check(sql)
            return self._guard.call(ask)
        except duckdb.Error as error:
            if beyond := _beyond(error):
                raise OutOfBoundsError(beyond) from None
            raise

    def _check(self, sql: str) -> None:
        """Raises OutOfBoundsError for what writes files."""
        for one in self._connection.extract_statements(sql):
            try:
                kind = one.type.name
            except ValueError:  # a kind that DuckDB's Python has no name for: UPDATE EXTENSIONS
                kind = ""
            copies = kind in ("EXPLAIN", "MULTI") and re.search(r"\bcopy\b", one.query, re.IGNORECASE)
            if kind not in _HARMLESS or copies:
                words = one.query.split()
                raise OutOfBoundsError(_said(words[0].upper() if words and not copies else "COPY"))


_FETCHING = frozenset({
    "fetchone", "fetchmany", "fetchall", "fetchdf", "fetchnumpy", "fetch_df", "fetch_df_chunk", "fetch_arrow_table",
    "fetch_record_batch", "df", "pl", "arrow", "description", "rowcount", "interrupt",
})  # fmt: skip


def _said(what: str) -> str:
    ways = "query --unrestricted, connect(unrestricted=True)"
    return f"{what} is out of bounds: SQL reads the tables of this store alone, unless it is unrestricted ({ways})"


def _beyond(error: duckdb.Error) -> str:
    """What to say of DuckDB's error if it is one of the bounds; otherwise empty."""
    text = str(error)
    if found := re.search(r'Cannot access (?:file|directory) "([^"]*)"', text):
        return _said(found[1])
    if found := re.search(r'configuration option "+([^"]*)"+ - the configuration has been locked', text):
        return _said(f"the setting {found[1]}")
    if "disabled through configuration" in text or "disabled by configuration" in text:
        return _said(text.split(":", 1)[-1].strip().splitlines()[0])
    if found := re.match(r"Catalog Error: Table with name (\S*[/.:]\S*) does not exist!", text):
        return _said(found[1])
    return ""


def connect(
    store: Store, tables: Sequence[str], *, unrestricted: bool = False, limits: QueryLimits | None = None
) -> Answers:
    """A connection with a view of each of ``tables``, joined with run, seed and cell.

    Raises:
        StoreError: no finished run, or one that is damaged.
    """
    import duckdb

    kept = store.kept()
    lists = store.lists_of(kept)
    if not lists[0]:
        raise StoreError(f"{store.path}: no run has finished")
    connection = duckdb.connect(":memory:")
    names, kinds, columns = _columns(store, lists)
    listed = ", ".join(
        f"{_quoted(name)} {kind}" for name, kind in zip(unique_names(names), kinds, strict=True)
    )
    connection.execute(f"CREATE TABLE runs ({listed})")
    asked = ", ".join(f"unnest(?::{kind}[])" for kind in kinds)  # a statement a row takes half a millisecond
    connection.execute(f"INSERT INTO runs SELECT {asked}", columns)
    allowed: list[str] = []
    there = dataclasses.replace(kept, store=store.path.resolve())
    for name in tables:
        held = [one for one in there.table(name) if not one.bare]
        if not held:
            continue
        allowed += [str(one.path) for one in held]
        with readable(store.path, name):
            connection.execute(f"CREATE VIEW {name} AS {_view(held)}")
    return Answers(connection, None if unrestricted else allowed, limits or QueryLimits.parse())


def _view(held: Sequence[Held]) -> str:
    """The rows of files, joined with ``runs``: those of packs say whose they are, the others by their place."""
    loose = [str(one.path) for one in held if not one.packed]
    packed = [one for one in held if one.packed]
    parts = []
    if loose:
        parts.append(
            "SELECT runs.*, t.* EXCLUDE (filename) "  # noqa: S608 - names are ours
            f"FROM read_parquet({_list(loose)}, filename=true, union_by_name=true) t "
            "JOIN runs ON runs.run = parse_path(t.filename)[-2]"
        )
    whole = [str(one.path) for one in packed if one.whole]
    lists = [(whole, "")] if whole else []
    lists += [
        ([str(one.path)], f" WHERE list_contains({_list(one.runs)}, t.run)")
        for one in packed
        if not one.whole
    ]
    parts += [
        f"SELECT runs.*, t.* EXCLUDE (run) FROM read_parquet({_list(places)}, union_by_name=true) t "  # noqa: S608
        f"JOIN runs ON runs.run = t.run{only}"
        for places, only in lists
    ]
    return " UNION ALL BY NAME ".join(parts)


def _columns(store: Store, lists: Sequence[list[Any]]) -> tuple[list[str], list[str], list[list[Any]]]:
    """Names, types and values of the columns of ``runs``: the texts of the sweep, and behind them their numbers."""
    names, kinds, columns = ["run", "seed"], ["VARCHAR", "BIGINT"], [*lists[:2]]
    for key, texts in zip(store.keys, lists[2:], strict=True):
        axes = [axis for axis in store.axes if axis.key == key]
        names += [key, *(f"{key}{axis.unit}" for axis in axes)]
        kinds += ["VARCHAR", *("DOUBLE" for _ in axes)]
        columns += [texts, *([axis.values.get(text) for text in texts] for axis in axes)]
    return names, kinds, columns


def unique_names(names: Sequence[str]) -> list[str]:
    """Names of columns, with a number behind those that are there already, for SQL: in other letters too."""
    found: dict[str, str] = {}
    for name in names:
        count = itertools.count(2)
        fresh = name
        while fresh.casefold() in found:
            fresh = f"{name}_{next(count)}"
        found[fresh.casefold()] = fresh
    return list(found.values())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"
