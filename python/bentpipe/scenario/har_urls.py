"""Normal form of the URLs of a HAR file.

A request has its URL as the browser sent it, a redirect as the server wrote it.
"""

from __future__ import annotations

import contextlib
import re
from urllib.parse import SplitResult, quote, urljoin, urlsplit

__all__ = ["normalise", "resolve_redirect", "split_web_url"]

PORTS = {"http": "80", "https": "443"}
"""Default ports of the schemes."""

SAFE_CHARACTERS = "%!$&()*+,/:;=?@[]"
"""Unescaped characters of a path and a query, beside letters, digits and ``-._~``; "%" begins an escape."""

_ADDRESS = re.compile(r"(.*?)(?::0*([0-9]*))?", re.DOTALL)


def split_web_url(url: object) -> SplitResult | None:
    """Return the parts of an http or https URL; None for others."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None
    return parts if parts is not None and parts.scheme in PORTS and parts.netloc else None


def normalise(url: str) -> str:
    """Return an http or https URL as browsers send it (URL standard of the WHATWG), any other URL unchanged.

    Scheme and host are in lower case. The default port, the user and the fragment are removed. An empty path becomes
    ``/``, and the segments ``.`` and ``..`` are resolved. Blanks and characters beyond ASCII are escaped.
    """
    parts = split_web_url(url.strip())
    if parts is None:
        return url
    address = _ADDRESS.fullmatch(parts.netloc.rpartition("@")[2])
    host, port = address.groups() if address is not None else (parts.netloc, None)
    port_suffix = f":{port}" if port and port != PORTS[parts.scheme] else ""
    path, query = (
        quote(part, SAFE_CHARACTERS, errors="surrogatepass")
        for part in (_remove_dot_segments(parts.path or "/"), parts.query)
    )
    return f"{parts.scheme}://{_to_ascii(host.lower())}{port_suffix}{path}{f'?{query}' if query else ''}"


def resolve_redirect(url: str, location: str) -> str:
    """Return the URL to which a browser follows ``location`` from ``url``.

    Raises:
        ValueError: the result is no URL.
    """
    with contextlib.suppress(UnicodeError):
        # The bytes of a field are UTF-8; many recorders write them as Latin-1.
        location = location.encode("latin-1").decode()
    return normalise(urljoin(url, location.strip()))


def _to_ascii(host: str) -> str:
    """Return a host name in ASCII; other characters become Punycode."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def _remove_dot_segments(path: str) -> str:
    """Return a path without dot segments (RFC 3986 section 5.2.4)."""
    segments: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            segments = segments[:-1]
        elif part != ".":
            segments.append(part)
    return "/".join(["", *segments, *([""] if parts[-1] in (".", "..") else [])])
