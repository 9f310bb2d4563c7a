"""Headline of a map: the object sizes for which the proxy gains at the RTT of the access, and the gain."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.break_even.ratios import break_even, size_text
from bentpipe.report.headline import NO_INTERVAL
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.break_even.ratios import Cell, Map

__all__ = ["Gain", "gain", "gains", "headline_text", "own_rtt", "supporting_text"]

EVEN = 1.005
"""Lowest ratio that counts as a gain; the map displays lower ratios as 1.00."""


@dataclass(frozen=True)
class Gain:
    """Gain of the proxy over one QUIC configuration at one round-trip time."""

    controller: str
    window: str
    rtt: str
    ranges: tuple[tuple[float | None, float | None], ...]
    """Ranges of object size in bytes in which split TCP is faster; None stands for a limit beyond the map."""
    max_ratio: float
    """Largest ratio of page load times, QUIC to split TCP."""
    max_ratio_size: str
    """Object size with the largest ratio."""

    def as_row(self) -> dict[str, Any]:
        """Return the gain as plain data, sizes in bytes and times in seconds."""
        return {
            "controller": self.controller, "initial_window": self.window, "rtt_s": Duration.parse(self.rtt).ns / 1e9,
            "faster_from_to_bytes": [[_round_size(limit) for limit in limits] for limits in self.ranges],
            "largest_ratio": self.max_ratio, "largest_ratio_bytes": Size.parse(self.max_ratio_size).bytes,
        }  # fmt: skip


def own_rtt(result: Map) -> str:
    """Return the RTT of the map nearest to that of the access, or the longest if the access has none."""
    access_rtt, rtts = result.config.access.rtt, result.config.rtts
    if access_rtt is None:
        return rtts[-1]
    return min(rtts, key=lambda rtt: abs(math.log(Duration.parse(rtt).ns / access_rtt.ns)))


def gains(result: Map, rtt: str | None = None) -> list[Gain]:
    """Return the gain of the proxy over each QUIC configuration with a finished pair of loads.

    Args:
        result: the map.
        rtt: round-trip time (default: :func:`own_rtt`).
    """
    config, rtt = result.config, rtt or own_rtt(result)
    candidates = (
        gain(result.of(controller, window), rtt)
        for controller in config.controllers
        for window in config.windows
    )
    return [candidate for candidate in candidates if candidate is not None]


def gain(cells: Sequence[Cell], rtt: str) -> Gain | None:
    """Return the gain over the QUIC configuration of ``cells`` at ``rtt``; None without a finished pair of loads."""
    points = [
        (Size.parse(cell.size).bytes, cell.ratio, cell) for cell in cells if cell.rtt == rtt and cell.ratio
    ]
    if not points:
        return None
    points.sort(key=lambda point: point[0])
    limits = [None, *break_even(cells, rtt), None]
    ranges = []
    for low, high in itertools.pairwise(limits):
        ratios = [ratio for size, ratio, _ in points if (low or 0) <= size <= (high or math.inf)]
        if max(ratios, default=1.0) >= EVEN:
            ranges.append((low, high))
    _, max_ratio, cell = max(points, key=lambda point: point[1])
    return Gain(cell.controller, cell.window, rtt, tuple(ranges), max_ratio, cell.size)


def headline_text(result: Map) -> str:
    """Return the recommendation: the gain over the first QUIC configuration and over the best one."""
    candidates = gains(result)
    rtt = own_rtt(result)
    if not candidates:
        return f"No page loads over both QUIC and split TCP at {rtt}, so the map has no result there."
    first = candidates[0]
    if not first.ranges:
        text = f"The proxy has no gain at {rtt}: {_quic(first)} loads every object at least as fast."
    else:
        text = (
            f"Keep the proxy for {_objects(first)} at {rtt}; the gain is at most {_times(first)} over "
            f"{_quic(first)}."
        )
    best = min(candidates, key=lambda candidate: candidate.max_ratio if candidate.ranges else 0.0)
    if best is first:
        return text
    if not best.ranges:
        return f"{text} It has no gain over {_quic(best)}."
    return f"{text} The gain over {_quic(best)} is at most {_times(best)}, for {_objects(best)}."


def supporting_text(result: Map) -> str:
    """Return the number of points of the map at which each transport is faster."""
    ratios = [cell.ratio for cell in result.cells if cell.ratio]
    split, quic = sum(ratio > 1 for ratio in ratios), sum(ratio < 1 for ratio in ratios)
    text = f"Split TCP is faster at {split:,} and QUIC at {quic:,} of {len(ratios):,} points over all RTTs"
    missing = len(result.cells) - len(ratios)
    text += f"; a load is unfinished at {missing:,}" if missing else ""
    seeds = result.config.seeds
    return f"{text}; {NO_INTERVAL if seeds == 1 else f'medians over {seeds} seeds'}."


def _quic(gain: Gain) -> str:
    return f"QUIC with {gain.controller} and an initial window of {gain.window}"


def _times(gain: Gain) -> str:
    return f"{gain.max_ratio:.1f} times" if gain.max_ratio >= 2 else f"{gain.max_ratio:.2f} times"


def _objects(gain: Gain) -> str:
    if gain.ranges == ((None, None),):
        return "objects of every size"
    return "objects " + " and ".join(_format_range(low, high) for low, high in gain.ranges)


def _format_range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {size_text(high or 0.0)}"
    if high is None:
        return f"above {size_text(low)}"
    return f"from {size_text(low)} to {size_text(high)}"


def _round_size(size: float | None) -> int | None:
    return None if size is None else round(size)
