"""``page``: pages out of HAR files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["page"]


def page(
    file: Annotated[Path, typer.Argument(metavar="FILE.har", help="an HTTP archive of a browser")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="PAGE.toml", help="where; default: standard output")
    ] = None,
) -> None:
    """Turn a HAR file into a page. Objects, hosts, sizes and what waits for what, as TOML."""
    from bentpipe.scenario.har import as_toml, read_har
    from bentpipe.store.files import write_whole

    text = as_toml(read_har(file))
    if out is None:
        print(text)
    else:
        write_whole(out, text.encode())
