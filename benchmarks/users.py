"""Benchmark ``users``: CPU time per packet by scheduler and number of users, with the same total load.

The cost is the difference between a long run and a short run. It excludes the fixed cost of each user.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.store.codec import decode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CASES", "USERS", "Case", "Result", "bench", "cost", "packets", "run_spec"]

USERS = (10, 50, 100, 200, 1_000)
SHORT_S, LONG_S = 10, 20
RATE_BIT_S = 20_000_000
LOAD = 0.8
"""Utilisation of the link by all users together, for every number of users."""

SERVED = {"name": "proportional-fair", "average": "served"}
TREES = {
    "model": "perez-fontan", "environment": "intermediate-tree-shadowed", "elevation": "40 deg",
    "speed": "60 km/h", "snr": "11 dB",
}  # fmt: skip
LAYER = {"scheme": "harq-2", "frame": "1115 B", "code_rate": "3/4"}


@dataclass(frozen=True, slots=True)
class Case:
    """Scheduler, and the channel that its decisions depend on."""

    name: str
    scheduler: str | dict[str, str]
    channel: dict[str, str] | None = None


CASES = (
    Case("round robin", "round-robin"),
    Case("deficit round robin", "deficit-round-robin"),
    Case("proportional fair by served bytes, constant channels", SERVED, {"model": "white-noise", "snr": "11 dB"}),
    Case("proportional fair, channels under trees", "proportional-fair", TREES),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """CPU time per packet of a case, in microseconds."""

    case: str
    users: int
    runs: int
    median: float
    lowest: float
    highest: float


def run_spec(case: Case, users: int, seconds: float) -> dict[str, Any]:
    """Return a resolved run: ``users`` send datagrams of 1,000 bytes at a constant rate, in unlimited queues.

    The start times are spread over the interval between two datagrams, and the delay is no multiple of it. For every
    number of users, the arrivals have the same pattern and no two events coincide.
    """
    # Link-layer overhead and retransmissions: a radio link needs more airtime than the bytes alone.
    rate = RATE_BIT_S * LOAD / users * (0.5 if case.channel else 1)
    down: dict[str, Any] = {
        "rate": f"{RATE_BIT_S} bit/s",
        "queue": "none",
        "scheduler": case.scheduler,
    }
    if case.channel:
        down |= {"channel": case.channel, "link_layer": LAYER}
    segment = {"name": "satellite", "delay": "13.7 ms", "up": {"rate": f"{RATE_BIT_S} bit/s"}, "down": down}
    scenario = {
        "duration": f"{seconds:g} s",
        "sample_interval": f"{seconds:g} s",
        "limits": {"memory": "64 GB"},
        "path": {"segment": [segment]},
        "flow": [
            {
                "name": "terminal", "count": users, "transport": "udp", "direction": "down",
                "start_jitter": f"{8_000_000 / rate:.3f} ms",
                "load": {"cbr": {"rate": f"{rate:.0f} bit/s", "packet": "1000 B"}},
            }
        ],
    }  # fmt: skip
    spec: dict[str, Any] = json.loads(
        build_plan(load_scenario(scenario), engine.version()).runs[0].spec_json()
    )
    return spec


def packets(tables: bytes) -> int:
    """Return the number of packets that the scheduler has sent."""
    return int(decode(tables).tables["user_queues"]["sent_packets"].sum())


def cost(case: Case, users: int) -> float:
    """Return the CPU time of this thread for each additional packet, in microseconds."""
    cpu_s, sent_packets = [], []
    for duration_s in (SHORT_S, LONG_S):
        text = json.dumps(run_spec(case, users, duration_s))
        start = time.thread_time()
        tables = engine.run(text)
        cpu_s.append(time.thread_time() - start)
        sent_packets.append(packets(tables))
    return 1e6 * (cpu_s[1] - cpu_s[0]) / (sent_packets[1] - sent_packets[0])


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Measure every case with every number of users ``times`` times, interleaved.

    Args:
        times: number of measurements of each case.
        on_progress: called with a text before each measurement.
    """
    rows: list[tuple[Case, int, list[float]]] = [(case, users, []) for case in CASES for users in USERS]
    for number in range(times):
        for case, users, row in rows:
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {case.name}, {users} users")
            row.append(cost(case, users))
    return [
        Result(case.name, users, len(row), statistics.median(row), min(row), max(row))
        for case, users, row in rows
    ]
