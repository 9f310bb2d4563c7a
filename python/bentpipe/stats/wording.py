"""Numbers as text, and what there is to say as plain data: a page, a terminal and a document read the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Answer", "Table", "humane"]


@dataclass(frozen=True)
class Table:
    """Rows that share their keys, and what stands above them."""

    title: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What came out of something that was asked, for whoever prints it."""

    data: Mapping[str, Any]
    """For programs."""
    shown: tuple[str | Table, ...]
    """For people: lines and tables, in order."""
    problems: tuple[str, ...] = ()
    """What went wrong meanwhile, a line each."""
    good: bool = True
    """Whether every run was made, and no bound is exceeded."""


def humane(value: object) -> str:
    """A cell of a table: numbers to four significant digits, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value and (abs(value) >= 1e7 or abs(value) < 1e-3):
            return f"{value:.3e}"
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
