"""``browse URL``: a site of one's own in a real Chromium, behind an access."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from bentpipe.cli.common import FAILED, INTERRUPTED, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.lab.browser.site_load import SiteLoad

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
    without_sandbox: bool,
    as_json: bool,
) -> None:
    """Loads it, prints what came and writes its page; exit status 1 where it did not load."""
    from bentpipe.lab.browser import site_load
    from bentpipe.lab.browser.chromium import ChromiumError
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.scenario.sweep import parse_override

    site_load.address(url)
    if access is None:
        refuse("--access: missing beside a URL, expected a preset or a scenario (TOML), such as geo-konnect")
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).netloc)
    target = out or Path("out") / f"{name}-{Path(access).stem}"
    interrupted = False
    try:
        found = site_load.visit(
            url, access, target, overrides=[parse_override(text) for text in settings], pep=pep,
            timeout_s=timeout_s or 300.0, spki=spki, without_sandbox=without_sandbox,
        )  # fmt: skip
    except (ChromiumError, LabError) as error:
        refuse(str(error))
    except site_load.InterruptedVisit as end:
        found, interrupted = end.visit, True
    except InterruptedLab:
        print("\ninterrupted: before the site was asked for anything; nothing was kept", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    _tell(found, as_json=as_json)
    if interrupted:
        print(f"\ninterrupted: what had come is in {target}; the same command begins anew", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if found.error:
        raise typer.Exit(FAILED)


def _tell(found: SiteLoad, *, as_json: bool) -> None:
    """Writes the page and prints what came."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.browser.site_load import HAR
    from bentpipe.report import site_page as pages
    from bentpipe.runners import engine

    notes = [f"the machine did not keep the path's time: {reason}" for reason in found.reasons]
    notes += [found.remark] if found.remark else []
    seen = pages.SiteReport(
        found.url, found.access, found.error, found.marks, found.requests, found.start_s, found.left_s, found.film,
        notes,
    )  # fmt: skip
    page = pages.write(seen, found.folder / "page.html", engine.version())
    if as_json:
        emit({
            "url": found.url, "access": found.access, "error": found.error or None, "remark": found.remark or None,
            "marks_ms": dict(found.marks), "requests": pages.rows(seen), "har": str(found.folder / HAR),
            "page": str(page), "valid": not found.reasons, "reasons": list(found.reasons),
        })  # fmt: skip
        return
    print(pages.headline_text(seen))
    print(pages.supporting_text(seen))
    print_table(pages.rows(seen))
    for note in notes:
        print(f"note: {note}")
    print(f"the page: {page}; the requests: {found.folder / HAR}")
