"""``python -m benchmarks channel``: steps of a mobile channel per CPU second, CPU seconds of a run over it, and of
one in which many users share it; each time in a fresh process.
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

__all__ = ["CASES", "Case", "Reached", "bench"]

PRESET = "tauran-lms"
STEPS = 5_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """What is done, and what a release must reach on an idle machine: at least or at most."""

    name: str
    what: str
    duration: str
    """Of the run; empty: the channel alone, with every step of it asked for."""
    least: float | None = None
    most: float | None = None
    users: int = 0
    """Of the run, under a proportional-fair scheduler; 0: a flow alone."""
    most_mb: float | None = None
    """Memory of its process, with Python's, at the most."""


CASES = (
    Case("every step of the mobile channel", "million steps per CPU second", "", least=10),
    Case("one TCP flow of 600 s over the mobile link", "CPU seconds", "600 s", most=1),
    Case(
        "100 TCP users for 600 s, proportional fair", "CPU seconds", "600 s", most=30, users=100, most_mb=150
    ),
)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a case reached."""

    case: str
    what: str
    runs: int
    median: float
    lowest: float
    highest: float
    least: float | None
    most: float | None
    peak_mb: float = 0.0
    """Memory of its process at its most, the median."""
    most_mb: float | None = None

    @property
    def bound(self) -> str:
        """What is asked, in words."""
        asked = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return asked if self.most_mb is None else f"{asked}, {self.most_mb:g} MB"


_CHILD = """
import json, sys, time
from pathlib import Path
from bentpipe.runners import engine
asked = json.load(sys.stdin)
began = time.process_time()
if "channel" in asked:
    engine.channel_information(asked["channel"], asked["channel"]["motion"]["step_ns"], asked["steps"])
else:
    engine.run(json.dumps(asked))
seconds = time.process_time() - began
# not ru_maxrss, which begins with what the parent had as it forked (execve(2) keeps it)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(seconds, int(status["VmHWM"].split()[0]) * 1024 / 1e6)
"""


def asked(case: Case) -> dict[str, Any]:
    """What a process is given: a resolved run, or its channel and how many steps of it."""
    flow: dict[str, Any] = {"name": "download", "transport": "tcp", "congestion": "cubic", "send": "down"}
    scenario = {"duration": case.duration or "1 s", "path": {"preset": PRESET}, "flow": [flow]}
    shared: dict[str, Any] = {}
    if case.users:
        flow["count"] = case.users
        scenario |= {"sample": "10 s", "limits": {"memory": "64 GB"}}
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


def bench(times: int, each: Callable[[str], None] | None = None) -> list[Reached]:
    """Every case ``times`` times, interleaved. Raises CommandError: a process failed."""
    texts = [json.dumps(asked(case)) for case in CASES]
    rows: list[list[float]] = [[] for _ in CASES]
    peaks: list[list[float]] = [[] for _ in CASES]
    for number in range(times):
        for case, text, row, peak in zip(CASES, texts, rows, peaks, strict=True):
            if each is not None:
                each(f"{number + 1} of {times}: {case.name}")
            seconds, most_mb = _taken(text)
            row.append(seconds if case.duration else STEPS / seconds / 1e6)
            peak.append(most_mb)
    return [
        Reached(
            case.name, case.what, len(row), statistics.median(row), min(row), max(row), case.least, case.most,
            statistics.median(peak), case.most_mb,
        )
        for case, row, peak in zip(CASES, rows, peaks, strict=True)
    ]  # fmt: skip


def _taken(text: str) -> tuple[float, float]:
    """CPU seconds, and MB of the process at its most. Raises CommandError: it failed."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CommandError(done.stderr.strip())
    seconds, most_mb = done.stdout.split()
    return float(seconds), float(most_mb)
