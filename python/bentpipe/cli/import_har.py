"""Command ``page``: pages from HAR files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli.common import HarPage

__all__ = ["import_har"]


def import_har(
    file: Annotated[Path, typer.Argument(metavar="FILE.har", help="HTTP archive (HAR) of a browser")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="PAGE.toml", help="output file [default: standard output]"),
    ] = None,
    har_page: HarPage = None,
) -> None:
    """Convert a HAR file to a page.

    A page has objects, hosts, sizes and dependencies, as TOML.
    """
    from bentpipe.scenario.har import read_har, to_toml
    from bentpipe.store.files import write_atomic

    imported = read_har(file, select=har_page)
    for note in imported.notes:
        print(f"warning: {note}", file=sys.stderr)
    text = to_toml(imported.page)
    if out is None:
        print(text)
    else:
        write_atomic(out, text.encode())
