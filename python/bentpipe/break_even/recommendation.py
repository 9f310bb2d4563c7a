"""The map's answer in a sentence: from which object size on, and by how much, the proxy gains at the access's own
round-trip time."""

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
"""Ratios below it are written 1.00 on the map: no gain."""


@dataclass(frozen=True)
class Gain:
    """What the proxy gains over one QUIC at one round-trip time."""

    controller: str
    window: str
    rtt: str
    stretches: tuple[tuple[float | None, float | None], ...]
    """Object sizes in bytes between which split TCP is faster; None: beyond the map."""
    most: float
    """The largest ratio of page load times, QUIC's over split TCP's."""
    most_size: str
    """The object it was measured with."""

    def as_row(self) -> dict[str, Any]:
        """As plain data, sizes in bytes and times in seconds."""
        return {
            "controller": self.controller, "initial_window": self.window, "rtt_s": Duration.parse(self.rtt).ns / 1e9,
            "faster_from_to_bytes": [[_whole(end) for end in stretch] for stretch in self.stretches],
            "largest_ratio": self.most, "largest_ratio_bytes": Size.parse(self.most_size).bytes,
        }  # fmt: skip


def own_rtt(found: Map) -> str:
    """The round-trip time of the map that is nearest to the access's own; of one without, the longest."""
    own, rtts = found.question.access.rtt, found.question.rtts
    if own is None:
        return rtts[-1]
    return min(rtts, key=lambda rtt: abs(math.log(Duration.parse(rtt).ns / own.ns)))


def gains(found: Map, rtt: str | None = None) -> list[Gain]:
    """What the proxy gains over each QUIC at ``rtt``, or at :func:`own_rtt`; none of a QUIC of which no load ended."""
    question, at = found.question, rtt or own_rtt(found)
    every = (
        gain(found.of(controller, window), at)
        for controller in question.controllers
        for window in question.windows
    )
    return [one for one in every if one is not None]


def gain(cells: Sequence[Cell], rtt: str) -> Gain | None:
    """What the proxy gains over the QUIC of ``cells`` at ``rtt``; None where no pair of loads has ended."""
    known = [
        (Size.parse(cell.size).bytes, cell.ratio, cell) for cell in cells if cell.rtt == rtt and cell.ratio
    ]
    if not known:
        return None
    known.sort(key=lambda one: one[0])
    cuts = [None, *break_even(cells, rtt), None]
    stretches = []
    for low, high in itertools.pairwise(cuts):
        within = [ratio for size, ratio, _ in known if (low or 0) <= size <= (high or math.inf)]
        if max(within, default=1.0) >= EVEN:
            stretches.append((low, high))
    _, most, where = max(known, key=lambda one: one[1])
    return Gain(where.controller, where.window, rtt, tuple(stretches), most, where.size)


def headline_text(found: Map) -> str:
    """Whether to keep the proxy: first over the map's first QUIC, then over the one that leaves it least."""
    every = gains(found)
    at = own_rtt(found)
    if not every:
        return f"No page has loaded both over QUIC and over split TCP at {at}: the map has no answer there."
    first = every[0]
    if not first.stretches:
        said = f"The proxy gains nothing at {at}: {_quic(first)} loads every object as fast or faster."
    else:
        said = f"Keep the proxy for {_objects(first)} at {at}; it gains at most {_times(first)} over {_quic(first)}."
    least = min(every, key=lambda one: one.most if one.stretches else 0.0)
    if least is first:
        return said
    if not least.stretches:
        return f"{said} Over {_quic(least)} it gains nothing."
    return f"{said} Over {_quic(least)}: for {_objects(least)}, at most {_times(least)}."


def supporting_text(found: Map) -> str:
    """How many points of the map are whose."""
    ratios = [cell.ratio for cell in found.cells if cell.ratio]
    split, quic = sum(one > 1 for one in ratios), sum(one < 1 for one in ratios)
    text = f"Of {len(ratios):,} points over all round-trip times split TCP is faster at {split:,}, QUIC at {quic:,}"
    missing = len(found.cells) - len(ratios)
    text += f"; at {missing:,} a load did not end" if missing else ""
    seeds = found.question.seeds
    return f"{text}; {NO_INTERVAL if seeds == 1 else f'medians over {seeds} seeds'}."


def _quic(one: Gain) -> str:
    return f"QUIC with {one.controller} and an initial window of {one.window}"


def _times(one: Gain) -> str:
    return f"{one.most:.1f} times" if one.most >= 2 else f"{one.most:.2f} times"


def _objects(one: Gain) -> str:
    if one.stretches == ((None, None),):
        return "objects of every size"
    return "objects " + " and ".join(_stretch(low, high) for low, high in one.stretches)


def _stretch(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {size_text(high or 0.0)}"
    if high is None:
        return f"above {size_text(low)}"
    return f"from {size_text(low)} to {size_text(high)}"


def _whole(end: float | None) -> int | None:
    return None if end is None else round(end)
