"""Pages from HAR files (HTTP Archive 1.2), as browsers and WebPageTest write them.

An entry becomes an object unless it was not fetched over the network: another scheme than http or https, a status of
0 (blocked, cancelled) or an answer from the cache. Rules:

- size: the first that is known of ``response.bodySize``, ``_transferSize`` less the headers, ``content.size``
- header blocks: ``headersSize``, where it is known
- what it waits for: the object that ``_initiator`` names (its ``url``, or the first script of its stack that is in
  the file), else the document
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from bentpipe.scenario.input_file import parse_json, read_input_text
from bentpipe.scenario.problems import ScenarioError, not_utf8
from bentpipe.scenario.units import nearest
from bentpipe.scenario.web_page import Page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["as_toml", "read_har"]

MOST_ENTRIES = 10_000
MOST_BYTES = 64 * 1024 * 1024

UNKNOWN = -1
"""What HAR 1.2 writes for a size that is not known."""


def read_har(file: Path, key: str = "") -> Page:
    """The page of a HAR file.

    Raises:
        ScenarioError: at ``key``: no such file, too large, cut off, not a HAR file, nothing in it.
    """
    entries = _entries(file, key)
    objects: list[dict[str, Any]] = []
    by_url: dict[str, str] = {}
    for entry in entries:
        found = _object(entry, by_url, bool(objects))
        if found is None:
            continue
        taken = {one["name"] for one in objects}
        found["name"] = _free(found["name"], taken)
        by_url.setdefault(str(_table(entry, "request").get("url")), found["name"])
        objects.append(found)
    if not objects:
        raise ScenarioError([(key, f"{file.name}: no entry was fetched over http or https")])
    known = [one.pop("known") for one in objects]
    if not any(known):
        sizes = "response.bodySize, response._transferSize or response.content.size, in bytes"
        raise ScenarioError(
            [(key, f"{file.name}: no entry says how large its response is, expected {sizes}")]
        )
    for one in objects[1:]:
        one["after"] = one["after"] or [objects[0]["name"]]
    try:
        return Page.model_validate({"object": objects})
    except ValidationError as error:
        raise ScenarioError([(key, f"{file.name}: {error.errors()[0]['msg']}")]) from None


def _entries(file: Path, key: str) -> list[dict[str, Any]]:
    try:
        text = read_input_text(file, MOST_BYTES)
    except FileNotFoundError:
        beside = " beside the scenario" if key else ""
        there = [one.name for one in file.parent.glob("*.har")]
        near = nearest(file.name, there)
        hint = f'; did you mean "{near}"?' if near else ""
        raise ScenarioError([(key, f'no file "{file.name}"{beside}{hint}')]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([(key, f"{file.name} {not_utf8(error)}")]) from None
    except OSError as error:
        raise ScenarioError([(key, f'"{file}" cannot be read: {error.strerror}')]) from None
    if not text.strip():
        raise ScenarioError([(key, f"{file.name} is empty, expected a HAR file")])
    try:
        data = parse_json(text)
    except ValueError as error:
        if (isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()) - 1) or _open_ended(
            error
        ):
            raise ScenarioError([(key, f"{file.name} is cut off: it ends inside the JSON")]) from None
        raise ScenarioError([(key, f"{file.name} is not a HAR file: not JSON: {error}")]) from None
    log = data.get("log") if isinstance(data, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ScenarioError([(key, f"{file.name} is not a HAR file: expected log.entries (HAR 1.2)")])
    if len(entries) > MOST_ENTRIES:
        raise ScenarioError(
            [(key, f"{file.name} has {len(entries):,} entries, expected at most {MOST_ENTRIES:,}")]
        )
    return sorted(entries, key=lambda entry: str(entry.get("startedDateTime", "")))


def _open_ended(error: Exception) -> bool:
    """Whether JSON ended inside a text."""
    return isinstance(error, json.JSONDecodeError) and error.msg.startswith("Unterminated string")


def _table(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = entry.get(key)
    return found if isinstance(found, dict) else {}


def _count(found: object) -> int:
    """A number of bytes; :data:`UNKNOWN` where the file has none."""
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < 2**53:
        return int(found)
    return UNKNOWN


def _object(entry: Mapping[str, Any], by_url: Mapping[str, str], later: bool) -> dict[str, Any] | None:
    request, response = _table(entry, "request"), _table(entry, "response")
    url = request.get("url")
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        return None
    if _count(response.get("status")) <= 0 or _cached(entry):
        return None
    headers = _count(response.get("headersSize"))
    transfer = _count(response.get("_transferSize"))
    sizes = (
        _count(response.get("bodySize")),
        max(transfer - max(headers, 0), 0) if transfer > 0 else -1,
        _count(_table(response, "content").get("size")),
    )
    size = next((size for size in sizes if size >= 0), UNKNOWN)
    found: dict[str, Any] = {
        "known": size != UNKNOWN,
        "name": _label(parts.path),
        "size": f"{max(size, 0)} B",
        "host": _printable(parts.netloc),
        "after": _initiators(entry, by_url) if later else [],
    }
    asked = _count(request.get("headersSize"))
    if asked > 0:
        found["request"] = f"{asked} B"
    if headers > 0:
        found["response_header"] = f"{headers} B"
    return found


def _cached(entry: Mapping[str, Any]) -> bool:
    """Whether it came from the browser's cache: as Chromium, Safari and Firefox say it."""
    response = _table(entry, "response")
    if response.get("_fromDiskCache") or entry.get("_fromCache"):
        return True
    if entry.get("_fetchType") in ("Memory Cache", "Disk Cache"):
        return True
    # Others may have the state of the cache after a load from the network there.
    return "afterRequest" in _table(entry, "cache") and _count(response.get("bodySize")) <= 0


def _initiators(entry: Mapping[str, Any], by_url: Mapping[str, str]) -> list[str]:
    """The object that asked for this one; none where the file does not say or the object is not in it."""
    said = entry.get("_initiator")
    urls: list[object] = [said]
    if isinstance(said, dict):
        urls = [said.get("url")]
        stack = said.get("stack")
        frames = stack.get("callFrames") if isinstance(stack, dict) else None
        urls += [frame.get("url") for frame in frames or [] if isinstance(frame, dict)]
    return next(([by_url[url]] for url in urls if isinstance(url, str) and url in by_url), [])


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:150]


def _label(path: str) -> str:
    tail = path.rstrip("/").rsplit("/", 1)[-1]
    return _printable(tail).strip() or "index"


def _free(name: str, taken: set[str]) -> str:
    number, fresh = 1, name
    while fresh in taken:
        number += 1
        fresh = f"{name}-{number}"
    return fresh


def as_toml(page: Page) -> str:
    """The page as a file of ``presets/pages`` has it."""
    from bentpipe.scenario.tomltext import dumps

    objects: list[dict[str, object]] = []
    for one in page.object:
        fields: dict[str, object] = {"name": one.name, "size": f"{one.size.bytes} B", "host": one.host}
        if one.after:
            fields["after"] = one.after
        if one.request is not None:
            fields["request"] = f"{one.request.bytes} B"
        if one.response_header is not None:
            fields["response_header"] = f"{one.response_header.bytes} B"
        objects.append(fields)
    return dumps({"object": objects})
