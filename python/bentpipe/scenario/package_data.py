"""Locations of the data of the package beside its modules, in a checkout and in an installed package.

The build backend (scripts/backend.py) fills a wheel from the same table. It loads only this file.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["SHIPPED", "path_of", "preset_names"]

SHIPPED = {
    "bentpipe-rt": "target/release/bentpipe-rt",
    "scenarios": "scenarios",
    "studies": "studies",
}
"""Name in the directory ``shipped`` of the package -> path in a checkout."""

_PACKAGE = Path(__file__).parents[1]


def path_of(name: str) -> Path | None:
    """Return the path of an entry of ``SHIPPED``; None if it is missing or not built."""
    candidates = (_PACKAGE / "shipped" / name, _PACKAGE.parents[1] / SHIPPED[name])
    return next((path for path in candidates if path.exists()), None)


def preset_names() -> list[str]:
    """Return the names of all presets of access networks."""
    return [file.stem for file in sorted((Path(__file__).parent / "presets").glob("*.toml"))]
