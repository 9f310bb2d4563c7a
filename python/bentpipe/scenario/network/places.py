"""Places on the ground: by name from a short list with its source (``places.toml``), or as ``"latitude,longitude"``."""

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
_TWO = re.compile(rf"\s*({_NUMBER})\s*,\s*({_NUMBER})\s*")


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere at sea level."""

    name: str
    latitude: float
    """Geodetic, degrees North."""
    longitude: float
    """Degrees East."""

    @classmethod
    def parse(cls, found: object) -> Self:
        """A place of the list, in whatever case and with or without accents, or two numbers.

        Raises:
            UnitError: no such place, or no such point.
        """
        if isinstance(found, cls):
            return found
        if not isinstance(found, str):
            raise UnitError(f'found {found}, expected a place such as "Paris" or "48.85,2.35"')
        match = _TWO.fullmatch(found)
        if match is None:
            return cls._of_list(found)
        latitude, longitude = float(match[1]), float(match[2])
        if abs(latitude) > 90 or abs(longitude) > 180:
            raise UnitError(
                f'found "{found}", expected a latitude within 90 and a longitude within 180 degrees'
            )
        return cls(f"{match[1]},{match[2]}", latitude, longitude)

    @classmethod
    def _of_list(cls, found: str) -> Self:
        known = {_plain(name): name for name in _listed()}
        name = known.get(_plain(found))
        if name is None:
            near = known.get(nearest(_plain(found), known) or "")
            hint = f'; did you mean "{near}"?' if near else ""
            raise UnitError(
                f'no place "{found}" in the list of {len(known)} (bentpipe orbit --list), expected one of it or '
                f'"latitude,longitude" in degrees{hint}'
            )
        return cls(name, *_listed()[name])

    def __str__(self) -> str:
        return self.name


def place_names() -> list[str]:
    """Names of the list, in its order."""
    return list(_listed())


def places_source() -> str:
    """Where the list is from."""
    return str(_file()["source"])


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(_LIST.read_text(encoding="utf-8"))


@cache
def _listed() -> dict[str, tuple[float, float]]:
    data = _file()
    return {name: (float(at[0]), float(at[1])) for name, at in data["places"].items()}


def _plain(name: str) -> str:
    """Without accents, case and what parts words: ``sao paulo`` of ``São-Paulo``; St is Saint."""
    letters = unicodedata.normalize("NFD", name).casefold()
    words = re.sub(r"[^a-z ]", "", re.sub(r"[-_]", " ", letters)).split()
    return " ".join("saint" if word == "st" else word for word in words)
