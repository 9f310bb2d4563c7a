"""Presets: accesses and web pages whose every number has a source or is named a guess.

An access is what ``[path] preset = "NAME"`` stands for, a page what ``load = { page = "NAME" }`` does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.scenario.problems import ScenarioError, unknown_word

__all__ = ["Page", "Preset", "page", "pages", "presets", "proxies", "segments"]

_FOLDER = Path(__file__).parent / "presets"
"""Beside this module, so that an installed package has it too."""


@dataclass(frozen=True)
class Preset:
    """An access: its name, what it is, where its numbers come from, and its segments as a scenario writes them.

    ``proxies`` are those that a source says the operator runs, as the tables of ``[[path.proxy]]``.
    """

    name: str
    title: str
    source: str
    segments: list[dict[str, Any]]
    proxies: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """A web page: its name, what it is, where its numbers come from, its objects and hosts as a scenario writes them.

    The first object is the main document. A host that no table names has no connection open beforehand.
    """

    name: str
    title: str
    source: str
    objects: list[dict[str, Any]]
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)


def _files(under: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((_FOLDER / under).glob("*.toml")):
        yield file.stem, tomllib.loads(file.read_text(encoding="utf-8"))


def presets() -> list[Preset]:
    """All accesses, by name."""
    return [
        Preset(name, data["title"], data["source"], data["path"]["segment"], data.get("proxy", []))
        for name, data in _files()
    ]


def pages() -> list[Page]:
    """All pages, by name."""
    return [
        Page(name, data["title"], data["source"], data["object"], data.get("host", {}))
        for name, data in _files("pages")
    ]


def _preset(name: object) -> Preset:
    known = {preset.name: preset for preset in presets()}
    if not isinstance(name, str) or name not in known:
        raise ScenarioError([("path.preset", unknown_word(str(name), known, "preset"))])
    return known[name]


def segments(name: object) -> list[dict[str, Any]]:
    """The segments of preset ``name``. Raises ScenarioError when there is none."""
    return _preset(name).segments


def proxies(name: object) -> list[dict[str, Any]]:
    """The proxies of preset ``name``. Raises ScenarioError when there is none."""
    return _preset(name).proxies


def page(name: object, key: str = "load.page") -> Page:
    """The page ``name``. Raises ScenarioError at ``key`` when there is none."""
    known = {found.name: found for found in pages()}
    if not isinstance(name, str) or name not in known:
        raise ScenarioError([(key, unknown_word(str(name), known, "page"))])
    return known[name]
