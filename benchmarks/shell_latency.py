"""From typing to a command behind an access: ``bentpipe shell`` behind one that was checked before on this machine."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cli_latency import CommandError, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ACCESS", "Waited", "bench"]

ACCESS = "geo-konnect"

CHECKS = 3
"""Shells that may measure the access before one finds a check that was kept: a busy machine's are not."""

MOST_S = 0.5
"""Aimed at, until the command begins."""


@dataclass(frozen=True)
class Waited:
    """Seconds of one shell, from the start of its process."""

    what: str
    runs: int
    median_s: float
    lowest_s: float
    highest_s: float
    most_s: float | None = None


def bench(times: int, each: Callable[[str], None] | None = None) -> list[Waited]:
    """``times`` shells, after those that make sure that a check is kept and one more that is not counted.

    What Python compiles is kept, as on a user's machine.

    Raises:
        CommandError: a shell could not be, or no check is kept.
    """
    found: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as name:
        environment = dict(os.environ)
        if environment.pop("PYTHONDONTWRITEBYTECODE", None):
            environment["PYTHONPYCACHEPREFIX"] = str(Path(name) / "compiled")
        if each is not None:
            each("the check")
        if not any(_shell(environment)[1] for _ in range(CHECKS + 1)):
            raise CommandError(f"no check of {ACCESS} is kept: this machine is too busy to measure it")
        for number in range(times):
            if each is not None:
                each(f"{number + 1} of {times}")
            found.append(_shell(environment)[0])
    begins, gone, processor = zip(*found, strict=True)
    return [
        _figure("until the command begins", begins, MOST_S),
        _figure("until all of it is gone", gone),
        _figure("of a processor", processor),
    ]


def _figure(what: str, spent: tuple[float, ...], most_s: float | None = None) -> Waited:
    return Waited(what, len(spent), statistics.median(spent), min(spent), max(spent), most_s)


def _shell(environment: Mapping[str, str]) -> tuple[tuple[float, float, float], bool]:
    """How long one takes, until its command begins and until its end, and how much of a processor; whether it found a
    check. Raises CommandError."""
    began_ns = time.time_ns()
    found = timed(Path.cwd(), environment, ["shell", ACCESS, "--", "date", "+%s%N"])
    begins = (int(found.out) - began_ns) / 1e9
    return (begins, found.seconds, found.processor_s), " ago: RTT " in found.err
