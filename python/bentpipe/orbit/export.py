"""Traces for other programs: Hypatia's and Mahimahi's, and CSV that a scenario reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.traces import MAHIMAHI_BYTES
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.network.constellation_routes import RouteTimeline
    from bentpipe.scenario.quantities import Rate

__all__ = ["write"]


def write(found: RouteTimeline, out: Path, rate: Rate | None = None) -> list[Path]:
    """Writes every trace into ``out``; Mahimahi's only with a ``rate``, which it delivers but in gaps."""
    files = {
        "networkx_rtt.txt": _round_trips(found),
        "networkx_path.txt": _paths(found),
        "first.csv": _legs(found, 1),
        "last.csv": _legs(found, 2),
    }
    if rate is not None:
        files["mahimahi.trace"] = _opportunities(found, rate)
    written = []
    for name, text in files.items():
        path = out / name
        write_atomic(path, text.encode())
        written.append(path)
    return written


def _round_trips(found: RouteTimeline) -> str:
    """Hypatia's ``networkx_rtt``: instant and round trip in ns, 0 without a way."""
    lines = [f"{step * found.step_ns},{2 * (delay or 0):.10f}" for step, delay in enumerate(found.delay_ns)]
    return "\n".join(lines) + "\n"


def _paths(found: RouteTimeline) -> str:
    """Hypatia's ``networkx_path``: nodes from an instant on; ground stations are numbered behind the satellites."""
    satellites = len(found.names)
    # relays have the numbers behind satellites already
    relays = max((node - satellites + 1 for route in found.routes for node in route.nodes), default=0)
    start = satellites + max(0, relays)
    lines = []
    for route in found.routes:
        way = (start, *route.nodes, start + 1 + route.end)
        lines.append(f"{route.at_ns},{'-'.join(map(str, way)) if route.nodes else 'Unreachable'}")
    return "\n".join(lines) + "\n"


def _legs(found: RouteTimeline, leg: int) -> str:
    """What ``delay = { trace = ..., interpolation = "linear" }`` reads."""
    lines = [f"{corner[0]},{corner[leg]}" for corner in found.legs]
    return "\n".join(["time_ns,delay_ns", *lines]) + "\n"


def _opportunities(found: RouteTimeline, rate: Rate) -> str:
    """A line a packet of 1504 B, its millisecond; mm-link begins again after the last one."""
    gaps = found.gaps
    lines = []
    bits, count, gap = MAHIMAHI_BYTES * 8, 0, 0
    end = found.duration_ns
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
