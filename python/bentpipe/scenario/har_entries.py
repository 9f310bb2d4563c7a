"""Entries of a HAR file as the objects of a page.

An entry becomes an object unless it was not fetched over the network: another scheme than http or https, a status of
0 (blocked, cancelled), an answer from the cache, or a redirect that the browser made itself (HSTS). Rules:

- size: the first that is known of ``response.bodySize``, ``_transferSize`` less the headers, WebPageTest's
  ``_objectSize`` and ``_bytesIn`` (less the headers), ``content.size``; a redirect without any has no body
- header blocks: ``headersSize``, where it is known
- redirect: a status of RFC 9110 section 15.4 that names a target, which is the next entry of that URL (``har_urls``)
- waits for: the redirect that led to it; else the object that ``_initiator`` names (its ``url``, or the first script
  of its stack that is in the file); else the document
- host: of https its name and port; of http the same behind ``http://``, without TLS
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.har_urls import normal, target, web_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from urllib.parse import SplitResult

__all__ = ["FIELDS", "Objects", "is_fetched", "one_line"]

FIELDS = "response.bodySize, response._transferSize, _objectSize, _bytesIn or response.content.size"
"""Fields that hold the size of a response."""

UNKNOWN = -1
"""HAR 1.2's value for an unknown size."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""RFC 9110 section 15.4: followed by a browser."""


@dataclass(slots=True)
class _Chain:
    """Redirects on their way to a URL."""

    redirect: str | None
    """The last of them that was fetched."""
    after: list[str]
    """Where none was: what the first request waited for."""
    urls: list[str]
    """Those that lead to the target."""


@dataclass(slots=True)
class Objects:
    """Collects the objects of a page, entry by entry in the order of their requests."""

    made: list[dict[str, Any]] = field(default_factory=list)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of hosts, as a page has them."""
    sized: bool = False
    """Whether any entry has a size."""
    unsized: list[str] = field(default_factory=list)
    """URLs of responses without a size."""
    _by_name: dict[str, dict[str, Any]] = field(default_factory=dict)
    _by_url: dict[str, str] = field(default_factory=dict)
    """The object that answered for a URL: behind a redirect, its target's."""
    _led: set[str] = field(default_factory=set)
    """URLs that have only redirected yet."""
    _chains: dict[str, list[_Chain]] = field(default_factory=dict)
    """By their target, the oldest first, until it is met."""
    _document: str = ""
    _copies: dict[str, int] = field(default_factory=dict)
    """How many objects have had a name."""

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take the next entry."""
        request, response = table(entry, "request"), table(entry, "response")
        parts = web_parts(request.get("url"))
        if parts is None:
            return
        url = normal(request["url"])
        to, fetched = _target(url, response), is_fetched(entry)
        waiting = self._chains.get(url)
        chain = waiting.pop(0) if waiting else _Chain(None, self._initiators(entry), [])
        urls = [*chain.urls, url]
        redirect = chain.redirect
        if fetched:
            name = self._make(entry, parts, url, redirects=to is not None)
            if redirect is not None:
                self._by_name[redirect]["redirect"] = name
            else:
                self._by_name[name]["after"] = chain.after
            if self._document == (redirect or ""):
                self._document = name
            self._note(urls, name, redirects=to is not None)
            redirect = name
        if to is not None:
            self._chains.setdefault(to, []).append(_Chain(redirect, chain.after, urls))

    def finish(self) -> list[dict[str, Any]]:
        """Return the objects, the first requested first, as a page has them."""
        targets = {one["redirect"] for one in self.made if "redirect" in one}
        for one in self.made[1:]:
            if not one["after"] and one["name"] not in targets:
                one["after"] = [self._document]
        return self.made

    def _make(self, entry: Mapping[str, Any], parts: SplitResult, url: str, *, redirects: bool) -> str:
        request, response = table(entry, "request"), table(entry, "response")
        headers = integer(response.get("headersSize"))
        size = next((size for size in _sizes(entry, redirects=redirects) if size >= 0), UNKNOWN)
        self.sized |= size != UNKNOWN
        if size == UNKNOWN and not redirects:
            self.unsized.append(request["url"].partition("#")[0])
        name = self._free(_label(parts.path))
        made: dict[str, Any] = {
            "name": name,
            "size": f"{max(size, 0)} B",
            "host": self._host(url),
            "after": [],
        }
        asked = integer(request.get("headersSize"))
        if asked > 0:
            made["request"] = f"{asked} B"
        if headers > 0:
            made["response_header"] = f"{headers} B"
        self.made.append(made)
        self._by_name[name] = made
        return name

    def _host(self, url: str) -> str:
        """Return the label of an origin: http and https of one name are two."""
        scheme, _, rest = url.partition("://")
        host = one_line(rest.partition("/")[0])
        if scheme == "https":
            return host
        self.hosts[f"http://{host}"] = {"tls": False}
        return f"http://{host}"

    def _note(self, urls: list[str], name: str, *, redirects: bool) -> None:
        """Remember that ``urls`` led to the object ``name``. An answer takes the place of redirects, no other's."""
        for url in urls:
            if url not in self._by_url or url in self._led:
                self._by_url[url] = name
                (self._led.add if redirects else self._led.discard)(url)

    def _initiators(self, entry: Mapping[str, Any]) -> list[str]:
        """Return the object that asked for ``entry``; none where the file does not say, or does not have it."""
        if not self.made:
            return []
        urls = map(normal, _initiator_urls(entry.get("_initiator")))
        return next(([self._by_url[url]] for url in urls if url in self._by_url), [])

    def _free(self, name: str) -> str:
        """Return ``name``, with a number behind it where it is taken."""
        fresh = name
        while fresh in self._by_name:
            self._copies[name] = self._copies.get(name, 1) + 1
            fresh = f"{name}-{self._copies[name]}"
        return fresh


