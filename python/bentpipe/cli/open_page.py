"""Option ``--open``: open a written page in the browser of the user."""

from __future__ import annotations

import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Open", "open_page"]

Open = Annotated[bool, typer.Option("--open", help="open the page in a browser")]


def open_page(page: Path) -> None:
    """Open a page in the default browser; without one, print a warning."""
    try:
        opened = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        print(f"warning: --open: no browser found; open {page} in one", file=sys.stderr)
