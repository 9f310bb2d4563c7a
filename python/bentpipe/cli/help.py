"""Command ``help``: the text of ``--help``."""

from __future__ import annotations

from typing import Annotated

import typer

from bentpipe.cli.common import refuse

__all__ = ["helps"]


def helps(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]", help="command such as run")
    ] = None,
) -> None:
    """List the commands, or describe one of them."""
    from bentpipe.cli.usage_errors import unknown_command

    current = context.find_root()
    for word in command or []:
        subcommands = getattr(current.command, "commands", {})
        if word not in subcommands:
            refuse(f"COMMAND: {unknown_command(word, subcommands)}")
        current = type(current)(subcommands[word], info_name=word, parent=current)
    print(current.get_help())
