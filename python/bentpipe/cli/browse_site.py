"""``browse URL``: a web site of the user in a real Chromium over an access."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from bentpipe.cli.common import FAILED, INTERRUPTED, refuse
from bentpipe.cli.open_page import open_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.lab.browser.site_load import SiteLoad

__all__ = ["is_site", "visit"]


def is_site(word: str) -> bool:
    """Return whether ``word`` is a URL and not the name of a file."""
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
    show_page: bool,
) -> None:
    """Load the site, print the result and write its page; exit with status 1 if the site did not load."""
    from bentpipe.lab.browser import site_load
    from bentpipe.lab.browser.chromium import ChromiumError
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.scenario.sweep import parse_override

    site_load.address(url)
    if access is None:
        refuse(
            "--access: missing, required with a URL; expected a preset or a scenario (TOML), such as geo-konnect"
        )
    host_name = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).netloc)
    directory = out or Path("out") / f"{host_name}-{Path(access).stem}"
    interrupted = False
    try:
        result = site_load.visit(
            url, access, directory, overrides=[parse_override(text) for text in settings], pep=pep,
            timeout_s=timeout_s or 300.0, spki=spki, without_sandbox=without_sandbox,
        )  # fmt: skip
    except (ChromiumError, LabError) as error:
        refuse(str(error))
    except site_load.InterruptedVisit as error_of_visit:
        result, interrupted = error_of_visit.visit, True
    except InterruptedLab:
        print("\ninterrupted before the first request; nothing was saved", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    _report(result, as_json=as_json, show_page=show_page)
    if interrupted:
        print(
            f"\ninterrupted: the partial result is in {directory}; rerun the command to start again",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    if result.error:
        raise typer.Exit(FAILED)


def _report(result: SiteLoad, *, as_json: bool, show_page: bool) -> None:
    """Write the page and print the result; with ``show_page``, open the page."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.browser.site_load import HAR
    from bentpipe.report import site_page as pages
    from bentpipe.runners import engine

    notes = [f"the lab missed its deadlines: {reason}" for reason in result.reasons]
    notes += [result.warning] if result.warning else []
    site = pages.SiteReport(
        result.url, result.access, result.error, result.marks, result.requests, result.start_s, result.left_s,
        result.film,
        notes,
    )  # fmt: skip
    page = pages.write(site, result.folder / "page.html", engine.version())
    if show_page:
        open_page(page)
    if as_json:
        emit({
            "url": result.url, "access": result.access,
            "error": result.error or None, "warning": result.warning or None,
            "marks_ms": dict(result.marks), "requests": pages.rows(site), "har": str(result.folder / HAR),
            "page": str(page), "valid": not result.reasons, "reasons": list(result.reasons),
        })  # fmt: skip
        return
    print(pages.headline_text(site))
    print(pages.supporting_text(site))
    print_table(pages.rows(site))
    for note in notes:
        print(f"note: {note}")
    print(f"page: {page}; requests: {result.folder / HAR}")
