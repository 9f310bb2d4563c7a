"""Pages from HAR files (HTTP Archive 1.2), as browsers and WebPageTest write them.

A file may hold several pages: those that a browser went to one after the other, or the runs of a measurement. One of
them is read, by default the first that fetched anything. ``har_entries`` has the rules for its entries.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.scenario.errors import ScenarioError, encoding_error
from bentpipe.scenario.har_entries import FIELDS, Objects, is_fetched, one_line
from bentpipe.scenario.input_file import parse_json, read_input_text
from bentpipe.scenario.quantity_text import nearest
from bentpipe.scenario.web_page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Recording", "instant", "read_har", "to_toml"]

MOST_ENTRIES = 10_000
MOST_BYTES = 64 * 1024 * 1024

MOST_NAMED = 3
"""Pages or URLs that a note or an error lists."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A page of a HAR file, and the notes on what the file left open, each a sentence without its full stop."""

    page: Page
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Section:
    """A page as the file has it: its ``id`` (None in a file without pages), its title, and its entries in order."""

    id: str | None
    title: str
    entries: Sequence[dict[str, Any]]


def read_har(file: Path, key: str = "", select: int | str | None = None) -> Recording:
    """Read one page of a HAR file.

    Args:
        file: the HAR file.
        key: of the scenario, for errors.
        select: the page: its ``id``, or its number from 1 on; None: the first that fetched anything.

    Raises:
        ScenarioError: at ``key``: no such file or page, too large, cut off, not a HAR file, nothing in it.
    """
    sections, strays = _sections(_log(file, key), file, key)
    section, notes = _chosen(sections, strays, select, file, key)
    objects = Objects()
    for entry in section.entries:
        objects.add(entry)
    made = objects.finish()
    if not made:
        raise ScenarioError([(key, f"{file.name}: no entry was fetched over http or https")])
    if not objects.sized:
        raise ScenarioError(
            [(key, f"{file.name}: no entry says how large its response is, expected {FIELDS}, in bytes")]
        )
    if objects.unsized:
        count = len(objects.unsized)
        what = "1 entry has no size and counts" if count == 1 else f"{count} entries have no size and count"
        notes.append(f"{what} as 0 B: {_listed(objects.unsized)}")
    try:
        page = Page.model_validate({"object": made, "host": objects.hosts})
    except ValidationError as error:
        raise ScenarioError([(key, f"{file.name}: {error.errors()[0]['msg']}")]) from None
    return Recording(page, tuple(f"{file.name}: {note}" for note in notes))


