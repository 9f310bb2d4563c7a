"""What the keys of a sweep are called as columns. It imports nothing: who reads a store needs this, and no scenario."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["LABELS", "column_headings", "column_name", "sweep_key"]

LABELS = "sweep."
"""In front of the name of a tied axis, where its labels are a column among columns of ours: those have no dot."""


def column_name(key: str) -> str:
    """The column of a key of the sweep in frames that statistics and figures compute with."""
    return key if "." in key else LABELS + key


def sweep_key(column: str) -> str:
    """The key of the sweep that a column holds."""
    return column.removeprefix(LABELS)


def column_headings(short: Mapping[str, str], taken: Iterable[str]) -> dict[str, str]:
    """What columns of a sweep are called beside columns that are called ``taken``: their ``short`` name, or all of
    their own where that is another's too."""
    names = Counter([*taken, *short.values()])
    return {key: name if names[name] == 1 else key for key, name in short.items()}
