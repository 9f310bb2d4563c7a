"""How every page begins: one sentence with the answer, then the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NO_INTERVAL", "Headline", "join_names"]

NO_INTERVAL = "of one seed no interval can be had"
"""What is said wherever a number stands alone."""


@dataclass(frozen=True)
class Headline:
    """Of a page."""

    sentence: str
    """The verdict, worked out from what the page shows."""
    tally: str = ""
    """What it rests on."""


def join_names(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
