"""Benchmark ``channel``: steps of a mobile channel per CPU second, and CPU seconds of runs over it.

One of the runs has many users that share the channel. Every measurement has a fresh process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.cli_latency import CommandError
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CASES", "Case", "Result", "bench"]

PRESET = "tauran-lms"
STEPS = 5_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """Workload, and the limits that a release must keep on an idle machine."""

    name: str
    what: str
    """Quantity and unit of the result."""
    duration: str
    """Duration of the run. An empty text computes every step of the channel alone."""
    least: float | None = None
    most: float | None = None
    users: int = 0
    """Number of users under a proportional-fair scheduler; 0 for a single flow."""
    most_mb: float | None = None
    """Maximum memory of the process in MB, including that of Python."""


CASES = (
    Case("every step of the mobile channel", "million steps per CPU second", "", least=10),
    Case("one TCP flow of 600 s over the mobile link", "CPU seconds", "600 s", most=1),
    Case(
        "100 TCP users for 600 s, proportional fair", "CPU seconds", "600 s", most=30, users=100, most_mb=150
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a case."""

    case: str
    what: str
    runs: int
    median: float
    lowest: float
    highest: float
    least: float | None
    most: float | None
    peak_mb: float = 0.0
    """Peak memory of the process in MB, median."""
    most_mb: float | None = None

    @property
    def bound(self) -> str:
        """Text of the limits, such as "at most 30, 150 MB"."""
        limit = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return limit if self.most_mb is None else f"{limit}, {self.most_mb:g} MB"


_CHILD = """
import json, sys, time
from pathlib import Path
from bentpipe.runners import engine
task = json.load(sys.stdin)
start = time.process_time()
if "channel" in task:
    engine.channel_information(task["channel"], task["channel"]["motion"]["step_ns"], task["steps"])
else:
    engine.run(json.dumps(task))
seconds = time.process_time() - start
# ru_maxrss starts with the memory of the parent at fork, because execve(2) keeps it
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(seconds, int(status["VmHWM"].split()[0]) * 1024 / 1e6)
"""


def process_input(case: Case) -> dict[str, Any]:
    """Return the input of a process: a resolved run, or its channel and the number of steps."""
    flow: dict[str, Any] = {
        "name": "download",
        "transport": "tcp",
        "congestion": "cubic",
        "direction": "down",
    }
    scenario = {"duration": case.duration or "1 s", "path": {"preset": PRESET}, "flow": [flow]}
    shared: dict[str, Any] = {}
    if case.users:
        flow["count"] = case.users
        scenario |= {"sample_interval": "10 s", "limits": {"memory": "64 GB"}}
        shared = {
            "path.mobile.down.scheduler": "proportional-fair",
            "path.mobile.down.queue": "953 packets/n",
        }
    plan = build_plan(load_scenario(scenario, shared.items()), engine.version())
    spec: dict[str, Any] = json.loads(plan.runs[0].spec_json())
    if case.duration:
        return spec
    stages = [stage for link in spec["graph"]["links"] for stage in link["down"]]
    return {"channel": next(stage for stage in stages if stage["kind"] == "radio")["channel"], "steps": STEPS}


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Measure every case ``times`` times, interleaved.

    Args:
        times: number of measurements of each case.
        on_progress: called with a text before each measurement.

    Raises:
        CommandError: a process failed.
    """
    texts = [json.dumps(process_input(case)) for case in CASES]
    rows: list[list[float]] = [[] for _ in CASES]
    peaks: list[list[float]] = [[] for _ in CASES]
    for number in range(times):
        for case, text, row, peak in zip(CASES, texts, rows, peaks, strict=True):
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {case.name}")
            seconds, peak_mb = _measure(text)
            row.append(seconds if case.duration else STEPS / seconds / 1e6)
            peak.append(peak_mb)
    return [
        Result(
            case.name, case.what, len(row), statistics.median(row), min(row), max(row), case.least, case.most,
            statistics.median(peak), case.most_mb,
        )
        for case, row, peak in zip(CASES, rows, peaks, strict=True)
    ]  # fmt: skip


def _measure(text: str) -> tuple[float, float]:
    """Return CPU seconds and peak memory in MB of one process. Raises CommandError if it failed."""
    process = subprocess.run(
        [sys.executable, "-c", _CHILD], input=text, capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise CommandError(process.stderr.strip())
    seconds, peak_mb = process.stdout.split()
    return float(seconds), float(peak_mb)
