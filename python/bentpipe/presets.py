"""Presets: accesses whose every number has a source, for ``[path] preset = "NAME"``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bentpipe.problems import ScenarioError, unknown_word

__all__ = ["Preset", "presets", "segments"]

_PLACES = (Path(__file__).parent / "presets", Path(__file__).parents[2] / "presets")
"""In an installed package, and in a checkout."""


@dataclass(frozen=True)
class Preset:
    """A preset: its name, what it is, where its numbers come from, and its segments as a scenario writes them."""

    name: str
    title: str
    source: str
    segments: list[dict[str, Any]]


def presets() -> list[Preset]:
    """All presets, by name."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        return []
    found = []
    for file in sorted(folder.glob("*.toml")):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        found.append(Preset(file.stem, data["title"], data["source"], data["path"]["segment"]))
    return found


def segments(name: object) -> list[dict[str, Any]]:
    """The segments of preset ``name``. Raises ScenarioError when there is none."""
    known = {preset.name: preset for preset in presets()}
    if not isinstance(name, str) or name not in known:
        raise ScenarioError([("path.preset", unknown_word(str(name), known, "preset"))])
    return known[name].segments
