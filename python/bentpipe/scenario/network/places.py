"""Places on the ground: names of the list ``places.toml``, or ``"latitude,longitude"``."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from bentpipe.scenario.quantity_text import UnitError, nearest

__all__ = ["Place", "place_names", "places_source"]

_LIST = Path(__file__).with_name("places.toml")
_NUMBER = r"[+-]?\d+(?:\.\d*)?"
_COORDINATES = re.compile(rf"\s*({_NUMBER})\s*,\s*({_NUMBER})\s*")


@dataclass(frozen=True, slots=True)
class Place:
    """Point at sea level."""

    name: str
    latitude: float
    """Geodetic latitude in degrees north."""
    longitude: float
    """Longitude in degrees east."""

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a place of the list, ignoring case and accents, or a point given by two numbers.

        Raises:
            UnitError: unknown place, or invalid coordinates.
        """
        if isinstance(found, cls):
            return found
        if not isinstance(found, str):
            raise UnitError(f'found {found}, expected a place such as "Paris" or "48.85,2.35"')
        match = _COORDINATES.fullmatch(found)
        if match is None:
            return cls._parse_name(found)
        latitude, longitude = float(match[1]), float(match[2])
        if abs(latitude) > 90 or abs(longitude) > 180:
            raise UnitError(
                f'found "{found}", expected a latitude within 90 and a longitude within 180 degrees'
            )
        return cls(f"{match[1]},{match[2]}", latitude, longitude)

    @classmethod
    def _parse_name(cls, found: str) -> Self:
        known = {_normalise(name): name for name in _coordinates()}
        name = known.get(_normalise(found))
        if name is None:
            near = known.get(nearest(_normalise(found), known) or "")
            hint = f'; did you mean "{near}"?' if near else ""
            raise UnitError(
                f'no place "{found}" in the list of {len(known)} (bentpipe orbit --list), expected one of it or '
                f'"latitude,longitude" in degrees{hint}'
            )
        return cls(name, *_coordinates()[name])

    def __str__(self) -> str:
        return self.name


def place_names() -> list[str]:
    """Return the names of the list in order."""
    return list(_coordinates())


def places_source() -> str:
    """Return the source of the list."""
    return str(_read_list()["source"])


@cache
def _read_list() -> dict[str, Any]:
    return tomllib.loads(_LIST.read_text(encoding="utf-8"))


@cache
def _coordinates() -> dict[str, tuple[float, float]]:
    data = _read_list()
    return {name: (float(point[0]), float(point[1])) for name, point in data["places"].items()}


def _normalise(name: str) -> str:
    """Return a name without accents, case and hyphens: ``sao paulo`` for ``São-Paulo``; St becomes Saint."""
    letters = unicodedata.normalize("NFD", name).casefold()
    words = re.sub(r"[^a-z ]", "", re.sub(r"[-_]", " ", letters)).split()
    return " ".join("saint" if word == "st" else word for word in words)
