"""First lines of a page: one sentence with the result, then the supporting numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NO_INTERVAL", "Headline", "join_names"]

NO_INTERVAL = "one seed gives no confidence interval"
"""Note beside a number without interval."""


@dataclass(frozen=True)
class Headline:
    """Headline of a page."""

    sentence: str
    """Result, computed from the data of the page."""
    tally: str = ""
    """Supporting numbers."""


def join_names(parts: Sequence[str]) -> str:
    """Join names to ``a``, ``a and b`` or ``a, b and c``."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
