"""What Zensical would fetch from elsewhere, from the site itself."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath

SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*>')
"""Lets the search work in pages of file://; docs/site.js does the same."""


def keep(site: Path) -> None:
    """Changes every page that fetches it."""
    for file in site.rglob("*.html"):
        script = relpath("docs/site.js", file.parent.relative_to(site).as_posix())
        text = file.read_text(encoding="utf-8")
        file.write_text(SHIM.sub(f'<script src="{script}">', text), encoding="utf-8")
