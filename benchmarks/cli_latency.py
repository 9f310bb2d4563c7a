"""Duration of commands: seconds of whole processes, with a finished store and without one."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.large_store import grow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CASES", "CommandError", "Result", "Timing", "bench", "run_timed"]

_PATH = """
[[path.segment]]
name = "satellite"
delay = "250 ms"
both = { rate = "10 Mbit/s", queue = "1 BDP" }
"""

_FLOW = """
[[flow]]
name = "bulk"
transport = "quic"
congestion = "cubic"
direction = "up"
"""

SCENARIOS = {
    "store.toml": f"""title = "Four controllers on a GEO link, alone, against loss"
duration = "60 s"
seeds = 5
{_PATH}{_FLOW}
[sweep]
"flow.bulk.congestion" = ["newreno", "cubic", "hybla", "bbr"]
"path.satellite.up.loss" = ["0 %", "0.01 %", "0.1 %", "1 %"]
""",
    "many.toml": f"""title = "300 runs of one second"
duration = "1 s"
seeds = 100
{_PATH}{_FLOW}
[sweep]
"path.satellite.up.loss" = ["0.1 %", "0.5 %", "1 %"]
""",
    "short.toml": f"""title = "Runs of one second"
duration = "1 s"
seeds = 50
{_PATH}{_FLOW}
[sweep]
"flow.bulk.congestion" = ["newreno", "cubic", "hybla", "bbr"]
"path.satellite.up.loss" = ["0.1 %", "0.2 %", "0.5 %", "1 %", "2 %"]
""",
}
"""Scenarios by file name.

``store.toml`` has the runs of the demo (scenarios/geo.toml). The large store consists of copies of the 1,000 runs of
``short.toml``.
"""


@dataclass(frozen=True)
class Case:
    """Command with its limit; ``NEW`` among its arguments stands for a store that does not exist yet."""

    name: str
    arguments: Sequence[str]
    most_s: float
    page: str = ""
    """Output file whose size is measured; empty for none."""
    most_mb: float | None = None
    """Maximum size of the output file, in MB."""


CASES = (
    Case("--help", ["--help"], 0.25),
    Case("check", ["check", "store.toml"], 0.6),
    Case("show", ["show", "store"], 0.8),
    Case("query", ["query", "store", "SELECT run, flow, received_bytes FROM flow_summary"], 0.8),
    Case("report", ["report", "store", "-o", "page.html"], 3.0),
    Case(
        "orbit, 200 s every 100 ms",
        ["orbit", "Rio de Janeiro", "Saint Petersburg", "-c", "kuiper-k1", "--duration", "200 s"],
        1.5,
    ),
    Case("run, 300 runs of one second", ["run", "many.toml", "--out", "NEW"], 4.0),
    Case("show, 100,000 runs", ["show", "large"], 2.0),
    Case("query, 100,000 runs", ["query", "large", "SELECT count(*) FROM flow_summary"], 2.0),
    Case("report, 100,000 runs", ["report", "large", "-o", "large.html"], 10.0, "large.html", 10.0),
)


@dataclass(frozen=True)
class Result:
    """Wall time and CPU time (median) of a command in seconds, including its child processes."""

    case: str
    runs: int
    median_s: float
    lowest_s: float
    highest_s: float
    processor_s: float
    most_s: float
    page_mb: float | None = None
    most_mb: float | None = None


class CommandError(Exception):
    """Failure of a command."""


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Run every command ``times`` times, interleaved, after one warm-up that fills the caches.

    Compiled Python files are saved, as on the machine of a user. If the environment forbids that, they go to a
    temporary directory.

    Raises:
        CommandError: a command failed.
    """
    timings: list[list[tuple[float, float]]] = [[] for _ in CASES]
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as name:
        folder = Path(name)
        for file, text in SCENARIOS.items():
            (folder / file).write_text(text, encoding="utf-8")
        environment = dict(os.environ)
        if environment.pop("PYTHONDONTWRITEBYTECODE", None):
            environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        if any("store" in case.arguments for case in CASES):
            if on_progress is not None:
                on_progress("the store")
            run_timed(folder, environment, ["run", "store.toml", "--out", "store"])
        if any("large" in case.arguments for case in CASES):
            if on_progress is not None:
                on_progress("the store of 100,000 runs")
            run_timed(folder, environment, ["run", "short.toml", "--out", "short"])
            run_timed(folder, environment, ["pack", "short"])
            grow(folder / "short", folder / "large")
        for number in range(times + 1):
            for case, row in zip(CASES, timings, strict=True):
                if on_progress is not None:
                    on_progress(f"{number} of {times}: {case.name}" if number else f"first: {case.name}")
                arguments = [f"new-{number}" if text == "NEW" else text for text in case.arguments]
                timing = run_timed(folder, environment, arguments)
                if number:
                    row.append((timing.seconds, timing.processor_s))
        sizes = [(folder / case.page).stat().st_size if case.page else None for case in CASES]
    return [
        _result(case, size, *zip(*row, strict=True))
        for case, row, size in zip(CASES, timings, sizes, strict=True)
    ]


def _result(case: Case, size: int | None, seconds: Sequence[float], processor_s: Sequence[float]) -> Result:
    median = statistics.median
    page_mb = None if size is None else size / 1e6
    return Result(
        case.name, len(seconds), median(seconds), min(seconds), max(seconds), median(processor_s), case.most_s,
        page_mb, case.most_mb,
    )  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """Timing and output of a finished command."""

    seconds: float
    """Wall time in seconds."""
    processor_s: float
    """CPU time in seconds, including child processes."""
    out: str
    err: str


def run_timed(folder: Path, environment: Mapping[str, str], arguments: Sequence[str]) -> Timing:
    """Run a command in ``folder`` and return its timing.

    Raises:
        CommandError: the command failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        command = takewhile(lambda text: text != "--", arguments)
        raise CommandError(f"bentpipe {' '.join(command)}: {process.stderr.strip()}")
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(seconds, processor_s, process.stdout, process.stderr)
