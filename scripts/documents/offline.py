"""Replacement of links to other hosts that Zensical writes, by files of the site."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath

SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*>')
"""This script makes the search work in pages of file://; docs/site.js does the same."""


def replace_links(site: Path) -> None:
    """Change every page that fetches the script."""
    for file in site.rglob("*.html"):
        script = relpath("docs/site.js", file.parent.relative_to(site).as_posix())
        text = file.read_text(encoding="utf-8")
        file.write_text(SHIM.sub(f'<script src="{script}">', text), encoding="utf-8")
