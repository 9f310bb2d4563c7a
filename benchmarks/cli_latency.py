"""From typing to seeing: seconds of whole processes of the command line, over finished stores and before one."""

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

__all__ = ["CASES", "CommandError", "Reached", "Timed", "bench", "timed"]

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
send = "up"
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
"""``store.toml`` is that of the demo (scenarios/geo.toml); of ``short.toml``'s 1,000 runs a large store is made."""


@dataclass(frozen=True)
class Case:
    """One command: its words, where ``NEW`` is a store that is not there yet, and what is aimed at."""

    name: str
    words: Sequence[str]
    most_s: float
    page: str = ""
    """The file that it writes, if its size counts..."""
    most_mb: float | None = None
    """... and what is aimed at."""


CASES = (
    Case("--help", ["--help"], 0.25),
    Case("check", ["check", "store.toml"], 0.6),
    Case("show", ["show", "store"], 0.8),
    Case("query", ["query", "store", "SELECT run, flow, received_bytes FROM summary"], 0.8),
    Case("report", ["report", "store", "-o", "page.html"], 3.0),
    Case(
        "orbit, 200 s every 100 ms",
        ["orbit", "Rio de Janeiro", "Saint Petersburg", "-c", "kuiper-k1", "--duration", "200 s"],
        1.5,
    ),
    Case("run, 300 runs of one second", ["run", "many.toml", "--out", "NEW"], 4.0),
    Case("show, 100,000 runs", ["show", "large"], 2.0),
    Case("query, 100,000 runs", ["query", "large", "SELECT count(*) FROM summary"], 2.0),
    Case("report, 100,000 runs", ["report", "large", "-o", "large.html"], 10.0, "large.html", 10.0),
)


@dataclass(frozen=True)
class Reached:
    """Seconds from the start of a process to its end, and of a processor (median), with all that it started."""

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
    """A command that failed."""


def bench(times: int, each: Callable[[str], None] | None = None) -> list[Reached]:
    """Every command ``times`` times, interleaved, after one time that is not counted: it fills caches.

    What Python compiles is kept, as on a user's machine: if the environment forbids that, in a folder of this bench.

    Raises:
        CommandError: a command failed.
    """
    found: list[list[tuple[float, float]]] = [[] for _ in CASES]
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as name:
        folder = Path(name)
        for file, text in SCENARIOS.items():
            (folder / file).write_text(text, encoding="utf-8")
        environment = dict(os.environ)
        if environment.pop("PYTHONDONTWRITEBYTECODE", None):
            environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        if any("store" in case.words for case in CASES):
            if each is not None:
                each("the store")
            timed(folder, environment, ["run", "store.toml", "--out", "store"])
        if any("large" in case.words for case in CASES):
            if each is not None:
                each("the store of 100,000 runs")
            timed(folder, environment, ["run", "short.toml", "--out", "short"])
            timed(folder, environment, ["pack", "short"])
            grow(folder / "short", folder / "large")
        for number in range(times + 1):
            for case, row in zip(CASES, found, strict=True):
                if each is not None:
                    each(f"{number} of {times}: {case.name}" if number else f"first: {case.name}")
                words = [f"new-{number}" if word == "NEW" else word for word in case.words]
                spent = timed(folder, environment, words)
                if number:
                    row.append((spent.seconds, spent.processor_s))
        sizes = [(folder / case.page).stat().st_size if case.page else None for case in CASES]
    each_case = zip(CASES, found, sizes, strict=True)
    return [_figure(case, size, *zip(*row, strict=True)) for case, row, size in each_case]


def _figure(case: Case, size: int | None, spent: Sequence[float], processor: Sequence[float]) -> Reached:
    middle = statistics.median
    page_mb = None if size is None else size / 1e6
    return Reached(
        case.name, len(spent), middle(spent), min(spent), max(spent), middle(processor), case.most_s, page_mb,
        case.most_mb,
    )  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """A command that was run to its end: seconds it took and of a processor, and what it said."""

    seconds: float
    processor_s: float
    out: str
    err: str


def timed(folder: Path, environment: Mapping[str, str], words: Sequence[str]) -> Timed:
    """Runs a command in ``folder``.

    Raises:
        CommandError: it failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    spent = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        own = takewhile(lambda word: word != "--", words)
        raise CommandError(f"bentpipe {' '.join(own)}: {done.stderr.strip()}")
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(spent, processor_s, done.stdout, done.stderr)
