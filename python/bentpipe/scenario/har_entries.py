"""Entries of a HAR file as the objects of a page.

An entry becomes an object if the browser fetched it over the network. Excluded are schemes other than http and https, a
status of 0 (blocked, cancelled), responses from the cache, and redirects by the browser itself (HSTS). Rules:

- size: the first known value of ``response.bodySize``, ``_transferSize``, ``_objectSize``, ``_bytesIn`` and
  ``content.size``. ``_transferSize`` and WebPageTest's ``_bytesIn`` are less the headers. A redirect without any has no
  body.
- header blocks: ``headersSize``, if known
- redirect: a status of RFC 9110 section 15.4 with a target; the target is the next entry of that URL (``har_urls``)
- predecessor: the redirect that led to the entry, else the object in ``_initiator``, else the document. The object is
  that of ``url``, or the first script of the stack that is in the file.
- host: name and port for https; for http the same after ``http://``, without TLS
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.har_urls import normalise, resolve_redirect, split_web_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from urllib.parse import SplitResult

__all__ = ["FIELDS", "Objects", "is_fetched", "one_line"]

FIELDS = "response.bodySize, response._transferSize, _objectSize, _bytesIn or response.content.size"
"""Fields with the size of a response."""

UNKNOWN = -1
"""Value of HAR 1.2 for an unknown size."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""Status codes that browsers follow (RFC 9110 section 15.4)."""


@dataclass(slots=True)
class _RedirectChain:
    """Redirects whose target has no entry yet."""

    redirect: str | None
    """Last fetched redirect; None if none was fetched."""
    after: list[str]
    """Predecessors of the first request, used if no redirect was fetched."""
    urls: list[str]
    """URLs that lead to the target."""


