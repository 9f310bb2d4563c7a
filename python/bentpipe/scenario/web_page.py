"""Web pages of a scenario: objects, their hosts and their dependencies."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, StrictBool, StrictInt, StrictStr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import DurationText, SizeText, Table
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.quantities import Duration, Size

__all__ = ["MOST_OBJECTS", "Host", "Page", "PageObject", "PageSource"]

MOST_OBJECTS = 10_000
"""Largest number of objects of a page; a larger one is rejected as a mistake."""

_MAX_NAME_LENGTH = 200
"""Number of characters of a name."""


def _parse_label(found: object) -> str:
    if (
        not isinstance(found, str)
        or not found.strip()
        or len(found) > _MAX_NAME_LENGTH
        or not found.isprintable()
    ):
        raise ValueError(
            f'found "{found}", expected a name of 1 to {_MAX_NAME_LENGTH} characters in one line'
        )
    return found


Label = Annotated[
    str, PlainValidator(_parse_label), WithJsonSchema({"type": "string", "maxLength": _MAX_NAME_LENGTH})
]


class Host(Table):
    """Host of a page: whether a connection is open at the start, whether it uses TLS, and its largest response."""

    open: StrictBool = False
    tls: StrictBool = True
    limit: SizeText | None = None


class PageObject(Table):
    """Object of a page: its size, its host, the objects before its request, and the target of its redirect."""

    name: Label
    size: SizeText
    host: Label = "origin"
    after: list[StrictStr] = Field(default_factory=list)
    redirect: StrictStr | None = None
    request: SizeText | None = None
    response_header: SizeText | None = None
    think: DurationText = Duration(0)


class Page(Table):
    """Web page. The first object is the main document or redirects to it."""

    object: Annotated[list[PageObject], Field(min_length=1, max_length=MOST_OBJECTS)]
    host: dict[str, Host] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> Page:
        check_objects(self.object, self.host)
        return self


def is_har(name: str) -> bool:
    """Return whether the name of a page is a HAR file."""
    return name.lower().endswith(".har")


class PageSource(Table):
    """Source of a page: its objects, a name (a ``[page.NAME]``, a preset or a HAR file), or a HAR file.

    ``har_page`` selects a page of the HAR file: its id, or its number from 1.
    """

    named: StrictStr | None = None
    har: StrictStr | None = None
    har_page: StrictInt | StrictStr | None = None
    object: Annotated[list[PageObject], Field(max_length=MOST_OBJECTS)] = Field(default_factory=list)
    host: dict[str, Host] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one(self) -> PageSource:
        given = [key for key in ("named", "har", "object") if getattr(self, key)]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"found {found}, expected a page's name, {{ har = FILE }} or objects")
        if self.har_page is not None and self.har is None and not is_har(self.named or ""):
            raise ValueError("found har_page without a HAR file; requires har")
        if self.object:
            check_objects(self.object, self.host)
        return self


def check_objects(objects: list[PageObject], hosts: dict[str, Host]) -> None:
    """Check names, dependencies, redirects and sizes of objects. Raises PydanticCustomError."""
    names = [item.name for item in objects]
    known = set(names)
    if len(known) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        _reject(f'duplicate object name "{duplicate}", expected unique names')
    used = {item.host for item in objects}
    for host in hosts:
        if host not in used:
            _reject(f"host {host}: {unknown_name(host, sorted(used), 'host of an object')}")
    if objects[0].after:
        _reject(f"{objects[0].name}: the first object is the main document, expected no after")
    for item in objects:
        for predecessor in item.after:
            if predecessor not in known:
                _reject(f"{item.name}: after: {unknown_name(predecessor, names, 'object')}")
        limit = hosts[item.host].limit if item.host in hosts else None
        if limit is not None and item.size.bytes > limit.bytes:
            _reject(
                f"{item.name}: found a size of {item.size}, expected at most {limit}, the limit of host {item.host}"
            )
        for key, size in (("request", item.request), ("response_header", item.response_header)):
            if size is not None and not 1 <= size.bytes <= MOST_HEADER.bytes:
                _reject(f"{item.name}: {key}: found {size}, expected 1 B to {MOST_HEADER}")
    _check_redirects(objects)
    cycle = _find_cycle({name: list(names) for name, names in find_predecessors(objects).items()})
    if cycle:
        _reject(f"objects wait for each other: {' after '.join(cycle)}; expected an order")


def find_predecessors(objects: list[PageObject]) -> dict[str, dict[str, None]]:
    """Return the predecessors of each object in order: those of its ``after``, and the redirect to it."""
    predecessors = {item.name: dict.fromkeys(item.after) for item in objects}
    for item in objects:
        if item.redirect is not None:
            predecessors[item.redirect][item.name] = None
    return predecessors


def _check_redirects(objects: list[PageObject]) -> None:
    """Reject redirects to an unknown object or to the first item, and two redirects to item object."""
    names = {item.name for item in objects}
    sources: dict[str, str] = {}
    for item in objects:
        if item.redirect is None:
            continue
        if item.redirect not in names:
            _reject(f"{item.name}: redirect: {unknown_name(item.redirect, sorted(names), 'object')}")
        if item.redirect == objects[0].name:
            _reject(f"{item.name}: redirect: found the first object, expected a later one")
        if item.redirect in sources:
            first = sources[item.redirect]
            _reject(
                f"{item.name}: redirect: found {item.redirect}, to which {first} redirects; expected another object"
            )
        sources[item.redirect] = item.name


MOST_HEADER = Size(1_000_000)
"""Largest header block; the limits of servers are between 8 and 64 kB."""


def _find_cycle(after: dict[str, list[str]]) -> list[str]:
    """Return a cycle of names, with the first one repeated at the end; empty if there is none."""
    pending = {name: len(names) for name, names in after.items()}
    successors: dict[str, list[str]] = {name: [] for name in after}
    for name, names in after.items():
        for predecessor in names:
            successors[predecessor].append(name)
    ready = [name for name, count in pending.items() if count == 0]
    while ready:
        for name in successors[ready.pop()]:
            pending[name] -= 1
            if pending[name] == 0:
                ready.append(name)
    blocked = [name for name, count in pending.items() if count > 0]
    if not blocked:
        return []
    visited: list[str] = []
    name = blocked[0]
    while name not in visited:
        visited.append(name)
        name = next(predecessor for predecessor in after[name] if pending[predecessor] > 0)
    return [*visited[visited.index(name) :], name]


def _reject(error: str) -> None:
    raise PydanticCustomError("scenario", "{error}", {"error": error})
