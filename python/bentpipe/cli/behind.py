"""``shell``: real programs behind an emulated access."""

from __future__ import annotations

from typing import Annotated

import typer

from bentpipe.cli.common import Settings

__all__ = ["shell"]


def shell(
    access: Annotated[str, typer.Argument(metavar="ACCESS", help="a preset, or a scenario (TOML)")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="the command [default: $SHELL]")
    ] = None,
    settings: Settings = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="do not measure the path first")] = False,
    no_outside: Annotated[
        bool, typer.Option("--no-outside", help="as root: let the command reach the path's far end alone")
    ] = False,
) -> None:
    """Run a command behind an emulated access."""
    from bentpipe.shell import run
    from bentpipe.sweep import parse_override

    overrides = [parse_override(text) for text in settings or []]
    raise typer.Exit(
        run(access, command or [], overrides=overrides, check=not no_check, outside=not no_outside)
    )
