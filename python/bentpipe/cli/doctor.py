"""``doctor``: what bentpipe can use on this machine."""

from __future__ import annotations

import typer

from bentpipe.cli.common import BAD_INPUT, AsJson

__all__ = ["doctor"]


def doctor(as_json: AsJson = False) -> None:
    """Say what of this machine bentpipe can use. Exit status 2 when something needed is missing."""
    from dataclasses import asdict

    from bentpipe.cli.console import emit, print_table
    from bentpipe.doctor import examine

    checks = examine()
    if as_json:
        emit([asdict(item) for item in checks])
    else:
        marks = {(True, True): "ok", (True, False): "ok", (False, True): "MISSING", (False, False): "without"}
        print_table([{"": marks[c.good, c.needed], "what": c.what, "found": c.found} for c in checks])
    if any(item.needed and not item.good for item in checks):
        raise typer.Exit(BAD_INPUT)
