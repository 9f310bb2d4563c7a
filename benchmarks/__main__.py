"""Command ``python -m benchmarks NAME``: the performance of bentpipe itself, from a checkout."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bentpipe.cli.common import FAILED, AsJson
from bentpipe.cli.console import emit, print_table
from bentpipe.runners.engine import slowness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class _Report(NamedTuple):
    """Results of a benchmark, and the table that shows them."""

    results: Sequence[Any]
    rows: Sequence[Mapping[str, object]]
    title: str


def _simulator(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.simulator import bench

    results = bench(times, on_progress)
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
            "added by the run": f.growth_mb,
        }
        for f in results
    ]
    return _Report(results, rows, "Packets of both directions per CPU second")


def _sockets(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.sockets import SocketsError, bench

    try:
        results = bench(times, on_progress=on_progress)
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
        for f in results
    ]
    return _Report(results, rows, "Loopback, both endpoints on this machine")


def _emulator(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.emulator import bench

    results = bench(times, on_progress)
    rows = [
        {
            "case": f.case,
            "what": f.what,
            "median": round(f.median, 3),
            "lowest": round(f.lowest, 3),
            "highest": round(f.highest, 3),
            "required": f.bound,
        }
        for f in results
    ]
    return _Report(results, rows, "The emulator on this machine")


@contextmanager
def _exit_on_error() -> Iterator[None]:
    """Exit with status 1 and the message of a failed command."""
    from benchmarks.cli_latency import CommandError

    try:
        yield
    except CommandError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(FAILED) from None


def _cli_latency(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.cli_latency import bench as commands
    from benchmarks.planning import bench as planning

    with _exit_on_error():
        results = [*commands(times, on_progress), *planning(times, on_progress)]
    rows = [
        {
            "command": f.case,
            "seconds": round(f.median_s, 3),
            "lowest": round(f.lowest_s, 3),
            "highest": round(f.highest_s, 3),
            "CPU seconds": round(f.processor_s, 3),
            "at most": f.most_s,
            "page MB": "" if f.page_mb is None else f"{f.page_mb:.1f} of {f.most_mb:.0f}",
        }
        for f in results
    ]
    return _Report(results, rows, "Seconds from the start of a command to its end")


def _orbits(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.orbits import bench

    with _exit_on_error():
        results = bench(times, on_progress)
    rows = [
        {
            "case": f.case,
            "steps": f.steps,
            "per CPU second": round(f.median),
            "lowest": round(f.lowest),
            "highest": round(f.highest),
            "at least": round(f.least),
        }
        for f in results
    ]
    return _Report(results, rows, "Satellite-steps per CPU second")


def _channel(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.channel import bench

    with _exit_on_error():
        results = bench(times, on_progress)
    rows = [
        {
            "case": f.case,
            "what": f.what,
            "median": f.median,
            "lowest": f.lowest,
            "highest": f.highest,
            "MB": round(f.peak_mb),
            "required": f.bound,
        }
        for f in results
    ]
    return _Report(results, rows, "A mobile channel on this machine")


def _users(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.users import bench

    results = bench(times, on_progress)
    rows = [
        {
            "case": f.case,
            "users": f.users,
            "median": round(f.median, 2),
            "lowest": round(f.lowest, 2),
            "highest": round(f.highest, 2),
        }
        for f in results
    ]
    return _Report(results, rows, "CPU microseconds per packet")


def _shell_latency(times: int, on_progress: Callable[[str], None] | None) -> _Report:
    from benchmarks.shell_latency import ACCESS, bench

    with _exit_on_error():
        results = bench(times, on_progress)
    rows = [
        {
            "seconds": f.what,
            "median": round(f.median_s, 3),
            "lowest": round(f.lowest_s, 3),
            "highest": round(f.highest_s, 3),
            "at most": f.most_s,
        }
        for f in results
    ]
    return _Report(results, rows, f"A shell behind {ACCESS} with a saved path check")


BENCHMARKS: dict[str, tuple[Callable[[int, Callable[[str], None] | None], _Report], str]] = {
    "simulator": (_simulator, "packets per CPU second"),
    "sockets": (_sockets, "bentpipe perf and kernel TCP over loopback"),
    "emulator": (_emulator, "the emulated path against the configured path"),
    "cli-latency": (_cli_latency, "duration of commands in seconds"),
    "orbits": (_orbits, "satellite steps per CPU second"),
    "channel": (_channel, "steps of a mobile channel, and runs over it"),
    "users": (_users, "CPU time per packet with 10 to 1,000 users, by scheduler"),
    "shell-latency": (_shell_latency, "seconds from `bentpipe shell` to the start of its command"),
}


def main(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="; ".join(f"{name}: {text}" for name, (_, text) in BENCHMARKS.items())
        ),
    ],
    times: Annotated[int, typer.Option(min=1, metavar="N", help="runs of each case")] = 7,
    as_json: AsJson = False,
) -> None:
    """Measure bentpipe on this machine. Cases are interleaved; the table has medians and spreads."""
    if name not in BENCHMARKS:
        raise typer.BadParameter(f"found {name}, expected one of {', '.join(BENCHMARKS)}", param_hint="NAME")
    if slow := slowness():
        print(f"the engine is {slow}", file=sys.stderr)
    report = BENCHMARKS[name][0](times, None if as_json else lambda text: print(text, file=sys.stderr))
    if as_json:
        emit([asdict(result) for result in report.results])
    else:
        print_table(report.rows, f"{report.title}, median of {times}")


if __name__ == "__main__":
    typer.run(main)
