"""Benchmark ``orbits``: satellite-steps per CPU second, each measurement in a fresh process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cli_latency import CommandError
from bentpipe.orbit.query import parse_query
from bentpipe.plan.network.constellation_routes import route_request
from bentpipe.scenario.network.places import place_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CASES", "Case", "Result", "bench"]

SHELL = "starlink-shell-1"
SATELLITES = 1584


@dataclass(frozen=True, slots=True)
class Case:
    """Computation over a number of steps of 100 ms, and the limit of a release on an idle machine."""

    name: str
    stations: int
    """Ground stations with a next hop from every satellite; 0 for the route of one pair with all its details."""
    steps: int
    least: float
    """Minimum satellite-steps per CPU second."""

    def engine_input(self) -> dict[str, Any]:
        """Return the query for the engine."""
        names = place_names()
        pair = parse_query(
            {"constellation": SHELL, "from": "Rio de Janeiro", "to": ["Tokyo"]}, f"{self.steps * 100} ms"
        )
        pair_query = route_request(pair.orbit, pair.duration.ns, Path())
        if not self.stations:
            return pair_query
        orbit = pair_query["orbit"]
        keys = ("constellation", "start_unix_ns", "duration_ns", "step_ns", "visibility", "links")
        many = parse_query({"constellation": SHELL, "from": "Paris", "to": names[: self.stations]}, "1 s")
        stations = route_request(many.orbit, many.duration.ns, Path())["orbit"]["to"]
        return {key: orbit[key] for key in keys} | {"stations": stations}


CASES = (
    Case(f"route of one pair over {SATELLITES:,} satellites", 0, 20_000, 5e6),
    Case(f"100 ground stations, next hops of {SATELLITES:,} satellites", 100, 100, 1e5),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a case in satellite-steps per CPU second."""

    case: str
    runs: int
    steps: int
    median: float
    lowest: float
    highest: float
    least: float


_CHILD = """
import json, sys, time
from bentpipe.runners import engine
query = json.load(sys.stdin)
compute = engine.orbit_tables if "stations" in query else engine.orbit
start = time.process_time()
compute(query)
print(time.process_time() - start)
"""


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Measure every case ``times`` times, interleaved.

    Args:
        times: number of measurements of each case.
        on_progress: called with a text before each measurement.

    Raises:
        CommandError: a process failed.
    """
    rows: list[list[float]] = [[] for _ in CASES]
    queries = [json.dumps(case.engine_input()) for case in CASES]
    for number in range(times):
        for case, text, row in zip(CASES, queries, rows, strict=True):
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {case.name}")
            row.append(_measure_cpu_s(text))
    return [_result(case, row) for case, row in zip(CASES, rows, strict=True)]


def _measure_cpu_s(query: str) -> float:
    process = subprocess.run(
        [sys.executable, "-c", _CHILD], input=query, capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise CommandError(process.stderr.strip())
    return float(process.stdout)


def _result(case: Case, cpu_s: Sequence[float]) -> Result:
    steps = SATELLITES * (case.steps + 1)
    rates = [steps / seconds for seconds in cpu_s]
    return Result(
        case.name, len(rates), case.steps + 1, statistics.median(rates), min(rates), max(rates), case.least
    )
