"""Duration of planning: seconds of ``build_plan``, each in a fresh process, without the time of its import."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.cli_latency import CommandError, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CASES", "Case", "bench"]


@dataclass(frozen=True, slots=True)
class Case:
    """Scenario to plan, and the limit in seconds."""

    name: str
    flow: dict[str, Any]
    sweep: dict[str, list[str]]
    most_s: float

    def scenario(self) -> dict[str, Any]:
        """Return the scenario as the table that its file parses to."""
        both = {"rate": "10 Mbit/s", "loss": "0.1 %"}
        return {
            "duration": "10 s",
            "path": {"segment": [{"name": "satellite", "delay": "250 ms", "both": both}]},
            "flow": [{"name": "one", "congestion": "cubic", **self.flow}],
            "sweep": self.sweep,
        }


_PAGES = ["almanac-2019", "almanac-2024", "target-a", "target-b"]

CASES = (
    Case(
        "100 cells with preset pages planned",
        {"load": {"page": _PAGES[0]}},
        {
            "flow.one.load.page": _PAGES,
            "path.satellite.delay": [f"{delay} ms" for delay in range(10, 260, 10)],
        },
        0.4,
    ),
    Case(
        "8,000 values of an axis planned",
        {"direction": "up"},
        {"path.satellite.delay": [f"{delay} ms" for delay in range(1, 8001)]},
        3.5,
    ),
)

_CHILD = """
import json, sys, time
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
scenario, catalogue = json.load(sys.stdin), engine.catalogue()
start_s, start_cpu_s = time.perf_counter(), time.process_time()
plan = build_plan(load_scenario(scenario), engine.version(), catalogue=catalogue, orbits=engine.orbit)
print(json.dumps([time.perf_counter() - start_s, time.process_time() - start_cpu_s]))
"""


def bench(
    times: int, on_progress: Callable[[str], None] | None = None, cases: Sequence[Case] = CASES
) -> list[Result]:
    """Plan every case ``times`` times, interleaved.

    Args:
        times: number of measurements of each case.
        on_progress: called with a text before each measurement.
        cases: scenarios to plan.

    Raises:
        CommandError: a process failed.
    """
    timings: list[list[tuple[float, float]]] = [[] for _ in cases]
    for number in range(times):
        for case, row in zip(cases, timings, strict=True):
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {case.name}")
            row.append(_measure(case))
    return [_result(case, row) for case, row in zip(cases, timings, strict=True)]


def _result(case: Case, rows: Sequence[tuple[float, float]]) -> Result:
    seconds, processor_s = zip(*rows, strict=True)
    median = statistics.median
    return Result(
        case.name, len(rows), median(seconds), min(seconds), max(seconds), median(processor_s), case.most_s
    )


def _measure(case: Case) -> tuple[float, float]:
    """Return the wall time and the CPU time of planning, in seconds. Raises CommandError if it failed."""
    process = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps(case.scenario()),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise CommandError(f"{case.name}: {process.stderr.strip()}")
    seconds, processor_s = json.loads(process.stdout)
    return float(seconds), float(processor_s)
