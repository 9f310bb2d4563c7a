"""Command ``doctor``: check of this host."""

from __future__ import annotations

import typer

from bentpipe.cli.common import BAD_INPUT, AsJson

__all__ = ["doctor"]


def doctor(as_json: AsJson = False) -> None:
    """Check which features this host supports. Exit status 2 if a requirement is missing."""
    from dataclasses import asdict

    from bentpipe.cli.console import emit, print_table
    from bentpipe.doctor import examine

    checks = examine()
    if as_json:
        emit([asdict(item) for item in checks])
    else:
        marks = {
            (True, True): "ok",
            (True, False): "ok",
            (False, True): "missing (required)",
            (False, False): "not installed (optional)",
        }
        print_table([{"": marks[c.good, c.needed], "requirement": c.what, "found": c.found} for c in checks])
    if any(item.needed and not item.good for item in checks):
        raise typer.Exit(BAD_INPUT)
