"""Delay until the command of ``bentpipe shell`` starts, behind an access with a saved path check."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cli_latency import CommandError, run_timed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ACCESS", "Result", "bench"]

ACCESS = "geo-konnect"

CHECKS = 3
"""Shells that may measure the path until one finds a saved check: checks on a busy machine are not saved."""

MOST_S = 0.5
"""Limit in seconds until the command starts."""


@dataclass(frozen=True)
class Result:
    """Duration in seconds from the start of the process of a shell."""

    what: str
    runs: int
    median_s: float
    lowest_s: float
    highest_s: float
    most_s: float | None = None


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Start ``times`` shells, after warm-up shells that make sure that a check is saved.

    Compiled Python files are saved, as on the machine of a user.

    Raises:
        CommandError: a shell failed, or no check was saved.
    """
    timings: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as name:
        environment = dict(os.environ)
        if environment.pop("PYTHONDONTWRITEBYTECODE", None):
            environment["PYTHONPYCACHEPREFIX"] = str(Path(name) / "compiled")
        if on_progress is not None:
            on_progress("the check")
        if not any(_run_shell(environment)[1] for _ in range(CHECKS + 1)):
            raise CommandError(f"no check of {ACCESS} was saved: the emulator missed its deadlines")
        for number in range(times):
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}")
            timings.append(_run_shell(environment)[0])
    command_start_s, end_s, processor_s = zip(*timings, strict=True)
    return [
        _result("until the command starts", command_start_s, MOST_S),
        _result("until the shell has ended", end_s),
        _result("CPU time", processor_s),
    ]


def _result(what: str, seconds: tuple[float, ...], most_s: float | None = None) -> Result:
    return Result(what, len(seconds), statistics.median(seconds), min(seconds), max(seconds), most_s)


def _run_shell(environment: Mapping[str, str]) -> tuple[tuple[float, float, float], bool]:
    """Run a shell and return its timing and whether it found a saved check.

    Returns:
        Seconds until the command starts, until the shell ends, and of CPU time; whether it found a check.

    Raises:
        CommandError: the shell failed.
    """
    start_ns = time.time_ns()
    timing = run_timed(Path.cwd(), environment, ["shell", ACCESS, "--", "date", "+%s%N"])
    command_start_s = (int(timing.out) - start_ns) / 1e9
    return (command_start_s, timing.seconds, timing.processor_s), " ago: RTT " in timing.err