@dataclass(slots=True)
class Objects:
    """Objects of a page, built from entries in the order of their requests."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of hosts, as in a page."""
    sized: bool = False
    """Whether any entry has a size."""
    unsized: list[str] = field(default_factory=list)
    """URLs of responses without a size."""
    _by_name: dict[str, dict[str, Any]] = field(default_factory=dict)
    _by_url: dict[str, str] = field(default_factory=dict)
    """Object of a URL; for a redirect, the object of its target."""
    _redirecting_urls: set[str] = field(default_factory=set)
    """URLs with no other response than redirects so far."""
    _pending_redirects: dict[str, list[_RedirectChain]] = field(default_factory=dict)
    """Chains by their target, the oldest first, until the target has an entry."""
    _document: str = ""
    _copies: dict[str, int] = field(default_factory=dict)
    """Number of objects with the same name."""

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add the next entry."""
        request, response = table(entry, "request"), table(entry, "response")
        parts = split_web_url(request.get("url"))
        if parts is None:
            return
        url = normalise(request["url"])
        redirect_url, fetched = _redirect_url(url, response), is_fetched(entry)
        chains = self._pending_redirects.get(url)
        chain = chains.pop(0) if chains else _RedirectChain(None, self._initiators(entry), [])
        urls = [*chain.urls, url]
        redirect = chain.redirect
        if fetched:
            name = self._add_object(entry, parts, url, redirects=redirect_url is not None)
            if redirect is not None:
                self._by_name[redirect]["redirect"] = name
            else:
                self._by_name[name]["after"] = chain.after
            if self._document == (redirect or ""):
                self._document = name
            self._record_urls(urls, name, redirects=redirect_url is not None)
            redirect = name
        if redirect_url is not None:
            self._pending_redirects.setdefault(redirect_url, []).append(
                _RedirectChain(redirect, chain.after, urls)
            )

    def finish(self) -> list[dict[str, Any]]:
        """Return the objects as in a page, in the order of their requests."""
        targets = {item["redirect"] for item in self.objects if "redirect" in item}
        for item in self.objects[1:]:
            if not item["after"] and item["name"] not in targets:
                item["after"] = [self._document]
        return self.objects

    def _add_object(self, entry: Mapping[str, Any], parts: SplitResult, url: str, *, redirects: bool) -> str:
        """Add the object of an entry and return its name."""
        request, response = table(entry, "request"), table(entry, "response")
        headers = integer(response.get("headersSize"))
        size = next((size for size in _sizes(entry, redirects=redirects) if size >= 0), UNKNOWN)
        self.sized |= size != UNKNOWN
        if size == UNKNOWN and not redirects:
            self.unsized.append(request["url"].partition("#")[0])
        name = self._unique_name(_name_of(parts.path))
        page_object: dict[str, Any] = {
            "name": name,
            "size": f"{max(size, 0)} B",
            "host": self._host(url),
            "after": [],
        }
        request_headers = integer(request.get("headersSize"))
        if request_headers > 0:
            page_object["request"] = f"{request_headers} B"
        if headers > 0:
            page_object["response_header"] = f"{headers} B"
        self.objects.append(page_object)
        self._by_name[name] = page_object
        return name

    def _host(self, url: str) -> str:
        """Return the label of an origin; http and https of the same host differ."""
        scheme, _, rest = url.partition("://")
        host = one_line(rest.partition("/")[0])
        if scheme == "https":
            return host
        self.hosts[f"http://{host}"] = {"tls": False}
        return f"http://{host}"

    def _record_urls(self, urls: list[str], name: str, *, redirects: bool) -> None:
        """Record that ``urls`` lead to the object ``name``. A response replaces redirects, but no other response."""
        for url in urls:
            if url not in self._by_url or url in self._redirecting_urls:
                self._by_url[url] = name
                (self._redirecting_urls.add if redirects else self._redirecting_urls.discard)(url)

    def _initiators(self, entry: Mapping[str, Any]) -> list[str]:
        """Return the object that initiated ``entry``; an empty list if the file does not have it."""
        if not self.objects:
            return []
        urls = map(normalise, _initiator_urls(entry.get("_initiator")))
        return next(([self._by_url[url]] for url in urls if url in self._by_url), [])

    def _unique_name(self, name: str) -> str:
        """Return ``name``, with a numeric suffix if another object has it."""
        candidate = name
        while candidate in self._by_name:
            self._copies[name] = self._copies.get(name, 1) + 1
            candidate = f"{name}-{self._copies[name]}"
        return candidate


def table(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at ``key``; an empty one if there is none."""
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def integer(value: object) -> int:
    """Return a number of bytes, or :data:`UNKNOWN`. WebPageTest writes some numbers as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**53:
        return int(value)
    return UNKNOWN


def is_fetched(entry: Mapping[str, Any]) -> bool:
    """Return whether ``entry`` is a response from the network."""
    response = table(entry, "response")
    if split_web_url(table(entry, "request").get("url")) is None or integer(response.get("status")) <= 0:
        return False
    # the header marks a redirect to https by Chromium itself, without a request
    return not _is_cached(entry) and _header(response, "non-authoritative-reason") is None


def _sizes(entry: Mapping[str, Any], *, redirects: bool) -> Iterator[int]:
    """Yield the sizes of a body in bytes according to the file, the best first; :data:`UNKNOWN` for missing ones.

    WebPageTest writes 0 in ``bodySize`` and ``content.size`` for a body that it did not inspect. The received
    bytes of a redirect are its header block if ``headersSize`` is unknown.
    """
    response = table(entry, "response")
    header_size = integer(response.get("headersSize"))
    headers, has_body_size = max(header_size, 0), header_size >= 0 or not redirects
    body, received = integer(response.get("bodySize")), integer(entry.get("_bytesIn"))
    transfer = integer(response.get("_transferSize"))
    if body > 0 or received <= headers:
        yield body
    yield max(transfer - headers, 0) if transfer > 0 and has_body_size else UNKNOWN
    yield integer(entry.get("_objectSize")) or UNKNOWN
    yield max(received - headers, 0) if received > 0 and has_body_size else UNKNOWN
    yield integer(table(response, "content").get("size"))


def _redirect_url(url: str, response: Mapping[str, Any]) -> str | None:
    """Return the URL location which a response redirects a browser; None without a redirect."""
    if integer(response.get("status")) not in REDIRECTS:
        return None
    location = response.get("redirectURL") or _header(response, "location")
    try:
        return resolve_redirect(url, location) if isinstance(location, str) and location else None
    except ValueError:
        return None


def _header(response: Mapping[str, Any], name: str) -> str | None:
    """Return the value of a header field; None if it is missing."""
    fields = response.get("headers")
    for header in fields if isinstance(fields, list) else ():
        if isinstance(header, dict) and str(header.get("name")).lower() == name:
            return str(header.get("value"))
    return None


def _is_cached(entry: Mapping[str, Any]) -> bool:
    """Return whether the response is from the cache, by the fields of Chromium, Safari and Firefox."""
    response = table(entry, "response")
    if response.get("_fromDiskCache") or entry.get("_fromCache"):
        return True
    if entry.get("_fetchType") in ("Memory Cache", "Disk Cache"):
        return True
    # After a load from the network, other programs may record the state of the cache in this field.
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
    """Return ``text`` without control characters, truncated to 150 characters."""
    return "".join(c if c.isprintable() else "?" for c in text)[:150]


def _name_of(path: str) -> str:
    tail = path.rstrip("/").rsplit("/", 1)[-1]
    return one_line(tail).strip() or "index"
