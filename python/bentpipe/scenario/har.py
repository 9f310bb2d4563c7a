"""Web pages from HAR files (HTTP Archive 1.2), as browsers and WebPageTest write them.

A file may hold several pages: successive pages of a browser, or the runs of a measurement. One page is read, by default
the first with a fetched entry. ``har_entries`` has the rules for its entries.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.scenario.errors import ScenarioError, encoding_error, syntax_error
from bentpipe.scenario.har_entries import FIELDS, Objects, is_fetched, one_line
from bentpipe.scenario.input_file import parse_json, read_input_text
from bentpipe.scenario.quantity_text import nearest_file
from bentpipe.scenario.web_page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Recording", "parse_time", "read_har", "to_toml"]

MOST_ENTRIES = 10_000
"""Largest number of entries of a file."""

MOST_BYTES = 64 * 1024 * 1024
"""Largest size of a file in bytes."""

MOST_NAMED = 3
"""Number of pages or URLs that a note or an error lists."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Page of a HAR file, and notes on incomplete data, each a sentence without full stop."""

    page: Page
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Section:
    """Page as in the file: ``id`` (None in a file without pages), title, and entries in order."""

    id: str | None
    title: str
    entries: Sequence[dict[str, Any]]


def read_har(file: Path, key: str = "", select: int | str | None = None) -> Recording:
    """Read one page of a HAR file.

    Args:
        file: the HAR file.
        key: the key of the scenario, for errors.
        select: the page: its ``id``, or its number from 1; None for the first with a fetched entry.

    Raises:
        ScenarioError: at ``key``: no such file or page, too large, truncated, not a HAR file, no fetched entry.
    """
    sections, unassigned = _sections(_read_log(file, key), file, key)
    section, notes = _select_section(sections, unassigned, select, file, key)
    collected = Objects()
    for entry in section.entries:
        collected.add(entry)
    objects = collected.finish()
    if not objects:
        raise ScenarioError([(key, f"{file.name}: no entry with an http or https URL")])
    if not collected.sized:
        raise ScenarioError(
            [(key, f"{file.name}: no entry has the size of its response, expected {FIELDS}, in bytes")]
        )
    if collected.unsized:
        count = len(collected.unsized)
        subject = (
            "1 entry has no size and counts" if count == 1 else f"{count} entries have no size and count"
        )
        notes.append(f"{subject} as 0 B: {_join_names(collected.unsized)}")
    try:
        page = Page.model_validate({"object": objects, "host": collected.hosts})
    except ValidationError as error:
        raise ScenarioError([(key, f"{file.name}: {error.errors()[0]['msg']}")]) from None
    return Recording(page, tuple(f"{file.name}: {note}" for note in notes))


