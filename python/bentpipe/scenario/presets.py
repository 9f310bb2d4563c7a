"""Presets of access networks and web pages, each number with a source or marked as an estimate.

``[path] preset = "NAME"`` selects an access network, or a file of the user with ``"NAME.toml"``.
``load = { page = "NAME" }`` selects a page.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.scenario.errors import (
    SOURCE_ARGUMENT,
    ScenarioError,
    encoding_error,
    syntax_error,
    unknown_name,
)
from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, parse_toml, read_input_text
from bentpipe.scenario.package_data import preset_names
from bentpipe.scenario.quantity_text import nearest_file

__all__ = [
    "BASES",
    "PRESET",
    "Page",
    "Preset",
    "expand_preset",
    "page",
    "page_names",
    "pages",
    "preset",
    "preset_text",
    "presets",
    "proxies",
    "segments",
]

PRESET = "path.preset"
"""Key of the access network, whose segments replace it before other keys are set."""

BASES = {
    "measured": "rates and delays were measured on a real access",
    "specified": "a document defines rates and delays",
    "estimated": "some rates or delays are guesses, or the middle of a range",
}
"""Bases of the numbers of a preset."""

_FOLDER = Path(__file__).parent / "presets"
"""Beside this module, so that an installed package has it too."""

_PAGES = _FOLDER / "pages"


@dataclass(frozen=True)
class Preset:
    """Access network: its name, title, sources of its numbers, and its segments as in a scenario.

    ``proxies`` are the PEPs of the operator according to a source, as tables of ``[[path.proxy]]``.
    ``basis`` is one of :data:`BASES`; a preset of the user may leave it out, like ``access`` and ``links``.
    """

    name: str
    title: str
    source: str = field(repr=False)
    segments: list[dict[str, Any]] = field(repr=False)
    proxies: list[dict[str, Any]] = field(default_factory=list, repr=False)
    access: str = field(default="", repr=False)
    """Kind of the access network, in words."""
    basis: str = field(default="", repr=False)
    guesses: list[str] = field(default_factory=list, repr=False)
    """Quantities without a source."""
    links: list[str] = field(default_factory=list, repr=False)
    """Addresses of the sources."""


@dataclass(frozen=True)
class Page:
    """Web page: its name, title, sources of its numbers, and its objects and hosts as in a scenario.

    The first object is the main document. A host without a table has no open connection at the start of a load.
    """

    name: str
    title: str
    source: str
    objects: list[dict[str, Any]]
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)


def _names(folder: Path) -> list[str]:
    return [file.stem for file in sorted(folder.glob("*.toml"))]


def _read_document(folder: Path, name: str) -> dict[str, Any]:
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


def presets() -> list[Preset]:
    """Return all access networks by name."""
    return [_read_access(name) for name in preset_names()]


def pages() -> list[Page]:
    """Return all pages by name."""
    return [_read_page(name) for name in page_names()]


def page_names() -> list[str]:
    """Return the names of all pages."""
    return _names(_PAGES)


def _read_access(name: str) -> Preset:
    data = _read_document(_FOLDER, name)
    return _to_preset(name, data, data["path"]["segment"], data.get("proxy", []))


def _to_preset(
    name: str, data: dict[str, Any], segments: list[dict[str, Any]], proxies: list[dict[str, Any]]
) -> Preset:
    title, source = str(data.get("title", name)), str(data.get("source", name))
    access, basis = str(data.get("access", "")), str(data.get("basis", ""))
    lists = (data.get(key, []) for key in ("guesses", "links"))
    guesses, links = ([str(text) for text in found] if isinstance(found, list) else [] for found in lists)
    return Preset(name, title, source, segments, proxies, access, basis, guesses, links)


def _read_page(name: str) -> Page:
    data = _read_document(_PAGES, name)
    return Page(name, data["title"], data["source"], data["object"], data.get("host", {}))


def preset(name: object, folder: Path | None = None) -> Preset:
    """Return the access network ``name``.

    Args:
        name: a preset, or a file ``NAME.toml`` if ``folder`` is given.
        folder: the directory of the files of the user.

    Raises:
        ScenarioError: no such preset, or an invalid file.
    """
    known = preset_names()
    if isinstance(name, str) and name in known:
        return _read_access(name)
    if isinstance(name, str) and folder is not None and name.endswith(".toml"):
        return _read_user_preset(folder, name)
    raise ScenarioError([(PRESET, unknown_name(str(name), known, "preset"))])


def expand_preset(data: dict[str, Any], folder: Path) -> None:
    """Replace ``[path] preset = "NAME"`` in place by its segments and proxies, before those of the scenario.

    Raises:
        ScenarioError: no such preset, or an invalid file.
    """
    path = data.get("path")
    if not isinstance(path, dict) or "preset" not in path:
        return
    members = preset(path.pop("preset"), folder)
    for key, added in (("segment", members.segments), ("proxy", members.proxies)):
        listed = path.get(key, [])
        if added and isinstance(listed, list):  # validation rejects any other type
            path[key] = [*added, *listed]


def preset_text(name: str) -> str:
    """Return the file of the access network ``name``, TOML. Raises ScenarioError if there is none."""
    known = preset_names()
    if name not in known:
        raise ScenarioError([("name", unknown_name(name, known, "preset"))], SOURCE_ARGUMENT)
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def _read_user_preset(folder: Path, name: str) -> Preset:
    try:
        data = parse_toml(read_input_text(folder / name, MOST_DOCUMENT_BYTES))
    except FileNotFoundError:
        near = nearest_file(Path(name).name, [file.name for file in (folder / name).parent.glob("*.toml")])
        hint = f'; did you mean "{Path(name).with_name(near)}"?' if near else ""
        raise ScenarioError([(PRESET, f'no file "{name}" beside the scenario{hint}')]) from None
    except OSError as error:
        raise ScenarioError([(PRESET, f'"{name}" cannot be read: {error.strerror}')]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([(PRESET, f'"{name}" {encoding_error(error)}')]) from None
    except ValueError as error:  # not TOML
        raise ScenarioError([(PRESET, f'"{name}" is not TOML: {syntax_error(error)}')]) from None
    path = data.get("path")
    segment_tables = path.get("segment") if isinstance(path, dict) else None
    if not isinstance(segment_tables, list) or not segment_tables:
        raise ScenarioError([(PRESET, f'"{name}" is not a preset: found no [[path.segment]] in it')])
    proxy_tables = data.get("proxy", [])
    if not isinstance(proxy_tables, list):
        raise ScenarioError([(PRESET, f'"{name}" is not a preset: proxy: expected [[proxy]]')])
    return _to_preset(name, data, segment_tables, proxy_tables)


def segments(name: object) -> list[dict[str, Any]]:
    """Return the segments of preset ``name``. Raises ScenarioError if there is none."""
    return preset(name).segments


def proxies(name: object) -> list[dict[str, Any]]:
    """Return the proxies of preset ``name``. Raises ScenarioError if there is none."""
    return preset(name).proxies


def page(name: object, key: str = "load.page") -> Page:
    """Return the page ``name``. Raises ScenarioError at ``key`` if there is none."""
    known = page_names()
    if not isinstance(name, str) or name not in known:
        raise ScenarioError([(key, unknown_name(str(name), known, "page"))])
    return _read_page(name)
