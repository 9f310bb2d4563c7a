"""Real programs over an emulated access (``shell``), and changes of the running access (``change``)."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from bentpipe.cli.common import AsJson, Settings

__all__ = ["change", "shell"]


class TrailingCommand(TyperCommand):
    """Command line that ends with another one: an unknown option may belong to that one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the message about an unknown option explains how to pass it to the command."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer's copy of Click is private, so that only its attribute identifies the error.
            usage_error: Any = error
            if option := getattr(usage_error, "option_name", None):
                example = f"bentpipe {self.name} ACCESS -- CMD {option}"
                usage_error.hint = f"if it belongs to the command, put -- before the command: {example}"
            raise


def shell(
    access: Annotated[str, typer.Argument(metavar="ACCESS", help="preset or scenario (TOML)")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="command [default: $SHELL]")
    ] = None,
    settings: Settings = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**63 - 1,
            metavar="N",
            help="seed of random values [default: the scenario's first, or 1]",
        ),
    ] = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--path-check/--no-path-check",
            help="measure the path first [default: only without a saved measurement of this host]",
        ),
    ] = None,
    no_outside: Annotated[
        bool, typer.Option("--isolated", help="isolate the command from all but the server side of the path")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="show rate, queue and drops in the terminal title")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="record series and result in a new directory"),
    ] = None,
    pep: Annotated[
        str | None,
        typer.Option("--pep", metavar="SETUP", help="split TCP after the longest segment: early, relayed"),
    ] = None,
    background_users: Annotated[
        int | None, typer.Option(metavar="N", help="simulated users that share the access with the command")
    ] = None,
    background_mix: Annotated[
        str | None,
        typer.Option(
            metavar="KIND=SHARE,...",
            help="traffic mix: tcp, quic, call, page [default: tcp=0.2,call=0.3,page=0.5]",
        ),
    ] = None,
) -> None:
    """Run a command over an emulated access network."""
    from bentpipe.lab.shell import run
    from bentpipe.scenario.sweep import parse_override

    overrides = [parse_override(text) for text in settings or []]
    status = run(
        access, command or [], overrides=overrides, check=check, outside=not no_outside,
        watch=watch, record=record, pep=pep, users=background_users, mix=background_mix, seed=seed,
        on_message=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    gc.freeze()  # The interpreter then skips these objects at its end.
    raise typer.Exit(status)


def change(
    assignments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[[SEGMENT[.up|.down].]rate|delay|loss=VALUE...]",
            help="changes, as in a scenario [default: print the path]",
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="SOCKET", help="control socket of the shell [default: $BENTPIPE_CONTROL]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print or change the access of a running shell, from inside."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.control import get_path
    from bentpipe.lab.control import set_path as change_it

    messages = [line for one in assignments or [] for line in change_it(one, control=control)]
    if as_json:
        emit(get_path(control=control).as_json())
    elif assignments:
        print("\n".join(messages))
    else:
        path = get_path(control=control)
        print_table([line.as_row() for line in path.lines], f"Path after {path.time_s:.0f} s")
