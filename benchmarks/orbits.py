"""``python -m benchmarks orbits``: satellite-steps per CPU second, each time in a fresh process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cli_latency import CommandError
from bentpipe.orbit.query import ask
from bentpipe.plan.network.constellation_routes import route_request
from bentpipe.scenario.network.places import place_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CASES", "Case", "Reached", "bench"]

SHELL = "starlink-shell-1"
SATELLITES = 1584


@dataclass(frozen=True, slots=True)
class Case:
    """What is followed for how many steps of 100 ms, and what a release must reach on an idle machine."""

    name: str
    stations: int
    """Ground stations to which every satellite knows its next hop; 0: one pair's way, with all that it tells."""
    steps: int
    least: float

    def asked(self) -> dict[str, Any]:
        """The engine's request."""
        names = place_names()
        pair = ask(
            {"constellation": SHELL, "from": "Rio de Janeiro", "to": ["Tokyo"]}, f"{self.steps * 100} ms"
        )
        whole = route_request(pair.orbit, pair.duration.ns, Path())
        if not self.stations:
            return whole
        orbit = whole["orbit"]
        kept = ("constellation", "start_unix_ns", "duration_ns", "step_ns", "reach", "links")
        many = ask({"constellation": SHELL, "from": "Paris", "to": names[: self.stations]}, "1 s")
        stations = route_request(many.orbit, many.duration.ns, Path())["orbit"]["to"]
        return {key: orbit[key] for key in kept} | {"stations": stations}


CASES = (
    Case(f"a pair's way over {SATELLITES:,} satellites", 0, 20_000, 5e6),
    Case(f"100 ground stations, next hops of {SATELLITES:,} satellites", 100, 100, 1e5),
)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a case reached: satellite-steps per CPU second."""

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
asked = json.load(sys.stdin)
follow = engine.orbit_tables if "stations" in asked else engine.orbit
began = time.process_time()
follow(asked)
print(time.process_time() - began)
"""


def bench(times: int, each: Callable[[str], None] | None = None) -> list[Reached]:
    """Every case ``times`` times, interleaved. Raises CommandError: a process failed."""
    rows: list[list[float]] = [[] for _ in CASES]
    asked = [json.dumps(case.asked()) for case in CASES]
    for number in range(times):
        for case, text, row in zip(CASES, asked, rows, strict=True):
            if each is not None:
                each(f"{number + 1} of {times}: {case.name}")
            row.append(_seconds(text))
    return [_figure(case, row) for case, row in zip(CASES, rows, strict=True)]


def _seconds(asked: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], input=asked, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CommandError(done.stderr.strip())
    return float(done.stdout)


def _figure(case: Case, seconds: Sequence[float]) -> Reached:
    steps = SATELLITES * (case.steps + 1)
    rates = [steps / one for one in seconds]
    return Reached(
        case.name, len(rates), case.steps + 1, statistics.median(rates), min(rates), max(rates), case.least
    )
