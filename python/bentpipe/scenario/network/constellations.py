"""Constellations: the table, and presets whose numbers have a source or are marked as estimates."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from bentpipe.scenario.base import AngleText, DistanceText, Table, require_one, text_schema
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.quantities import Angle

__all__ = [
    "EPOCH",
    "Constellation",
    "ConstellationOrName",
    "Instant",
    "InstantText",
    "constellation_names",
    "parse_instant",
    "preset",
]

_FOLDER = Path(__file__).parent / "constellations"

UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Instant(str):
    """Instant of UTC as text: ``"2000-01-01T00:00:00Z"``."""

    __slots__ = ()

    @property
    def unix_ns(self) -> int:
        """Unix time in nanoseconds, with days of 86,400 s."""
        return (datetime.fromisoformat(self) - UNIX_EPOCH) // timedelta(microseconds=1) * 1000


def parse_instant(found: object) -> Instant:
    """Return an instant of UTC from its text. Raises ValueError."""
    expected = 'an instant of UTC such as "2026-11-22T12:00:00Z"'
    if isinstance(found, datetime) and found.tzinfo is not None:  # TOML without quotes
        found = found.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if not isinstance(found, str) or not re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z", found
    ):
        raise ValueError(f'found "{found}", expected {expected}')
    try:
        datetime.fromisoformat(found)
    except ValueError as error:
        raise ValueError(f'found "{found}": {error}; expected {expected}') from None
    if not 1980 <= int(found[:4]) <= 2100:
        raise ValueError(f'found "{found}", expected a year from 1980 to 2100')
    return Instant(found)


InstantText = Annotated[
    Instant, PlainValidator(parse_instant), text_schema("2026-11-22T12:00:00Z", "an instant of UTC")
]

EPOCH = Instant("2000-01-01T00:00:00Z")
"""Default instant at which the first node is at right ascension 0 (the epoch of Hypatia)."""


class Constellation(Table):
    """Walker parameters, ``longitudes`` over the equator, or a file of elements (``tle`` or ``omm``).

    Further keys give the reach of ground stations and the inter-satellite links. ``preset`` supplies the other keys; it
    is applied before validation.
    """

    preset: StrictStr | None = None
    title: StrictStr = ""
    source: StrictStr = ""
    note: StrictStr = ""
    planes: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    per_plane: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    inclination: AngleText | None = None
    altitude: DistanceText | None = None
    revolutions_per_day: Annotated[StrictFloat | StrictInt, Field(gt=0, le=17)] | None = None
    spread: AngleText = Angle(360_000_000)
    phasing: Annotated[StrictFloat | StrictInt, Field(ge=0, lt=1000)] | Literal["alternate"] = 0
    propagation: Literal["kepler", "j2", "sgp4"] = "j2"
    epoch: InstantText | None = None
    longitudes: list[Annotated[StrictFloat | StrictInt, Field(ge=-180, le=180)]] | None = None
    tle: StrictStr | None = None
    omm: StrictStr | None = None
    links: Literal["grid", "bent-pipe"] = "bent-pipe"
    neighbours: Literal["nearest", "same-number"] = "nearest"
    cross_links_within: AngleText | None = None
    elevation: AngleText | None = None
    slant: DistanceText | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> Constellation:
        require_one(self, ("planes", "longitudes", "tle", "omm"), "a constellation")
        require_one(self, ("elevation", "slant"), "the reach of a ground station")
        if self.planes is not None:
            missing = [key for key in ("per_plane", "inclination") if getattr(self, key) is None]
            if missing:
                raise ValueError(f"found planes without {missing[0]}, expected both")
            require_one(self, ("altitude", "revolutions_per_day"), "the altitude")
        elif self.links == "grid":
            raise ValueError('found links = "grid" without planes, expected planes, or links = "bent-pipe"')
        return self


_EXCLUSIVE_KEYS = (("altitude", "revolutions_per_day"), ("elevation", "slant"))
"""Pairs of keys that exclude each other."""


def _apply_preset(found: object) -> object:
    """Return the table of a name, or of a table with ``preset`` and the keys that differ."""
    if isinstance(found, str):
        return preset(found)
    if not isinstance(found, Mapping) or "preset" not in found:
        return found
    keys = {key: value for key, value in found.items() if key != "preset"}
    table = preset(str(found["preset"])).to_dict()
    changed = ", ".join(f"{key} = {value}" for key, value in keys.items() if table.get(key) != value)
    for pair in _EXCLUSIVE_KEYS:
        if any(key in keys for key in pair):
            table = {key: value for key, value in table.items() if key not in pair}
    title = f"{table['title']}; here {changed}" if changed else table["title"]
    return table | {"title": title} | keys


ConstellationOrName = Annotated[
    Constellation, BeforeValidator(_apply_preset, json_schema_input_type=Constellation | str)
]


def constellation_names() -> list[str]:
    """Return the names of the presets."""
    return [file.stem for file in sorted(_FOLDER.glob("*.toml"))]


@cache
def preset(name: str) -> Constellation:
    """Return a constellation by name. Raises ValueError with the nearest name."""
    if name not in constellation_names():
        raise ValueError(unknown_name(name, constellation_names(), "constellation"))
    return Constellation.model_validate(tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8")))
