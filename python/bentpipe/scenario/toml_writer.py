"""Plain data as TOML: scenarios given as tables, pages, values of ``--set``.

The order of keys in a table is kept, because the order of a sweep's keys has a meaning. TOML requires sub-tables last.
Therefore only tables of the document itself become ``[table]`` and ``[[list]]``; deeper tables are inline tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import tomlkit
from tomlkit.items import AoT, Array, Item, Table, Trivia, Whitespace

__all__ = ["dumps", "flat", "inline"]


def dumps(data: Mapping[str, Any]) -> str:
    """Return a document that parses to ``data``."""
    values = tomlkit.document()
    tables = tomlkit.document()
    for key, value in data.items():
        if isinstance(value, Mapping):
            tables.append(key, _table(value))
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            tables.append(key, AoT([_table(item) for item in value]))
        else:
            values.append(key, _item(value))
    return "\n".join(filter(None, (tomlkit.dumps(values), tomlkit.dumps(tables))))


def inline(value: object) -> str:
    """Return a value as TOML in one line."""
    return _item(value).as_string()


def flat(key: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return ``[[key]]`` for each of many tables of plain values; 100 000 tables take 1 s."""
    text = lru_cache(maxsize=100_000)(inline)
    tables = ("".join(f"{name} = {text(value)}\n" for name, value in row.items()) for row in rows)
    return "\n".join(f"[[{key}]]\n{table}" for table in tables)


def _table(data: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for key, value in data.items():
        table.append(key, _item(value))
    return table


def _item(data: object) -> Item:
    if isinstance(data, Mapping):
        table = tomlkit.inline_table()
        for key, value in data.items():
            table.append(key, _item(value))
        return table
    if isinstance(data, (list, tuple)):
        # Array.append takes quadratic time; all parts at once take linear time
        parts: list[Item] = []
        for value in data:
            parts += [Whitespace(", ")] if parts else []
            parts.append(_item(value))
        return Array(parts, Trivia())
    return tomlkit.item(data)
