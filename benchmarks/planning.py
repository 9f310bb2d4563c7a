"""What planning takes by itself: seconds of ``plan.runs.make``, each time in a fresh process that has imported it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.cli_latency import CommandError, Reached

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CASES", "Case", "bench"]


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario to be planned, and what is aimed at."""

    name: str
    flow: dict[str, Any]
    sweep: dict[str, list[str]]
    most_s: float

    def scenario(self) -> dict[str, Any]:
        """As the table a scenario file would parse to."""
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
        {"send": "up"},
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
began, before = time.perf_counter(), time.process_time()
plan = build_plan(load_scenario(scenario), engine.version(), catalogue=catalogue, orbits=engine.orbit)
print(json.dumps([time.perf_counter() - began, time.process_time() - before]))
"""


def bench(
    times: int, each: Callable[[str], None] | None = None, cases: Sequence[Case] = CASES
) -> list[Reached]:
    """Plans every case ``times`` times, interleaved. Raises CommandError."""
    found: list[list[tuple[float, float]]] = [[] for _ in cases]
    for number in range(times):
        for case, row in zip(cases, found, strict=True):
            if each is not None:
                each(f"{number + 1} of {times}: {case.name}")
            row.append(_seconds(case))
    return [_figure(case, row) for case, row in zip(cases, found, strict=True)]


def _figure(case: Case, rows: Sequence[tuple[float, float]]) -> Reached:
    spent, processor = ([row[one] for row in rows] for one in (0, 1))
    middle = statistics.median
    return Reached(
        case.name, len(spent), middle(spent), min(spent), max(spent), middle(processor), case.most_s
    )


def _seconds(case: Case) -> tuple[float, float]:
    """How long planning takes, and how much of a processor. Raises CommandError."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps(case.scenario()),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CommandError(f"{case.name}: {done.stderr.strip()}")
    spent, processor = json.loads(done.stdout)
    return float(spent), float(processor)
