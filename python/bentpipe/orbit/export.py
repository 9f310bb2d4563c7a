"""Traces for other programs: those of Hypatia and Mahimahi, and CSV that a scenario reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.traces import MAHIMAHI_BYTES
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.network.constellation_routes import RouteTimeline
    from bentpipe.scenario.quantities import Rate

__all__ = ["write"]


def write(timeline: RouteTimeline, out: Path, rate: Rate | None = None) -> list[Path]:
    """Write every trace into ``out``; Mahimahi's only with a ``rate``, which it delivers except in gaps."""
    files = {
        "networkx_rtt.txt": _round_trips(timeline),
        "networkx_path.txt": _paths(timeline),
        "first.csv": _hop_delays(timeline, 1),
        "last.csv": _hop_delays(timeline, 2),
    }
    if rate is not None:
        files["mahimahi.trace"] = _opportunities(timeline, rate)
    written = []
    for name, text in files.items():
        path = out / name
        write_atomic(path, text.encode())
        written.append(path)
    return written


def _round_trips(timeline: RouteTimeline) -> str:
    """Return Hypatia's ``networkx_rtt``: instant and round trip in ns, 0 without a route."""
    lines = [
        f"{step * timeline.step_ns},{2 * (delay or 0):.10f}" for step, delay in enumerate(timeline.delay_ns)
    ]
    return "\n".join(lines) + "\n"


def _paths(timeline: RouteTimeline) -> str:
    """Return Hypatia's ``networkx_path``: nodes from an instant on; ground stations follow the satellites."""
    satellites = len(timeline.names)
    # relays follow the satellites in the numbering
    relays = max((node - satellites + 1 for route in timeline.routes for node in route.nodes), default=0)
    start = satellites + max(0, relays)
    lines = []
    for route in timeline.routes:
        nodes = (start, *route.nodes, start + 1 + route.end)
        lines.append(f"{route.at_ns},{'-'.join(map(str, nodes)) if route.nodes else 'Unreachable'}")
    return "\n".join(lines) + "\n"


def _hop_delays(timeline: RouteTimeline, column: int) -> str:
    """Return the delay of the first or last hop for ``delay = { trace = ..., interpolation = "linear" }``."""
    lines = [f"{corner[0]},{corner[column]}" for corner in timeline.legs]
    return "\n".join(["time_ns,delay_ns", *lines]) + "\n"


def _opportunities(timeline: RouteTimeline, rate: Rate) -> str:
    """Return the millisecond of each packet of 1504 B; mm-link repeats the trace."""
    gaps = timeline.gaps
    lines = []
    bits, count, gap = MAHIMAHI_BYTES * 8, 0, 0
    end = timeline.duration_ns
    while True:
        count += 1
        at = -(-count * bits * 10**9 // rate.bit_s)
        if at > end:
            break
        while gap < len(gaps) and gaps[gap][1] <= at:
            gap += 1
        if gap < len(gaps) and gaps[gap][0] <= at:
            continue
        lines.append(str(-(-at // 10**6)))
    return "\n".join(lines) + "\n"
