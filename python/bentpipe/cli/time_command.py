"""``compare``: one command behind several accesses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.common import BAD_INPUT, FAILED, INTERRUPTED, Settings, count, refuse
from bentpipe.cli.shell import BeforeCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.lab.command_timing import Timing

__all__ = ["ComparedCommand", "compare"]

_COMMAND = "bentpipe.command"


class ComparedCommand(BeforeCommand):
    """Accesses, and behind ``--`` the command: both are lists of words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever, without the command, which the context keeps."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])


def compare(
    context: typer.Context,
    accesses: Annotated[
        list[str],
        typer.Argument(metavar="ACCESS... -- CMD...", help="presets, or scenarios (TOML); a command"),
    ],
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="runs behind each access")] = 10,
    warmup: Annotated[int, typer.Option(min=0, metavar="N", help="runs before them that do not count")] = 0,
    settings: Settings = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="write all times as JSON")
    ] = None,
) -> None:
    """Time a command behind several accesses. Real time; runs interleaved."""
    import json

    from bentpipe.cli.console import patience, print_table
    from bentpipe.lab import command_timing as comparing
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.scenario.sweep import parse_override
    from bentpipe.store.files import write_atomic

    if as_json is not None and (as_json.is_dir() or not as_json.absolute().parent.is_dir()):
        refuse(f"--json: {as_json} cannot be written, expected a file in a folder that is there")
    command = context.meta[_COMMAND]
    overrides = [parse_override(text) for text in settings or ()]
    try:
        found = comparing.time_command(
            accesses,
            command,
            runs=runs,
            warmup=warmup,
            overrides=overrides,
            each=patience("comparing", "runs"),
        )
    except comparing.CommandError as failed:
        print(f"error: {failed}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except InterruptedLab:
        raise typer.Exit(INTERRUPTED) from None
    print_table(_rows(found), f"{' '.join(command)}: {count(runs, 'run')} behind each")
    for one in found:
        if one.late:
            print(
                f"note: {one.access}: in {count(one.late, 'run')} the machine was too late", file=sys.stderr
            )
    if as_json is not None:
        data = {"command": command, "warmup": warmup, "accesses": [one.as_row() for one in found]}
        write_atomic(as_json, (json.dumps(data, indent=1) + "\n").encode())


def _rows(found: Sequence[Timing]) -> list[dict[str, str]]:
    from bentpipe.metrics.format import format_interval
    from bentpipe.metrics.intervals import format_significant

    return [
        {
            "access": one.access,
            "mean ± σ, s": f"{one.mean:.3f}" + ("" if one.deviation is None else f" ± {one.deviation:.3f}"),
            "min, s": f"{min(one.seconds):.3f}",
            "max, s": f"{max(one.seconds):.3f}",
            "times the fastest": format_significant(1.0, 3)
            if one.ratio is None
            else format_interval(one.ratio, digits=3),
        }
        for one in found
    ]
