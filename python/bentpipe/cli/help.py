"""``help``: what ``--help`` says, for who types the word."""

from __future__ import annotations

from typing import Annotated

import typer

from bentpipe.cli.common import refuse

__all__ = ["helps"]


def helps(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]", help="a command, such as run")
    ] = None,
) -> None:
    """Say what the commands are, or what one of them takes."""
    from bentpipe.scenario.errors import unknown_name

    here = context.find_root()
    for word in command or []:
        known = getattr(here.command, "commands", {})
        if word not in known:
            refuse(f"COMMAND: {unknown_name(word, known, 'command')}")
        here = type(here)(known[word], info_name=word, parent=here)
    print(here.get_help())
