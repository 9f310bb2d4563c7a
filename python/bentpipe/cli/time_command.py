"""Command ``time``: benchmark of a command over several access networks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.common import BAD_INPUT, FAILED, INTERRUPTED, Settings, count, refuse
from bentpipe.cli.shell import TrailingCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.lab.command_timing import Timing

__all__ = ["TimeCommand", "time"]

_COMMAND_KEY = "bentpipe.command"


class TimeCommand(TrailingCommand):
    """Command line of accesses, and of a command after ``--``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before ``--``; the context stores the command after it."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND_KEY] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])


def time(
    context: typer.Context,
    accesses: Annotated[
        list[str],
        typer.Argument(metavar="ACCESS... -- CMD...", help="presets or scenarios (TOML), then a command"),
    ],
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="runs per access network")] = 10,
    warmup: Annotated[int, typer.Option(min=0, metavar="N", help="warm-up runs")] = 0,
    settings: Settings = None,
    as_json: Annotated[
        Path | None, typer.Option("--export-json", metavar="FILE", help="write all times as JSON")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="write an HTML page with a figure")
    ] = None,
    pep: Annotated[
        str | None,
        typer.Option(
            "--pep",
            metavar="SETUP",
            help="split TCP after the longest segment of every access without a PEP: early, relayed",
        ),
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
    """Benchmark a command over several access networks. Emulation, with interleaved runs."""
    import json

    from bentpipe.cli.console import patience, print_table
    from bentpipe.lab import command_timing
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.scenario.sweep import parse_override
    from bentpipe.store.files import write_atomic

    for option, file in (("--export-json", as_json), ("--report", page)):
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            refuse(f"{option}: {file} cannot be written, expected a file in an existing directory")
    command = context.meta[_COMMAND_KEY]
    overrides = [parse_override(text) for text in settings or ()]
    try:
        timings = command_timing.time_command(
            accesses,
            command,
            runs=runs,
            warmup=warmup,
            overrides=overrides,
            pep=pep,
            users=background_users,
            mix=background_mix,
            each=patience("comparing", "runs"),
        )
    except command_timing.CommandError as error_of_command:
        print(f"error: {error_of_command}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except InterruptedLab:
        raise typer.Exit(INTERRUPTED) from None
    print_table(_rows(timings), f"{' '.join(command)}: {count(runs, 'run')} per access network")
    notes = [_describe_invalid(timing) for timing in timings if timing.invalid]
    for text in _describe_paths(timings):
        print(text)
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)
    if as_json is not None:
        data = {
            "command": command, "seeds": list(range(1, runs + 1)), "warmup": warmup, "pep": pep,
            "background_users": background_users, "background_mix": background_mix,
            "accesses": [timing.as_row() for timing in timings],
        }  # fmt: skip
        write_atomic(as_json, (json.dumps(data, indent=1) + "\n").encode())
    if page is not None:
        print(_write_page(page, command, timings, notes, pep, background_users))


def _write_page(
    out: Path,
    command: Sequence[str],
    timings: Sequence[Timing],
    notes: Sequence[str],
    pep: str | None,
    users: int | None,
) -> Path:
    """Write the page of the times to ``out`` and return its path."""
    import shlex

    from bentpipe.report import timing_page
    from bentpipe.runners import engine

    conditions = [
        *([] if pep is None else [f"A proxy ({pep}) splits TCP after the longest segment."]),
        *(
            []
            if users is None
            else [f"{count(users, 'simulated user')} share{'s' * (users == 1)} each access with the command."]
        ),
    ]
    report = timing_page.TimingReport(
        shlex.join(command), {timing.access: timing.seconds for timing in timings}, _rows(timings),
        [f"{note}." for note in notes], " ".join(conditions), paths=_describe_paths(timings),
    )  # fmt: skip
    return timing_page.write(report, out, engine.version())


MAX_INVALID = 3
"""Number of invalid runs that a note names."""


def _describe_invalid(timing: Timing) -> str:
    """Return the invalid runs of an access and the reasons as text."""
    named = [f"run {number} ({reason})" for number, reason in list(timing.invalid.items())[:MAX_INVALID]]
    if more := len(timing.invalid) - len(named):
        named.append(f"{more} more (--export-json has all)")
    share = f"{len(timing.invalid)} of {count(len(timing.seconds), 'run')}"
    return f"{timing.access}: the lab missed its deadlines in {share}, which count: {', '.join(named)}"


def _describe_paths(timings: Sequence[Timing]) -> list[str]:
    """Return a line for each access with its rates, and a line about seeds if a path has random values."""
    lines = [f"{timing.access}: {timing.path}" for timing in timings if timing.path]
    if stochastic := [timing.access for timing in timings if timing.is_stochastic]:
        lines.append(
            f"seeds: run k has seed k; each run draws other random values of {', '.join(stochastic)}"
        )
    return lines


def _rows(timings: Sequence[Timing]) -> list[dict[str, str]]:
    from bentpipe.metrics.format import format_interval
    from bentpipe.metrics.intervals import format_significant

    return [
        {
            "access": timing.access,
            "mean ± σ, s": f"{timing.mean:.3f}"
            + ("" if timing.deviation is None else f" ± {timing.deviation:.3f}"),
            "min, s": f"{min(timing.seconds):.3f}",
            "max, s": f"{max(timing.seconds):.3f}",
            "times the fastest": format_significant(1.0, 3)
            if timing.ratio is None
            else format_interval(timing.ratio, digits=3),
        }
        for timing in timings
    ]
