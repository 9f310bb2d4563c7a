"""Packets per CPU second of the engine: cases interleaved, medians and spreads."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CASES", "Case", "Reached", "bench"]

TIMES = 7


@dataclass(frozen=True)
class Case:
    """One case: a scenario, and what is aimed at."""

    name: str
    rate: str
    congestion: Mapping[str, Any]
    loss: str
    duration: str
    least: int
    """Packets of both directions per CPU second that a release must reach."""
    transport: str = "quic"
    load: Mapping[str, Any] = field(default_factory=dict)
    """What is sent; as much as goes where nothing is said."""
    most_s: float | None = None
    """CPU seconds that the run may take."""

    def scenario(self) -> dict[str, Any]:
        """As the table a scenario file would parse to."""
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
                    "send": "up",
                    **({"load": dict(self.load)} if self.load else {}),
                }
            ],
        }


def _window(packets: int) -> dict[str, Any]:
    """A controller that keeps this many full packets in flight (the default MTU is 1452 bytes)."""
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
    Case("400 packets in flight (10 Mbit/s)", "10 Mbit/s", _window(400), "0 %", "300 s", 650_000),
    Case("8,000 packets in flight (100 Mbit/s)", "100 Mbit/s", _window(8000), "0 %", "60 s", 450_000),
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
            {"poisson": {"every": "10 ms", "size": {"fixed": "10 kB"}}},
            10,
        )
        for transport, least in (("quic", 100_000), ("tcp", 400_000))
    ),
)


@dataclass(frozen=True)
class Reached:
    """What a case reached."""

    case: str
    runs: int
    packets: int
    median: float
    lowest: float
    highest: float
    times_real: float
    """Virtual seconds per CPU second, median."""
    memory_mb: float
    """Largest resident memory of the worker."""
    growth_mb: float
    """The part of it that the run added."""
    least: int
    cpu_s: float
    """CPU seconds of a run, median."""
    most_s: float | None


_CHILD = """
import json, sys, time
from benchmarks.aimd import Aimd
from bentpipe.runners import engine
spec = sys.stdin.read()
outside = {"mine": Aimd} if '"mine"' in spec else None

def peak():  # largest resident memory since the last reset, in MB
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

with open("/proc/self/clear_refs", "w") as control:
    control.write("5")
idle = peak()
began = time.process_time()
data = engine.run(spec, outside)
spent = time.process_time() - began
length = int.from_bytes(data[:8], "little")
packets = json.loads(data[8:8 + length])["packets"]
memory = peak()
print(json.dumps([packets, spent, memory, memory - idle]))
"""


def bench(times: int = TIMES, each: Callable[[str], None] | None = None) -> list[Reached]:
    """Runs every case ``times`` times, interleaved, each in a fresh process.

    Raises:
        subprocess.CalledProcessError: a run failed.
    """
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine

    specs = [build_plan(load_scenario(case.scenario()), engine.version()).runs[0] for case in CASES]
    found: list[list[tuple[int, float, float, float]]] = [[] for _ in CASES]
    for number in range(times):
        for case, run, row in zip(CASES, specs, found, strict=True):
            if each is not None:
                each(f"{number + 1} of {times}: {case.name}")
            answer = subprocess.run(
                [sys.executable, "-c", _CHILD],
                input=run.spec_json(),
                capture_output=True,
                text=True,
                check=True,
            )
            packets, spent, memory, growth = json.loads(answer.stdout)
            row.append((packets, spent, memory, growth))
    return [
        _figure(case, float(run.spec["duration_ns"]) / 1e9, row)
        for case, run, row in zip(CASES, specs, found, strict=True)
    ]


def _figure(case: Case, seconds: float, rows: Sequence[tuple[int, float, float, float]]) -> Reached:
    speeds = [packets / spent for packets, spent, *_ in rows]
    return Reached(
        case.name,
        len(rows),
        rows[0][0],
        statistics.median(speeds),
        min(speeds),
        max(speeds),
        statistics.median(seconds / spent for _, spent, *_ in rows),
        max(memory for _, _, memory, _ in rows),
        max(growth for *_, growth in rows),
        case.least,
        statistics.median(spent for _, spent, *_ in rows),
        case.most_s,
    )
