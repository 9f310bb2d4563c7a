"""Presets: accesses and web pages whose every number has a source or is named a guess.

An access is what ``[path] preset = "NAME"`` stands for (``"NAME.toml"``: one of one's own), a page what
``load = { page = "NAME" }`` does.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.scenario.errors import ScenarioError, encoding_error, unknown_name
from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, parse_toml, read_input_text
from bentpipe.scenario.quantity_text import nearest

__all__ = ["Page", "Preset", "page", "page_names", "pages", "preset", "presets", "proxies", "segments"]

_FOLDER = Path(__file__).parent / "presets"
"""Beside this module, so that an installed package has it too."""
_PAGES = _FOLDER / "pages"


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


def _names(folder: Path) -> list[str]:
    return [file.stem for file in sorted(folder.glob("*.toml"))]


def _read(folder: Path, name: str) -> dict[str, Any]:
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


def presets() -> list[Preset]:
    """All accesses, by name."""
    return [_access(name) for name in _names(_FOLDER)]


def pages() -> list[Page]:
    """All pages, by name."""
    return [_page(name) for name in page_names()]


def page_names() -> list[str]:
    """Names of all pages."""
    return _names(_PAGES)


def _access(name: str) -> Preset:
    data = _read(_FOLDER, name)
    return Preset(name, data["title"], data["source"], data["path"]["segment"], data.get("proxy", []))


def _page(name: str) -> Page:
    data = _read(_PAGES, name)
    return Page(name, data["title"], data["source"], data["object"], data.get("host", {}))


_KEY = "path.preset"


def preset(name: object, folder: Path | None = None) -> Preset:
    """The access ``name``; with a ``folder``, also one of one's own: a file in it, ``NAME.toml``.

    Raises:
        ScenarioError: there is none; what is wrong with the file.
    """
    known = _names(_FOLDER)
    if isinstance(name, str) and name in known:
        return _access(name)
    if isinstance(name, str) and folder is not None and name.endswith(".toml"):
        return _own(folder, name)
    raise ScenarioError([(_KEY, unknown_name(str(name), known, "preset"))])


def _own(folder: Path, name: str) -> Preset:
    try:
        data = parse_toml(read_input_text(folder / name, MOST_DOCUMENT_BYTES))
    except FileNotFoundError:
        near = nearest(Path(name).name, [file.name for file in (folder / name).parent.glob("*.toml")])
        hint = f'; did you mean "{Path(name).with_name(near)}"?' if near else ""
        raise ScenarioError([(_KEY, f'no file "{name}" beside the scenario{hint}')]) from None
    except OSError as error:
        raise ScenarioError([(_KEY, f'"{name}" cannot be read: {error.strerror}')]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([(_KEY, f'"{name}" {encoding_error(error)}')]) from None
    except ValueError as error:  # no TOML
        raise ScenarioError([(_KEY, f'"{name}" is no preset: {error}')]) from None
    path = data.get("path")
    found = path.get("segment") if isinstance(path, dict) else None
    if not isinstance(found, list) or not found:
        raise ScenarioError([(_KEY, f'"{name}" is no preset: found no [[path.segment]] in it')])
    own = data.get("proxy", [])
    if not isinstance(own, list):
        raise ScenarioError([(_KEY, f'"{name}" is no preset: proxy: expected [[proxy]]')])
    return Preset(name, str(data.get("title", name)), str(data.get("source", name)), found, own)


def segments(name: object) -> list[dict[str, Any]]:
    """The segments of preset ``name``. Raises ScenarioError when there is none."""
    return preset(name).segments


def proxies(name: object) -> list[dict[str, Any]]:
    """The proxies of preset ``name``. Raises ScenarioError when there is none."""
    return preset(name).proxies


def page(name: object, key: str = "load.page") -> Page:
    """The page ``name``. Raises ScenarioError at ``key`` when there is none."""
    known = page_names()
    if not isinstance(name, str) or name not in known:
        raise ScenarioError([(key, unknown_name(str(name), known, "page"))])
    return _page(name)
