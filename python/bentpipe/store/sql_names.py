"""Names of columns in SQL."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["quoted", "unique_names"]


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


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
