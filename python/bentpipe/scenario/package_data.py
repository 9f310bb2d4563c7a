"""What comes with bentpipe beside its modules, and where it lies: in a checkout, and in an installed package.

The build backend (scripts/backend.py) fills a wheel by the same table; it loads this file alone.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["SHIPPED", "path_of"]

SHIPPED = {
    "bentpipe-rt": "target/release/bentpipe-rt",
    "scenarios": "scenarios",
    "studies": "studies",
}
"""By its name in the package's folder ``path_of``: where a checkout has it."""

_PACKAGE = Path(__file__).parents[1]


def path_of(name: str) -> Path | None:
    """Where one of ``SHIPPED`` is; None: it did not come along, or is not built."""
    places = (_PACKAGE / "shipped" / name, _PACKAGE.parents[1] / SHIPPED[name])
    return next((place for place in places if place.exists()), None)
