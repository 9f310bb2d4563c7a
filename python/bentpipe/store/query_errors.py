"""Errors of SQL as messages of bentpipe: the nearest table or column, and the key that fills an empty table."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from bentpipe.plan.spec.result_columns import FILLED_BY
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.quantity_text import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["describe_error", "empty_table"]

_NAMED = 5
"""Number of columns that a message names."""


def describe_error(
    error: str, sql: str, tables: Mapping[str, bool], columns: Mapping[str, Sequence[str]]
) -> str:
    """Return the message for an error of DuckDB.

    Args:
        error: the text of DuckDB.
        sql: the statement.
        tables: names of all tables, and whether a finished run has the table.
        columns: columns of the tables that are known so far.
    """
    if match := re.search(r"Table with name (\S+) does not exist", error):
        if match[1].casefold() in tables:
            return empty_table(match[1].casefold())
        return unknown_name(match[1], [name for name, has_rows in tables.items() if has_rows], "table")
    if match := re.search(r'Referenced table "([^"]+)" not found', error):
        return _unknown_qualifier(match[1], sql, columns)
    column = re.search(
        r'Referenced column "([^"]+)" (?:was )?not found|does not have a column named "([^"]+)"', error
    )
    if column:
        return _unknown_column(column[1] or column[2], sql, columns)
    lines = re.sub(r"^[A-Z][\w ]*Error: ", "", error.strip()).splitlines()
    cause = (lines[0] if lines else "unknown error").rstrip("!")
    cause = re.sub(
        r"^(?:Scalar|Aggregate|Table) Function with name (\S+) does not exist", r'no function "\1"', cause
    )
    number = re.search(r"^LINE (\d+):", error, re.MULTILINE)
    place = f"line {number[1]}: " if number and number[1] != "1" else ""
    return f"invalid query: {place}{cause}"


def empty_table(name: str) -> str:
    """Return the message for a table without rows: the key of the scenario that would fill it."""
    return f'the table "{name}" is empty in this store; {FILLED_BY.get(name, "its runs recorded none")}'


def _unknown_column(found: str, sql: str, columns: Mapping[str, Sequence[str]]) -> str:
    used = [name for name in columns if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)]
    names = list(dict.fromkeys(name for table in used or columns for name in columns[table]))
    parts = _columns_with(found, names)
    near = parts[0] if parts else nearest(found, names)
    close = difflib.get_close_matches(found.casefold(), names, n=_NAMED, cutoff=0.0)
    shown = list(dict.fromkeys([*parts, *([near] if near else []), *close]))[:_NAMED]
    elsewhere = [table for table, its in columns.items() if table not in used and found.casefold() in its]
    hint = f'; did you mean "{near}"?' if near else ""
    if elsewhere:
        hint = f'; the table "{elsewhere[0]}" has it'
    place = f" in {' and '.join(used)}" if used else ""
    return f'no column "{found}"{place}, expected one such as: {", ".join(shown)}{hint}'


def _columns_with(found: str, names: Collection[str]) -> list[str]:
    """Return the columns whose names have a word, first those that begin with it."""
    word = found.casefold()
    begin = [name for name in names if name.casefold().startswith(f"{word}_")]
    return list(
        dict.fromkeys([*begin, *(name for name in names if word in re.split(r"[_.]", name.casefold()))])
    )


def _unknown_qualifier(found: str, sql: str, columns: Mapping[str, Sequence[str]]) -> str:
    """Return the message for ``found.x``: a key of the sweep without quotes, or an unknown table."""
    names = dict.fromkeys(name for table in columns.values() for name in table)
    keys = [name for name in names if name.startswith(f"{found}.")]
    meant = [key for key in keys if key in sql] or keys
    if meant:
        return f"""no table "{found}"; a column with dots requires double quotes: '"{meant[0]}"'"""
    return f'no table or alias "{found}" in this query'
