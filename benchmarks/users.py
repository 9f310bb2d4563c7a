"""``python -m benchmarks users``: what a packet costs, by scheduler and number of users, at one load for all.

A short run is taken from a long one, so that what is paid once for each user is no cost of a packet.
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

__all__ = ["CASES", "USERS", "Case", "Reached", "asked", "bench", "cost", "packets"]

USERS = (10, 50, 100, 200, 1_000)
SHORT_S, LONG_S = 10, 20
RATE_BIT_S = 20_000_000
LOAD = 0.8
"""The part of the link's time that all users have something for, whatever their number."""

SERVED = {"name": "proportional-fair", "average": "served"}
TREES = {
    "model": "perez-fontan", "environment": "intermediate-tree-shadowed", "elevation": "40 deg",
    "speed": "60 km/h", "snr": "11 dB",
}  # fmt: skip
LAYER = {"scheme": "harq-2", "frame": "1115 B", "code_rate": "3/4"}


@dataclass(frozen=True, slots=True)
class Case:
    """A scheduler, and the channel that it goes by."""

    name: str
    scheduler: str | dict[str, str]
    channel: dict[str, str] | None = None


CASES = (
    Case("round robin", "round-robin"),
    Case("deficit round robin", "deficit-round-robin"),
    Case("proportional fair of what was served, channels that stay", SERVED, {"model": "white-noise", "snr": "11 dB"}),
    Case("proportional fair, channels under trees", "proportional-fair", TREES),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reached:
    """What a packet cost, in microseconds of a processor."""

    case: str
    users: int
    runs: int
    median: float
    lowest: float
    highest: float


def asked(case: Case, users: int, seconds: float) -> dict[str, Any]:
    """A resolved run: ``users`` that send datagrams of 1,000 bytes at a steady rate, in queues without a limit.

    They begin within the time from one datagram to the next, and the delay is no multiple of that: however many there
    are, their datagrams come alike, and no two things fall on one instant.
    """
    # What goes over a radio link takes more than its bytes.
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
        "sample": f"{seconds:g} s",
        "limits": {"memory": "64 GB"},
        "path": {"segment": [segment]},
        "flow": [
            {
                "name": "terminal", "count": users, "transport": "udp", "send": "down",
                "start_jitter": f"{8_000_000 / rate:.3f} ms",
                "load": {"live": {"rate": f"{rate:.0f} bit/s", "packet": "1000 B"}},
            }
        ],
    }  # fmt: skip
    spec: dict[str, Any] = json.loads(
        build_plan(load_scenario(scenario), engine.version()).runs[0].spec_json()
    )
    return spec


def packets(tables: bytes) -> int:
    """How many packets the scheduler has sent."""
    return int(decode(tables).tables["user_queues"]["sent_packets"].sum())


def cost(case: Case, users: int) -> float:
    """Microseconds of this thread's processor time for a packet more."""
    seconds, sent = [], []
    for duration in (SHORT_S, LONG_S):
        text = json.dumps(asked(case, users, duration))
        began = time.thread_time()
        tables = engine.run(text)
        seconds.append(time.thread_time() - began)
        sent.append(packets(tables))
    return 1e6 * (seconds[1] - seconds[0]) / (sent[1] - sent[0])


def bench(times: int, each: Callable[[str], None] | None = None) -> list[Reached]:
    """Every case with every number of users ``times`` times, interleaved."""
    found: list[tuple[Case, int, list[float]]] = [(case, users, []) for case in CASES for users in USERS]
    for number in range(times):
        for case, users, row in found:
            if each is not None:
                each(f"{number + 1} of {times}: {case.name}, {users} users")
            row.append(cost(case, users))
    return [
        Reached(case.name, users, len(row), statistics.median(row), min(row), max(row))
        for case, users, row in found
    ]
