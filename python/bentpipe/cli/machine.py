"""``bench`` and ``doctor``: this machine."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from bentpipe.cli.common import BAD_INPUT, FAILED, AsJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["bench", "doctor"]


def bench(
    times: Annotated[int, typer.Option(min=1, metavar="N", help="runs of each case")] = 7,
    engine: Annotated[
        Literal["sim", "endpoint", "emu", "commands", "orbit", "channel", "users", "shell"],
        typer.Option(
            help="sim: packets per CPU second; endpoint: perf over loopback, beside kernel TCP; "
            "emu: the emulator against its promise; commands: seconds from typing to seeing; "
            "orbit: satellite-steps per CPU second; channel: steps of a mobile channel, a run over it, one of 100 users"
            "; users: what a packet costs among 10 to 1,000 users, by scheduler; shell: seconds from typing to a "
            "command behind an access"
        ),
    ] = "sim",
    as_json: AsJson = False,
) -> None:
    """Measure the engine on this machine. Runs interleaved, median and spread."""
    from dataclasses import asdict

    from bentpipe.cli.terminal import emit, print_table
    from bentpipe.runners.engine import slowness

    if slow := slowness():
        print(f"the engine is {slow}", file=sys.stderr)
    measure = {
        "sim": _simulator,
        "endpoint": _endpoint,
        "emu": _emulator,
        "commands": _commands,
        "orbit": _orbit,
        "channel": _channel,
        "users": _users,
        "shell": _shell,
    }[engine]
    measured = measure(times, None if as_json else lambda text: print(text, file=sys.stderr))
    if as_json:
        emit([asdict(figure) for figure in measured.figures])
    else:
        print_table(measured.rows, f"{measured.title}, median of {times}")


class _Measured(NamedTuple):
    """What was measured, and the table that shows it."""

    figures: Sequence[Any]
    rows: Sequence[Mapping[str, object]]
    title: str


def _simulator(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.simulator import bench as measure

    figures = measure(times, each)
    rows = [
        {
            "case": f.case,
            "packets": f.packets,
            "per CPU second": round(f.median),
            "lowest": round(f.lowest),
            "highest": round(f.highest),
            "at least": f.least,
            "CPU seconds": f.cpu_s,
            "at most": "–" if f.most_s is None else f.most_s,
            "times real time": f.times_real,
            "memory MB": f.memory_mb,
            "of it the run's": f.growth_mb,
        }
        for f in figures
    ]
    return _Measured(figures, rows, "Packets of both directions per CPU second")


def _endpoint(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.sockets import SocketsError
    from bentpipe.tools.bench.sockets import bench as measure

    try:
        figures = measure(times, each=each)
    except SocketsError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    rows = [
        {
            "case": f.case,
            "Mbit/s": round(f.median_mbit_s),
            "lowest": round(f.lowest_mbit_s),
            "highest": round(f.highest_mbit_s),
            "at least": f.least_mbit_s,
            "sender CPU s/GB": round(f.sender_cpu, 2),
            "receiver": round(f.receiver_cpu, 2),
            "at most": f.most_cpu,
        }
        for f in figures
    ]
    return _Measured(figures, rows, "Loopback, both ends on this machine")


def _emulator(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.emulator import bench as measure

    figures = measure(times, each)
    rows = [
        {
            "case": f.case,
            "what": f.what,
            "median": round(f.median, 3),
            "lowest": round(f.lowest, 3),
            "highest": round(f.highest, 3),
            "asked": f.bound,
        }
        for f in figures
    ]
    return _Measured(figures, rows, "The emulator on this machine")


@contextmanager
def _or_exit() -> Iterator[None]:
    """A command that fails ends the bench: its message, and the exit status of what has failed."""
    from bentpipe.tools.bench.commands import CommandError

    try:
        yield
    except CommandError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(FAILED) from None


def _commands(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.commands import bench as commands
    from bentpipe.tools.bench.planning import bench as planning

    with _or_exit():
        figures = [*commands(times, each), *planning(times, each)]
    rows = [
        {
            "command": f.case,
            "seconds": round(f.median_s, 3),
            "lowest": round(f.lowest_s, 3),
            "highest": round(f.highest_s, 3),
            "of a processor": round(f.processor_s, 3),
            "at most": f.most_s,
            "page MB": "" if f.page_mb is None else f"{f.page_mb:.1f} of {f.most_mb:.0f}",
        }
        for f in figures
    ]
    return _Measured(figures, rows, "Seconds from the start of a command to its end")


def _orbit(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.orbits import bench as measure

    with _or_exit():
        figures = measure(times, each)
    rows = [
        {
            "case": f.case,
            "steps": f.steps,
            "per CPU second": round(f.median),
            "lowest": round(f.lowest),
            "highest": round(f.highest),
            "at least": round(f.least),
        }
        for f in figures
    ]
    return _Measured(figures, rows, "Satellite-steps per CPU second")


def _channel(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.channel import bench as measure

    with _or_exit():
        figures = measure(times, each)
    rows = [
        {
            "case": f.case,
            "what": f.what,
            "median": f.median,
            "lowest": f.lowest,
            "highest": f.highest,
            "MB": round(f.peak_mb),
            "asked": f.bound,
        }
        for f in figures
    ]
    return _Measured(figures, rows, "A mobile channel on this machine")


def _users(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.users import bench as measure

    figures = measure(times, each)
    rows = [
        {
            "case": f.case,
            "users": f.users,
            "median": round(f.median, 2),
            "lowest": round(f.lowest, 2),
            "highest": round(f.highest, 2),
        }
        for f in figures
    ]
    return _Measured(figures, rows, "Microseconds of a processor for a packet")


def _shell(times: int, each: Callable[[str], None] | None) -> _Measured:
    from bentpipe.tools.bench.shells import ACCESS
    from bentpipe.tools.bench.shells import bench as measure

    with _or_exit():
        figures = measure(times, each)
    rows = [
        {
            "seconds": f.what,
            "median": round(f.median_s, 3),
            "lowest": round(f.lowest_s, 3),
            "highest": round(f.highest_s, 3),
            "at most": f.most_s,
        }
        for f in figures
    ]
    return _Measured(figures, rows, f"A shell behind {ACCESS}, checked before")


def doctor(as_json: AsJson = False) -> None:
    """Say what of this machine bentpipe can use. Exit status 2 when something needed is missing."""
    from dataclasses import asdict

    from bentpipe.cli.terminal import emit, print_table
    from bentpipe.tools.doctor import examine

    checks = examine()
    if as_json:
        emit([asdict(item) for item in checks])
    else:
        marks = {(True, True): "ok", (True, False): "ok", (False, True): "MISSING", (False, False): "without"}
        print_table([{"": marks[c.good, c.needed], "what": c.what, "found": c.found} for c in checks])
    if any(item.needed and not item.good for item in checks):
        raise typer.Exit(BAD_INPUT)
