"""``browse URL``: a site of one's own in a real Chromium, behind an access."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from bentpipe.cli.common import FAILED, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["is_site", "visit"]


def is_site(word: str) -> bool:
    """Whether ``word`` is no file's name but an address."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", word) is not None


def visit(
    url: str,
    access: str | None,
    *,
    settings: Sequence[str],
    out: Path | None,
    pep: str | None,
    timeout_s: float | None,
    spki: str | None,
    as_json: bool,
) -> None:
    """Loads it, prints what came and writes its page; exit status 1 where it did not load."""
    from bentpipe.cli.terminal import emit, print_table
    from bentpipe.lab.browser import site
    from bentpipe.lab.browser.chromium import ChromiumError
    from bentpipe.lab.shell import SessionError
    from bentpipe.report import visit as pages
    from bentpipe.runners import engine
    from bentpipe.scenario.sweep import parse_override

    site.address(url)
    if access is None:
        refuse("--access: missing beside a URL, expected a preset or a scenario (TOML), such as geo-konnect")
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).netloc)
    target = out or Path("out") / f"{name}-{Path(access).stem}"
    try:
        found = site.visit(
            url, access, target, overrides=[parse_override(text) for text in settings], pep=pep,
            timeout_s=timeout_s or 300.0, spki=spki,
        )  # fmt: skip
    except (ChromiumError, SessionError) as error:
        refuse(str(error))
    seen = pages.Seen(
        found.url, found.access, found.error, found.marks, found.requests, found.start_s, found.film, found.reasons
    )  # fmt: skip
    page = pages.write(seen, target / "page.html", engine.version())
    if as_json:
        emit({
            "url": found.url, "access": found.access, "error": found.error or None, "marks_ms": dict(found.marks),
            "requests": pages.rows(seen), "har": str(target / site.HAR), "page": str(page),
            "valid": not found.reasons, "reasons": list(found.reasons),
        })  # fmt: skip
    else:
        print(pages.sentence(seen))
        print_table(pages.rows(seen))
        for reason in found.reasons:
            print(f"note: the machine did not keep the path's time: {reason}")
        print(f"the page: {page}; the requests: {target / site.HAR}")
    if found.error:
        raise typer.Exit(FAILED)
