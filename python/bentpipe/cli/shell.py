"""``shell``: real programs behind an emulated access; ``change``: the access while it runs."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from bentpipe.cli.common import AsJson, Settings

__all__ = ["change", "shell"]


class BeforeCommand(TyperCommand):
    """A command line with another one at its end: an unknown option may be that one's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever; the message about an unknown option says how it is left to the command."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer's own copy of Click is private: the error is known by what it has.
            wrong: Any = error
            if option := getattr(wrong, "option_name", None):
                again = f"bentpipe {self.name} ACCESS -- CMD {option}"
                wrong.message += f"; if it belongs to the command, -- stands before that: {again}"
            raise


def shell(
    access: Annotated[str, typer.Argument(metavar="ACCESS", help="a preset, or a scenario (TOML)")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="the command [default: $SHELL]")
    ] = None,
    settings: Settings = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="measure the path first, or not [default: unless a measurement of this machine was kept]",
        ),
    ] = None,
    no_outside: Annotated[
        bool, typer.Option("--no-outside", help="let the command reach the path's far end alone")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="rate, queue and drops in the terminal's title")
    ] = False,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="keep series and result in a new directory")
    ] = None,
    pep: Annotated[
        str | None,
        typer.Option("--pep", metavar="SETUP", help="split TCP behind the longest segment: early, relayed"),
    ] = None,
    users: Annotated[
        int | None, typer.Option(metavar="N", help="simulated users who share the access with the command")
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(
            metavar="KIND=SHARE,...", help="what they do: tcp, quic, call, page [tcp=0.2,call=0.3,page=0.5]"
        ),
    ] = None,
) -> None:
    """Run a command behind an emulated access."""
    from bentpipe.lab.shell import run
    from bentpipe.scenario.sweep import parse_override

    overrides = [parse_override(text) for text in settings or []]
    status = run(
        access, command or [], overrides=overrides, check=check, outside=not no_outside,
        watch=watch, record=record, pep=pep, users=users, mix=mix,
        on_message=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    gc.freeze()  # Python's end looks through nothing of it
    raise typer.Exit(status)


def change(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[[SEGMENT[.up|.down].]rate|delay|loss=VALUE...]",
            help="as in a scenario; without, the path as it is",
        ),
    ] = None,
    control: Annotated[
        str | None, typer.Option(metavar="SOCKET", help="the session's; default: $BENTPIPE_CONTROL")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a running shell's access from inside, or print it."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.control import get_path
    from bentpipe.lab.control import set_path as change_it

    done = [line for one in words or [] for line in change_it(one, control=control)]
    if as_json:
        emit(get_path(control=control).as_json())
    elif words:
        print("\n".join(done))
    else:
        now = get_path(control=control)
        print_table(
            [line.as_row() for line in now.lines], f"the path, {now.time_s:.0f} s after its time began"
        )
