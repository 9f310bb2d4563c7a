"""Option ``--open``: open a written page in the browser of the user; the end of commands with such a page."""

from __future__ import annotations

import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli.common import FAILED

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.metrics.format import CommandOutput

__all__ = ["Open", "finish", "open_page"]

Open = Annotated[bool, typer.Option("--open", help="open the page in a browser")]


def open_page(page: Path) -> None:
    """Open a page in the default browser; without one, print a warning."""
    try:
        opened = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        print(f"warning: --open: no browser found; open {page} in one", file=sys.stderr)


def finish(output: CommandOutput, *, as_json: bool, show_page: bool) -> None:
    """Print the output of a command and open its page if requested; exit with status 1 if the output is not good."""
    from bentpipe.cli.console import answer

    answer(output, as_json=as_json)
    if show_page and output.page is not None:
        open_page(output.page)
    if not output.good:
        raise typer.Exit(FAILED)