def _log(file: Path, key: str) -> dict[str, Any]:
    """Return the file's ``log``, whose ``entries`` are objects. Raises ScenarioError."""
    try:
        text = read_input_text(file, MOST_BYTES)
    except FileNotFoundError:
        beside = " beside the scenario" if key else ""
        there = [one.name for one in file.parent.glob("*.har")]
        near = nearest(file.name, there)
        hint = f'; did you mean "{near}"?' if near else ""
        raise ScenarioError([(key, f'no file "{file.name}"{beside}{hint}')]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([(key, f"{file.name} {encoding_error(error)}")]) from None
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
    if log is None or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ScenarioError([(key, f"{file.name} is not a HAR file: expected log.entries (HAR 1.2)")])
    if len(entries) > MOST_ENTRIES:
        raise ScenarioError(
            [(key, f"{file.name} has {len(entries):,} entries, expected at most {MOST_ENTRIES:,}")]
        )
    found: dict[str, Any] = log
    return found


def _open_ended(error: Exception) -> bool:
    """Whether JSON ended inside a text."""
    return isinstance(error, json.JSONDecodeError) and error.msg.startswith("Unterminated string")


def _sections(log: dict[str, Any], file: Path, key: str) -> tuple[list[_Section], int]:
    """Return the pages of the file in its order, and the number of entries that belong to none of several pages.

    HAR 1.2 leaves ``pages`` and ``pageref`` out where a program does not group entries: these make one page.
    """
    entries = _ordered(log["entries"], file, key)
    pages = log.get("pages")
    listed = [one for one in pages if isinstance(one, dict)] if isinstance(pages, list) else []
    titles = {one["id"]: one.get("title") for one in listed if isinstance(one.get("id"), str)}
    groups: dict[str, list[dict[str, Any]]] = {page: [] for page in titles}
    strays = 0
    for entry in entries:
        page = entry.get("pageref")
        if isinstance(page, str):
            groups.setdefault(page, []).append(entry)
        else:
            strays += 1
    used = {page: found for page, found in groups.items() if found}
    if len(used) <= 1:
        page = next(iter(used), next(iter(titles), None))
        return [_Section(page, _title(titles.get(page or "")), entries)], 0
    return [_Section(page, _title(titles.get(page)), found) for page, found in used.items()], strays


def _title(title: object) -> str:
    return one_line(title)[:60] if isinstance(title, str) else ""


def _ordered(entries: Sequence[dict[str, Any]], file: Path, key: str) -> list[dict[str, Any]]:
    """Return ``entries`` by their ``startedDateTime``; one without it stays behind the one before it in the file."""
    last = Fraction(0)
    keys: list[Fraction] = []
    for entry in entries:
        started = entry.get("startedDateTime")
        if isinstance(started, str):
            try:
                last = instant(started)
            except ValueError:
                expected = 'expected ISO 8601 such as "2026-01-31T12:00:00.123Z"'
                problem = f'{file.name}: startedDateTime: found "{one_line(started)}", {expected}'
                raise ScenarioError([(key, problem)]) from None
        keys.append(last)
    return [entries[index] for index in sorted(range(len(entries)), key=keys.__getitem__)]


_TIME = re.compile(r"([^.,]+)(?:[.,](\d{1,30}))?(Z|[+-]\d\d(?::?\d\d)?)?")


def instant(text: str) -> Fraction:
    """Return the seconds since 1970 of an ISO 8601 time; without an offset it is UTC. Raises ValueError.

    ``datetime`` keeps six digits of a fraction; recorders write up to nine.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    whole, digits, zone = found.groups()
    time = datetime.fromisoformat(whole + (zone or ""))
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    past = time - datetime(1970, 1, 1, tzinfo=UTC)
    fraction = Fraction(int(digits), 10 ** len(digits)) if digits else Fraction(0)
    return past.days * 86_400 + past.seconds + fraction


def _chosen(
    sections: Sequence[_Section], strays: int, select: int | str | None, file: Path, key: str
) -> tuple[_Section, list[str]]:
    """Return the page that is read, with notes on those that are not. Raises ScenarioError."""
    names = [_name(section, number) for number, section in enumerate(sections, 1)]
    at = _place(sections, select)
    if at is None:
        expected = f"1 to {len(sections)}" if len(sections) > 1 else "1"
        ids = _listed([section.id for section in sections if section.id])
        problem = f'found page "{select}", expected {expected}' + (f", or an id: {ids}" if ids else "")
        raise ScenarioError([(key, f"{file.name}: {problem}")])
    if len(sections) == 1:
        return sections[0], []
    notes = []
    if select is None:
        others = _listed([name for place, name in enumerate(names) if place != at])
        notes.append(
            f"has {len(sections)} pages, of which {names[at]} is read; har_page names another: {others}"
        )
    if strays:
        what = "1 entry belongs" if strays == 1 else f"{strays} entries belong"
        notes.append(f"{what} to no page and {'is' if strays == 1 else 'are'} not read")
    return sections[at], notes


def _place(sections: Sequence[_Section], select: int | str | None) -> int | None:
    """Return the index of the page that ``select`` names; None for none."""
    if select is None:
        fetched = (at for at, one in enumerate(sections) if any(map(is_fetched, one.entries)))
        return next(fetched, 0)
    by_id = next((at for at, one in enumerate(sections) if one.id == select), None)
    if by_id is not None:
        return by_id
    number = select if isinstance(select, int) else int(select) if select.isdecimal() else 0
    return number - 1 if 1 <= number <= len(sections) else None


def _name(section: _Section, number: int) -> str:
    title = f' "{section.title}"' if section.title else ""
    return f"{number} ({one_line(section.id or '')}{title})"


def _listed(names: Sequence[str]) -> str:
    """Join the first few names."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(one_line(name) for name in names[:MOST_NAMED]) + more


def to_toml(page: Page) -> str:
    """The page as a file of ``presets/pages`` has it."""
    from bentpipe.scenario.toml_writer import dumps

    objects: list[dict[str, object]] = []
    for one in page.object:
        fields: dict[str, object] = {"name": one.name, "size": f"{one.size.bytes} B", "host": one.host}
        if one.after:
            fields["after"] = one.after
        if one.redirect is not None:
            fields["redirect"] = one.redirect
        if one.request is not None:
            fields["request"] = f"{one.request.bytes} B"
        if one.response_header is not None:
            fields["response_header"] = f"{one.response_header.bytes} B"
        objects.append(fields)
    hosts = {name: {"tls": False} for name, host in page.host.items() if not host.tls}
    return dumps({"object": objects} | ({"host": hosts} if hosts else {}))
