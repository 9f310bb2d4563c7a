"""What flows cross, as the planner sees it: each direction of a link at its best and its worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from bentpipe.plan.cost.reordering import estimate_reordering
from bentpipe.plan.input_files import Files
from bentpipe.plan.link.queues import queue_bytes
from bentpipe.plan.link.stages import first_rate, least_delay_ns, most_rate
from bentpipe.plan.network.graph import Edge, Hop, Route
from bentpipe.plan.network.handovers import SIDES, DirectionState, Extremes
from bentpipe.scenario.quantities import Duration, Rate

__all__ = ["crossed", "crossings"]

Place = tuple[str, str]
"""A link and one of its directions."""


def crossings(
    edges: Sequence[Edge],
    lines: Mapping[Place, DirectionState],
    extremes: Mapping[Place, Extremes],
    shared: Mapping[str, int],
    wire: int,
    files: Files,
) -> dict[Place, Hop]:
    """Both directions of every link; accesses of a group, which are alike, are looked at once."""
    hops: dict[Place, Hop] = {}
    same: dict[tuple[str, str, str], Hop] = {}
    for edge in edges:
        for side in SIDES:
            of = (edge.owner, "" if edge.owner else edge.name, side)
            if of not in same:
                line, seen = lines.get((edge.name, side)), extremes.get((edge.name, side), Extremes())
                same[of] = _hop(line, seen, Duration(shared[edge.name]), wire, files)
            hops[edge.name, side] = replace(same[of], name=f"{edge.name}.{side}")
    return hops


def crossed(way: Route, hops: Mapping[Place, Hop], side: Literal["up", "down"]) -> tuple[Hop, ...]:
    """What packets cross on this way, or back."""
    other = "down" if side == "up" else "up"
    there = way if side == "up" else way[::-1]
    return tuple(hops[edge, side if forward else other] for edge, forward in there)


def _hop(line: DirectionState | None, seen: Extremes, rtt: Duration, wire: int, files: Files) -> Hop:
    """A direction; its name is missing."""
    if line is None:
        return Hop("", None, None, 0, 0, 0)
    direction, key = line.direction, line.key
    rate = most_rate(direction, files, key)
    queue = queue_bytes(direction, first_rate(direction, files, key), rtt, wire, key)
    if seen.rates and rate is not None:
        rate = Rate(max(rate.bit_s, *seen.rates))
    if queue is not None and seen.limits:
        limits = [bound for bound in seen.limits if bound is not None]
        queue = max(queue, *limits) if len(limits) == len(seen.limits) else None
    least = min(least_delay_ns(direction, files, key), *seen.delays, line.delay_ns)
    most = max(line.delay_ns, *seen.delays, 0)
    if direction.delay is not None and direction.delay.orbit is not None:
        most = max(most, *(delay for _, delay in files.delays(direction.delay, key)))
    return Hop("", rate, queue, line.delay_ns, least, most, estimate_reordering(direction))