def _read_log(file: Path, key: str) -> dict[str, Any]:
    """Return the ``log`` of a file, checked to have ``entries`` that are objects. Raises ScenarioError."""
    try:
        text = read_input_text(file, MOST_BYTES)
    except FileNotFoundError:
        beside = " beside the scenario" if key else ""
        near = nearest_file(file.name, [other.name for other in file.parent.glob("*.har")])
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
        if (isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()) - 1) or _ends_in_text(
            error
        ):
            raise ScenarioError([(key, f"{file.name} is truncated: it ends inside the JSON")]) from None
        raise ScenarioError(
            [(key, f"{file.name} is not a HAR file: not JSON: {syntax_error(error)}")]
        ) from None
    log = data.get("log") if isinstance(data, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    if log is None or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ScenarioError([(key, f"{file.name} is not a HAR file: expected log.entries (HAR 1.2)")])
    if len(entries) > MOST_ENTRIES:
        raise ScenarioError(
            [(key, f"{file.name} has {len(entries):,} entries, expected at most {MOST_ENTRIES:,}")]
        )
    result: dict[str, Any] = log
    return result


def _ends_in_text(error: Exception) -> bool:
    """Return whether JSON ended inside a text."""
    return isinstance(error, json.JSONDecodeError) and error.msg.startswith("Unterminated string")


def _sections(log: dict[str, Any], file: Path, key: str) -> tuple[list[_Section], int]:
    """Return the pages of the file in order, and the number of entries without a page if there are several pages.

    ``pages`` and ``pageref`` are optional in HAR 1.2. A file without them has one page.
    """
    entries = _sort_entries(log["entries"], file, key)
    pages = log.get("pages")
    tables = [page for page in pages if isinstance(page, dict)] if isinstance(pages, list) else []
    titles = {table["id"]: table.get("title") for table in tables if isinstance(table.get("id"), str)}
    groups: dict[str, list[dict[str, Any]]] = {page: [] for page in titles}
    unassigned = 0
    for entry in entries:
        page = entry.get("pageref")
        if isinstance(page, str):
            groups.setdefault(page, []).append(entry)
        else:
            unassigned += 1
    used = {page: members for page, members in groups.items() if members}
    if len(used) <= 1:
        page = next(iter(used), next(iter(titles), None))
        return [_Section(page, _title(titles.get(page or "")), entries)], 0
    return [_Section(page, _title(titles.get(page)), members) for page, members in used.items()], unassigned


def _title(title: object) -> str:
    return one_line(title)[:60] if isinstance(title, str) else ""


def _sort_entries(entries: Sequence[dict[str, Any]], file: Path, key: str) -> list[dict[str, Any]]:
    """Return ``entries`` by ``startedDateTime``; an entry without it follows its predecessor in the file."""
    last = Fraction(0)
    keys: list[Fraction] = []
    for entry in entries:
        started = entry.get("startedDateTime")
        if isinstance(started, str):
            try:
                last = parse_time(started)
            except ValueError:
                expected = 'expected ISO 8601 such as "2026-01-31T12:00:00.123Z"'
                problem = f'{file.name}: startedDateTime: found "{one_line(started)}", {expected}'
                raise ScenarioError([(key, problem)]) from None
        keys.append(last)
    return [entries[index] for index in sorted(range(len(entries)), key=keys.__getitem__)]


_TIME = re.compile(r"([^.,]+)(?:[.,](\d{1,30}))?(Z|[+-]\d\d(?::?\d\d)?)?")


def parse_time(text: str) -> Fraction:
    """Return the seconds since 1970 of an ISO 8601 time, UTC if it has no offset. Raises ValueError.

    ``datetime`` keeps six digits of a fraction; other programs write up to nine.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    seconds, digits, zone = match.groups()
    time = datetime.fromisoformat(seconds + (zone or ""))
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    elapsed = time - datetime(1970, 1, 1, tzinfo=UTC)
    fraction = Fraction(int(digits), 10 ** len(digits)) if digits else Fraction(0)
    return elapsed.days * 86_400 + elapsed.seconds + fraction


def _select_section(
    sections: Sequence[_Section], unassigned: int, select: int | str | None, file: Path, key: str
) -> tuple[_Section, list[str]]:
    """Return the selected page, with notes on the other pages. Raises ScenarioError."""
    names = [_section_name(section, number) for number, section in enumerate(sections, 1)]
    index = _section_index(sections, select)
    if index is None:
        expected = f"1 to {len(sections)}" if len(sections) > 1 else "1"
        ids = _join_names([section.id for section in sections if section.id])
        problem = f'found page "{select}", expected {expected}' + (f", or an id: {ids}" if ids else "")
        raise ScenarioError([(key, f"{file.name}: {problem}")])
    if len(sections) == 1:
        return sections[0], []
    notes = []
    if select is None:
        others = _join_names([name for other, name in enumerate(names) if other != index])
        notes.append(
            f"has {len(sections)} pages, of which {names[index]} is read; har_page names another: {others}"
        )
    if unassigned:
        subject = "1 entry belongs" if unassigned == 1 else f"{unassigned} entries belong"
        notes.append(f"{subject} to no page and {'is' if unassigned == 1 else 'are'} not read")
    return sections[index], notes


def _section_index(sections: Sequence[_Section], select: int | str | None) -> int | None:
    """Return the index of the page ``select``; None if there is none."""
    if select is None:
        fetched = (index for index, section in enumerate(sections) if any(map(is_fetched, section.entries)))
        return next(fetched, 0)
    by_id = next((index for index, section in enumerate(sections) if section.id == select), None)
    if by_id is not None:
        return by_id
    number = select if isinstance(select, int) else int(select) if select.isdecimal() else 0
    return number - 1 if 1 <= number <= len(sections) else None


def _section_name(section: _Section, number: int) -> str:
    title = f' "{section.title}"' if section.title else ""
    return f"{number} ({one_line(section.id or '')}{title})"


def _join_names(names: Sequence[str]) -> str:
    """Return the first names, joined, with the number of the others."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(one_line(name) for name in names[:MOST_NAMED]) + more


def to_toml(page: Page) -> str:
    """Return a page as TOML, in the form of the files of ``presets/pages``."""
    from bentpipe.scenario.toml_writer import dumps

    objects: list[dict[str, object]] = []
    for item in page.object:
        fields: dict[str, object] = {"name": item.name, "size": f"{item.size.bytes} B", "host": item.host}
        if item.after:
            fields["after"] = item.after
        if item.redirect is not None:
            fields["redirect"] = item.redirect
        if item.request is not None:
            fields["request"] = f"{item.request.bytes} B"
        if item.response_header is not None:
            fields["response_header"] = f"{item.response_header.bytes} B"
        objects.append(fields)
    hosts = {name: {"tls": False} for name, host in page.host.items() if not host.tls}
    return dumps({"object": objects} | ({"host": hosts} if hosts else {}))
