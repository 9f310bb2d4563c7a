"""Web pages in a scenario: objects, the hosts that serve them, and what waits for what."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, StrictBool, StrictInt, StrictStr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import DurationText, SizeText, Table
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.quantities import Duration, Size

__all__ = ["MOST_OBJECTS", "Host", "Page", "PageObject", "PageSource"]

MOST_OBJECTS = 10_000
"""Of a page: more is taken for a slip."""

_LONGEST_NAME = 200


def _label(found: object) -> str:
    if (
        not isinstance(found, str)
        or not found.strip()
        or len(found) > _LONGEST_NAME
        or not found.isprintable()
    ):
        raise ValueError(f'found "{found}", expected a name of 1 to {_LONGEST_NAME} characters in one line')
    return found


Label = Annotated[str, PlainValidator(_label), WithJsonSchema({"type": "string", "maxLength": _LONGEST_NAME})]


class Host(Table):
    """A host of a page: whether a connection is open beforehand, whether it speaks TLS, and its largest answer."""

    open: StrictBool = False
    tls: StrictBool = True
    limit: SizeText | None = None


class PageObject(Table):
    """An object: how large, from where, after which others it is asked for, and which one it redirects to."""

    name: Label
    size: SizeText
    host: Label = "origin"
    after: list[StrictStr] = Field(default_factory=list)
    redirect: StrictStr | None = None
    request: SizeText | None = None
    response_header: SizeText | None = None
    think: DurationText = Duration(0)


class Page(Table):
    """A page: the first object is the main document, or redirects to it."""

    object: Annotated[list[PageObject], Field(min_length=1, max_length=MOST_OBJECTS)]
    host: dict[str, Host] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> Page:
        check(self.object, self.host)
        return self


def is_har(name: str) -> bool:
    """Whether the name of a page is that of a HAR file."""
    return name.lower().endswith(".har")


class PageSource(Table):
    """Where a page comes from: its own objects, a name (of a ``[page.NAME]``, a preset, or a HAR file), or a HAR file.

    ``har_page`` is a page of the HAR file: its id, or its number from 1 on.
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
            raise ValueError("found har_page without a HAR file, expected it beside one")
        if self.object:
            check(self.object, self.host)
        return self


def check(objects: list[PageObject], hosts: dict[str, Host]) -> None:
    """Names are unique, dependencies exist and end, sizes fit their hosts. Raises a scenario error."""
    names = [one.name for one in objects]
    known = set(names)
    if len(known) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        _refuse(f'two objects are called "{twice}", expected a name for each')
    used = {one.host for one in objects}
    for host in hosts:
        if host not in used:
            _refuse(f"host {host}: {unknown_name(host, sorted(used), 'host of an object')}")
    if objects[0].after:
        _refuse(f"{objects[0].name}: the first object is the main document, expected no after")
    for one in objects:
        for before in one.after:
            if before not in known:
                _refuse(f"{one.name}: after: {unknown_name(before, names, 'object')}")
        limit = hosts[one.host].limit if one.host in hosts else None
        if limit is not None and one.size.bytes > limit.bytes:
            _refuse(
                f"{one.name}: found a size of {one.size}, expected at most {limit}, the limit of host {one.host}"
            )
        for key, size in (("request", one.request), ("response_header", one.response_header)):
            if size is not None and not 1 <= size.bytes <= MOST_HEADER.bytes:
                _refuse(f"{one.name}: {key}: found {size}, expected 1 B to {MOST_HEADER}")
    _check_redirects(objects)
    circle = _cycle({name: list(before) for name, before in waits(objects).items()})
    if circle:
        _refuse(f"objects wait for each other: {' after '.join(circle)}; expected an order")


def waits(objects: list[PageObject]) -> dict[str, dict[str, None]]:
    """Return by object the names that it waits for, in order: those of its ``after``, and what redirects to it."""
    found = {one.name: dict.fromkeys(one.after) for one in objects}
    for one in objects:
        if one.redirect is not None:
            found[one.redirect][one.name] = None
    return found


def _check_redirects(objects: list[PageObject]) -> None:
    """Refuse redirects to no object, to the first one, and several to one."""
    names = {one.name for one in objects}
    sources: dict[str, str] = {}
    for one in objects:
        if one.redirect is None:
            continue
        if one.redirect not in names:
            _refuse(f"{one.name}: redirect: {unknown_name(one.redirect, sorted(names), 'object')}")
        if one.redirect == objects[0].name:
            _refuse(f"{one.name}: redirect: found the first object, expected one that is asked for later")
        if one.redirect in sources:
            first = sources[one.redirect]
            _refuse(
                f"{one.name}: redirect: found {one.redirect}, to which {first} redirects; expected another object"
            )
        sources[one.redirect] = one.name


MOST_HEADER = Size(1_000_000)
"""Of a header block: servers stop at some 8 to 64 kB."""


def _cycle(after: dict[str, list[str]]) -> list[str]:
    """A circle of names, first one repeated at its end; empty without one."""
    waits = {name: len(before) for name, before in after.items()}
    followers: dict[str, list[str]] = {name: [] for name in after}
    for name, before in after.items():
        for other in before:
            followers[other].append(name)
    free = [name for name, count in waits.items() if count == 0]
    while free:
        for name in followers[free.pop()]:
            waits[name] -= 1
            if waits[name] == 0:
                free.append(name)
    stuck = [name for name, count in waits.items() if count > 0]
    if not stuck:
        return []
    seen: list[str] = []
    at = stuck[0]
    while at not in seen:
        seen.append(at)
        at = next(other for other in after[at] if waits[other] > 0)
    return [*seen[seen.index(at) :], at]


def _refuse(error: str) -> None:
    raise PydanticCustomError("scenario", "{error}", {"error": error})
