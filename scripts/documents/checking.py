"""Checks of a built site: broken links, and fetches from other hosts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("img", "src"),
    ("script", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
    ("object", "data"),
}
ABOUT = {"canonical", "author", "license", "edit"}
"""Relations of a <link> that no browser fetches."""
FETCHED_BY_STYLE = re.compile(r"""(?:@import\s+|url\()["']?((?:https?:)?//[^"')\s]+)""")


class _Page(HTMLParser):
    """Anchors, link targets and fetched addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        for name, value in found.items():
            if (tag, name) in FETCHED and found.get("rel") not in ABOUT:
                self.fetched.append(value)
            elif name == "href":
                self.links.append(value)
            elif name == "style":
                self.fetched += FETCHED_BY_STYLE.findall(value)


def check_site(site: Path) -> list[str]:
    """Return one message for each broken link and each fetch from another host."""
    pages = {file: _Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        where = str(file.relative_to(site))
        if where == "404.html":  # its links start at a server's root
            continue
        found += [f"{where}: fetches {one} from another host" for one in page.fetched if _is_external(one)]
        for link in sorted({*page.links, *page.fetched}):
            if not _is_external(link) and (error := _link_error(link, file, pages)):
                found.append(f"{where}: {link} {error}")
    for file in sorted(site.rglob("*.css")):
        for one in FETCHED_BY_STYLE.findall(file.read_text(encoding="utf-8")):
            found.append(f"{file.relative_to(site)}: fetches {one} from another host")
    return found


def _is_external(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in ("", "file")


def _link_error(link: str, file: Path, pages: dict[Path, _Page]) -> str:
    """Return the error of a link within the site, empty for a working link."""
    parts = urlsplit(link)
    place = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if place.is_dir():
        return "is a folder, which no browser opens as a page"
    if not place.exists():
        return "does not exist"
    if parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors:
        return "has no such anchor"
    return ""
