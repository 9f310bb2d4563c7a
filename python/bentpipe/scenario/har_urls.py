"""URLs of a HAR file in one form: a request has its own as the browser sent it, a redirect as the server wrote it."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import SplitResult, quote, urljoin, urlsplit

__all__ = ["normal", "target", "web_parts"]

PORTS = {"http": "80", "https": "443"}
KEPT = "%!$&()*+,/:;=?@[]"
"""Characters that stay in a path and a query, beside letters, digits and ``-._~``; "%" begins an escape."""
_ADDRESS = re.compile(r"(.*?)(?::0*([0-9]*))?", re.DOTALL)


def web_parts(url: object) -> SplitResult | None:
    """Return the parts of a URL of http or https; None for others."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None
    return parts if parts is not None and parts.scheme in PORTS and parts.netloc else None


def normal(url: str) -> str:
    """Return a URL of http or https as browsers send it (WHATWG's URL standard), any other one as it is.

    Scheme and host are in lower case. The scheme's own port, the user and the fragment are left out. An empty path is
    ``/``, and steps of ``.`` and ``..`` are taken. Blanks and letters beyond ASCII are escaped.
    """
    parts = web_parts(url.strip())
    if parts is None:
        return url
    address = _ADDRESS.fullmatch(parts.netloc.rpartition("@")[2])
    host, port = address.groups() if address is not None else (parts.netloc, None)
    named = f":{port}" if port and port != PORTS[parts.scheme] else ""
    path, query = (
        quote(part, KEPT, errors="surrogatepass") for part in (_stepped(parts.path or "/"), parts.query)
    )
    return f"{parts.scheme}://{_ascii(host.lower())}{named}{path}{f'?{query}' if query else ''}"


def target(url: str, location: str) -> str:
    """Return the URL to which ``location`` leads a browser from ``url``.

    Raises:
        ValueError: it is none.
    """
    with contextlib.suppress(UnicodeError):
        # The bytes of a field are UTF-8; many recorders write them as Latin-1.
        location = location.encode("latin-1").decode()
    return normal(urljoin(url, location.strip()))


def _ascii(host: str) -> str:
    """Return a host as names are resolved: of letters beyond ASCII the punycode."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def _stepped(path: str) -> str:
    """Return a path whose steps are taken (RFC 3986 section 5.2.4)."""
    kept: list[str] = []
    steps = path.split("/")[1:]
    for step in steps:
        if step == "..":
            kept = kept[:-1]
        elif step != ".":
            kept.append(step)
    return "/".join(["", *kept, *([""] if steps[-1] in (".", "..") else [])])
