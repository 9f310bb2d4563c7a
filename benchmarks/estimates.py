"""CPU time that a plan predicts for a run, and the CPU time that the run takes.

The cases are flows whose packets overtake each other: the sender's work grows with the packets that it looks at. The
ratio of both times depends on the machine; it should be the same in each case.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.plan.cost.estimate import estimate_cost
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CASES", "EstimateResult", "bench", "overtaking"]

WIDE = {"uniform": "200 ms"}
RFC = {"time_threshold": 1.125}


@dataclass(frozen=True)
class EstimateResult:
    """One case: CPU seconds predicted and taken."""

    case: str
    predicted_s: float
    taken_s: float
    """Lowest of all runs."""

    @property
    def ratio(self) -> float:
        """Predicted time as a share of the time taken."""
        return self.predicted_s / self.taken_s


def overtaking(
    jitter: Mapping[str, Any] | None,
    duration: str = "4 s",
    both: Mapping[str, Any] | None = None,
    quic: Mapping[str, Any] | None = None,
    **flow: Any,
) -> dict[str, Any]:
    """Return a scenario of 80 Mbit/s over 100 Mbit/s whose packets may overtake each other.

    The time threshold of nine round trips of 200 ms finds what is lost, unless ``quic`` sets another threshold.

    Args:
        jitter: delay variation of both directions; None: none.
        duration: duration of the run.
        both: further settings of both directions.
        quic: settings of the QUIC stack.
        **flow: further settings of the flow, which by default sends for the whole duration.
    """
    late = {} if jitter is None else {"jitter": {**jitter, "reorder": True}}
    return {
        "duration": duration,
        "path": {
            "segment": [
                {"name": "s", "delay": "100 ms", "both": {"rate": "100 Mbit/s", **late, **(both or {})}},
            ]
        },
        "flow": [{"name": "f", "congestion": {"name": "fixed", "rate_bit_s": 80_000_000}, **flow}],
        "quic": {"receive_window": "100 MB", "packet_threshold": "none", "time_threshold": 9, **(quic or {})},
    }


CASES: dict[str, dict[str, Any]] = {
    "thousands of packets unacknowledged": overtaking(WIDE),
    "a hundred packets overtaken": overtaking({"uniform": "20 ms"}, quic=RFC),
    "packet threshold 3": overtaking(WIDE, quic={**RFC, "packet_threshold": 3}),
    "a file of 10 MB": overtaking(WIDE, "20 s", load={"bytes": "10 MB"}),
    "a tenth of the packets held": overtaking(None, both={"reorder": {"probability": "10 %", "delay": "100 ms"}}),
}  # fmt: skip


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[EstimateResult]:
    """Run each case ``times`` times, the cases interleaved, and return the lowest CPU time of each.

    Args:
        times: runs of each case.
        on_progress: receives the name of each case before it runs.
    """
    plans = {name: build_plan(load_scenario(data), "") for name, data in CASES.items()}
    taken: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(times):
        for name, plan in plans.items():
            if on_progress is not None:
                on_progress(name)
            began = time.process_time()
            engine.run(plan.runs[0].spec_json())
            taken[name].append(time.process_time() - began)
    return [
        EstimateResult(name, float(estimate_cost(plan.cells[0].resolved).cpu_s), min(taken[name]))
        for name, plan in plans.items()
    ]
