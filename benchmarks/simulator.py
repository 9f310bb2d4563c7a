"""Benchmark ``simulator``: packets per CPU second of the engine, interleaved over the cases."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CASES", "Case", "Result", "bench"]

TIMES = 7


@dataclass(frozen=True)
class Case:
    """Scenario, and the limits that a release must keep on an idle machine."""

    name: str
    rate: str
    congestion: Mapping[str, Any]
    loss: str
    duration: str
    least: int
    """Minimum packets of both directions per CPU second."""
    transport: str = "quic"
    load: Mapping[str, Any] = field(default_factory=dict)
    """Load of the flow; empty for bulk data."""
    most_s: float | None = None
    """Maximum CPU seconds of the run."""

    def scenario(self) -> dict[str, Any]:
        """Return the scenario as the table that its file parses to."""
        direction = {"rate": self.rate, "queue": "1 BDP"}
        return {
            "title": self.name,
            "duration": self.duration,
            "path": {
                "segment": [
                    {
                        "name": "satellite",
                        "delay": "250 ms",
                        "up": {**direction, "loss": self.loss},
                        "down": direction,
                    }
                ]
            },
            "flow": [
                {
                    "name": "bulk",
                    "transport": self.transport,
                    "congestion": dict(self.congestion),
                    "direction": "up",
                    **({"load": dict(self.load)} if self.load else {}),
                }
            ],
        }


def _fixed_window(packets: int) -> dict[str, Any]:
    """Return a controller that keeps this many full packets in flight (the default MTU is 1452 bytes)."""
    return {"name": "fixed", "window_bytes": packets * 1452}


CASES = (
    Case("10 Mbit/s, 500 ms, CUBIC, loss 0.01 %", "10 Mbit/s", {"name": "cubic"}, "0.01 %", "300 s", 650_000),
    Case(
        "100 Mbit/s, 500 ms, pipe full (paced at 95 Mbit/s)",
        "100 Mbit/s",
        {"name": "fixed", "rate_bit_s": 95_000_000},
        "0 %",
        "100 s",
        450_000,
    ),
    Case("400 packets in flight (10 Mbit/s)", "10 Mbit/s", _fixed_window(400), "0 %", "300 s", 650_000),
    Case("8,000 packets in flight (100 Mbit/s)", "100 Mbit/s", _fixed_window(8000), "0 %", "60 s", 450_000),
    Case("AIMD in Python, 10 Mbit/s, loss 0.01 %", "10 Mbit/s", {"name": "mine"}, "0.01 %", "300 s", 300_000),
    Case(
        "TCP, 10 Mbit/s, 500 ms, CUBIC, loss 0.01 %",
        "10 Mbit/s",
        {"name": "cubic"},
        "0.01 %",
        "300 s",
        2_000_000,
        "tcp",
    ),
    Case(
        "TCP, 100 Mbit/s, 500 ms, BBR, loss 0 %",
        "100 Mbit/s",
        {"name": "bbr"},
        "0 %",
        "200 s",
        1_500_000,
        "tcp",
    ),
    Case(
        "TCP, 100 Mbit/s, 500 ms, Hybla, loss 1 %",
        "100 Mbit/s",
        {"name": "hybla"},
        "1 %",
        "400 s",
        1_500_000,
        "tcp",
    ),
    Case(
        "TCP, 100 Mbit/s, 500 ms, BBR, loss 1 %",
        "100 Mbit/s",
        {"name": "bbr"},
        "1 %",
        "200 s",
        1_500_000,
        "tcp",
    ),
    Case(
        "TCP, 100 Mbit/s, 500 ms, BBRv1, loss 5 %",
        "100 Mbit/s",
        {"name": "bbr1"},
        "5 %",
        "200 s",
        1_500_000,
        "tcp",
    ),
    *(
        Case(
            f"10,000 flows of 10 kB in 100 s, {transport.upper()}",
            "100 Mbit/s",
            {"name": "cubic"},
            "0 %",
            "100 s",
            least,
            transport,
            {"poisson": {"interval": "10 ms", "size": {"fixed": "10 kB"}}},
            10,
        )
        for transport, least in (("quic", 100_000), ("tcp", 400_000))
    ),
)


@dataclass(frozen=True)
class Result:
    """Result of a case; the speeds are packets of both directions per CPU second."""

    case: str
    runs: int
    packets: int
    median: float
    lowest: float
    highest: float
    times_real: float
    """Virtual seconds per CPU second, median."""
    memory_mb: float
    """Peak resident memory of the worker, in MB."""
    growth_mb: float
    """Part of the peak memory that the run added, in MB."""
    least: int
    cpu_s: float
    """CPU seconds of a run, median."""
    most_s: float | None


_CHILD = """
import json, sys, time
from benchmarks.aimd import Aimd
from bentpipe.runners import engine
spec = sys.stdin.read()
controllers = {"mine": Aimd} if '"mine"' in spec else None

def peak_memory():  # peak resident memory since the last reset, in MB
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

with open("/proc/self/clear_refs", "w") as control:
    control.write("5")
idle = peak_memory()
start = time.process_time()
data = engine.run(spec, controllers)
cpu_s = time.process_time() - start
length = int.from_bytes(data[:8], "little")
packets = json.loads(data[8:8 + length])["packets"]
memory = peak_memory()
print(json.dumps([packets, cpu_s, memory, memory - idle]))
"""


def bench(times: int = TIMES, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Run every case ``times`` times, interleaved, each in a fresh process.

    Args:
        times: number of measurements of each case.
        on_progress: called with a text before each measurement.

    Raises:
        subprocess.CalledProcessError: a run failed.
    """
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine

    runs = [build_plan(load_scenario(case.scenario()), engine.version()).runs[0] for case in CASES]
    rows: list[list[tuple[int, float, float, float]]] = [[] for _ in CASES]
    for number in range(times):
        for case, run, row in zip(CASES, runs, rows, strict=True):
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {case.name}")
            process = subprocess.run(
                [sys.executable, "-c", _CHILD],
                input=run.spec_json(),
                capture_output=True,
                text=True,
                check=True,
            )
            packets, cpu_s, memory, growth = json.loads(process.stdout)
            row.append((packets, cpu_s, memory, growth))
    return [
        _result(case, float(run.spec["duration_ns"]) / 1e9, row)
        for case, run, row in zip(CASES, runs, rows, strict=True)
    ]


def _result(case: Case, duration_s: float, rows: Sequence[tuple[int, float, float, float]]) -> Result:
    speeds = [packets / cpu_s for packets, cpu_s, *_ in rows]
    return Result(
        case.name,
        len(rows),
        rows[0][0],
        statistics.median(speeds),
        min(speeds),
        max(speeds),
        statistics.median(duration_s / cpu_s for _, cpu_s, *_ in rows),
        max(memory for _, _, memory, _ in rows),
        max(growth for *_, growth in rows),
        case.least,
        statistics.median(cpu_s for _, cpu_s, *_ in rows),
        case.most_s,
    )
