"""Column counts of the keys of a sweep.

The module imports nothing of the scenario, because the reader of a store needs it without a scenario.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["LABELS", "column_headings", "column_name", "label_contains", "sweep_key"]

LABELS = "sweep."
"""Prefix of the column of a tied axis. The other columns of a store have no dot in their name."""


def column_name(key: str) -> str:
    """Return the column of a swept key in the frames of metrics and figures."""
    return key if "." in key else LABELS + key


def sweep_key(column: str) -> str:
    """Return the swept key of a column."""
    return column.removeprefix(LABELS)


def label_contains(label: str, value: str) -> bool:
    """Return whether ``label`` has ``value`` as whole words: ``cubic, 10 ms`` has ``10 ms``, but not ``0 ms``."""
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w)", label) is not None


def column_headings(short: Mapping[str, str], taken: Iterable[str]) -> dict[str, str]:
    """Return the headings of the columns of a sweep, each unique.

    Args:
        short: the short heading of each key.
        taken: the headings of the other columns.

    Returns:
        For each key the short heading, or the key itself if another column has that heading.
    """
    counts = Counter([*taken, *short.values()])
    return {key: heading if counts[heading] == 1 else key for key, heading in short.items()}