def table(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at ``key``; an empty one where there is none."""
    found = entry.get(key)
    return found if isinstance(found, dict) else {}


def integer(found: object) -> int:
    """Return a number of bytes, or :data:`UNKNOWN`. WebPageTest writes some as texts of digits."""
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 16:
        return int(found)
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < 2**53:
        return int(found)
    return UNKNOWN


def is_fetched(entry: Mapping[str, Any]) -> bool:
    """Whether ``entry`` is an answer over the network."""
    response = table(entry, "response")
    if web_parts(table(entry, "request").get("url")) is None or integer(response.get("status")) <= 0:
        return False
    # Chromium's own redirect to https, before anything is sent
    return not _is_cached(entry) and _header(response, "non-authoritative-reason") is None


def _sizes(entry: Mapping[str, Any], *, redirects: bool) -> Iterator[int]:
    """Yield what the file says of the size of a body, B, the best first; :data:`UNKNOWN` where it does not say it.

    WebPageTest has 0 in ``bodySize`` and ``content.size`` for a body that it did not look at. What came of a redirect
    is its head, where the size of that is not known.
    """
    response = table(entry, "response")
    known = integer(response.get("headersSize"))
    headers, counts = max(known, 0), known >= 0 or not redirects
    body, came = integer(response.get("bodySize")), integer(entry.get("_bytesIn"))
    transfer = integer(response.get("_transferSize"))
    if body > 0 or came <= headers:
        yield body
    yield max(transfer - headers, 0) if transfer > 0 and counts else UNKNOWN
    yield integer(entry.get("_objectSize")) or UNKNOWN
    yield max(came - headers, 0) if came > 0 and counts else UNKNOWN
    yield integer(table(response, "content").get("size"))


def _target(url: str, response: Mapping[str, Any]) -> str | None:
    """Return the URL to which a response leads a browser; None where it leads nowhere."""
    if integer(response.get("status")) not in REDIRECTS:
        return None
    to = response.get("redirectURL") or _header(response, "location")
    try:
        return target(url, to) if isinstance(to, str) and to else None
    except ValueError:
        return None


def _header(response: Mapping[str, Any], name: str) -> str | None:
    """Return the value of a header field; None without it."""
    fields = response.get("headers")
    for one in fields if isinstance(fields, list) else ():
        if isinstance(one, dict) and str(one.get("name")).lower() == name:
            return str(one.get("value"))
    return None


def _is_cached(entry: Mapping[str, Any]) -> bool:
    """Whether it came from the browser's cache: as Chromium, Safari and Firefox say it."""
    response = table(entry, "response")
    if response.get("_fromDiskCache") or entry.get("_fromCache"):
        return True
    if entry.get("_fetchType") in ("Memory Cache", "Disk Cache"):
        return True
    # Others may have the state of the cache after a load from the network there.
    return "afterRequest" in table(entry, "cache") and integer(response.get("bodySize")) <= 0


def _initiator_urls(initiator: object) -> Iterator[str]:
    urls: list[object] = [initiator]
    if isinstance(initiator, dict):
        urls = [initiator.get("url")]
        stack = initiator.get("stack")
        frames = stack.get("callFrames") if isinstance(stack, dict) else None
        urls += [frame.get("url") for frame in frames or [] if isinstance(frame, dict)]
    return (url for url in urls if isinstance(url, str))


def one_line(text: str) -> str:
    """Return ``text`` without what a terminal would obey, cut to 150 characters."""
    return "".join(c if c.isprintable() else "?" for c in text)[:150]


def _label(path: str) -> str:
    tail = path.rstrip("/").rsplit("/", 1)[-1]
    return one_line(tail).strip() or "index"
