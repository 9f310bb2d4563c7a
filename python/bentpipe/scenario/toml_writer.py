"""Plain data as TOML: scenarios that were given as tables, pages, values of ``--set``.

Inside a table nothing changes its place, as the order of a sweep's keys has a meaning. TOML wants sub-tables last, so
only those of the document itself are written as ``[table]`` and ``[[list]]``; deeper ones stay in their line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import tomlkit
from tomlkit.items import AoT, Array, Item, Table, Trivia, Whitespace

__all__ = ["dumps", "flat", "inline"]


def dumps(data: Mapping[str, Any]) -> str:
    """A document that parses to ``data``."""
    plain = tomlkit.document()
    tables = tomlkit.document()
    for key, value in data.items():
        if isinstance(value, Mapping):
            tables.append(key, _table(value))
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            tables.append(key, AoT([_table(one) for one in value]))
        else:
            plain.append(key, _item(value))
    return "\n".join(filter(None, (tomlkit.dumps(plain), tomlkit.dumps(tables))))


def inline(value: object) -> str:
    """A value in one line."""
    return _item(value).as_string()


def flat(key: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """``[[key]]`` for each of many tables of plain values; a hundred thousand take a second."""
    text = lru_cache(maxsize=100_000)(inline)
    tables = ("".join(f"{name} = {text(value)}\n" for name, value in row.items()) for row in rows)
    return "\n".join(f"[[{key}]]\n{table}" for table in tables)


def _table(found: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for key, value in found.items():
        table.append(key, _item(value))
    return table


def _item(found: object) -> Item:
    if isinstance(found, Mapping):
        table = tomlkit.inline_table()
        for key, value in found.items():
            table.append(key, _item(value))
        return table
    if isinstance(found, (list, tuple)):
        # Array.append takes time with the square of the length, its parts at once do not
        parts: list[Item] = []
        for value in found:
            parts += [Whitespace(", ")] if parts else []
            parts.append(_item(value))
        return Array(parts, Trivia())
    return tomlkit.item(found)
