"""Hops of flows: rate, queue and delay of each direction of a link, at their extremes over a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from bentpipe.plan.input_files import Files
from bentpipe.plan.link.queues import queue_bytes
from bentpipe.plan.link.stages import delay_min_ns, first_rate, rate_max
from bentpipe.plan.network.graph import Edge, Hop, Route
from bentpipe.plan.network.handovers import SIDES, DirectionState, Extremes
from bentpipe.scenario.quantities import Duration, Rate

__all__ = ["direction_hops", "route_hops"]

LinkDirection = tuple[str, str]
"""Name of a link, and one of its directions."""


def direction_hops(
    edges: Sequence[Edge],
    states: Mapping[LinkDirection, DirectionState],
    extremes: Mapping[LinkDirection, Extremes],
    rtts: Mapping[str, int],
    packet_bytes: int,
    files: Files,
) -> dict[LinkDirection, Hop]:
    """Return the hop of each direction of every link; equal access links of a group are computed once.

    Args:
        edges: links.
        states: directions before any handover; a wire has none.
        extremes: values that handovers set, by direction.
        rtts: by link, the round-trip time of "1 BDP" in ns.
        packet_bytes: bytes of a full packet with all headers.
        files: input files.
    """
    hops: dict[LinkDirection, Hop] = {}
    shared: dict[tuple[str, str, str], Hop] = {}
    for edge in edges:
        for side in SIDES:
            key = (edge.owner, "" if edge.owner else edge.name, side)
            if key not in shared:
                state, changed = states.get((edge.name, side)), extremes.get((edge.name, side), Extremes())
                shared[key] = _hop(state, changed, Duration(rtts[edge.name]), packet_bytes, files)
            hops[edge.name, side] = replace(shared[key], name=f"{edge.name}.{side}")
    return hops


def route_hops(
    route: Route, hops: Mapping[LinkDirection, Hop], side: Literal["up", "down"]
) -> tuple[Hop, ...]:
    """Return the hops of packets on a route ("up"), or back ("down")."""
    other = "down" if side == "up" else "up"
    links = route if side == "up" else route[::-1]
    return tuple(hops[edge, side if forward else other] for edge, forward in links)


def _hop(
    state: DirectionState | None, changed: Extremes, rtt: Duration, packet_bytes: int, files: Files
) -> Hop:
    """Return the hop of a direction, without its name."""
    if state is None:
        return Hop("", None, None, 0, 0, 0)
    direction, key = state.direction, state.key
    rate = rate_max(direction, files, key)
    queue = queue_bytes(direction, first_rate(direction, files, key), rtt, packet_bytes, key)
    if changed.rates and rate is not None:
        rate = Rate(max(rate.bit_s, *changed.rates))
    if queue is not None and changed.limits:
        limits = [limit for limit in changed.limits if limit is not None]
        queue = max(queue, *limits) if len(limits) == len(changed.limits) else None
    lowest = min(delay_min_ns(direction, files, key), *changed.delays, state.delay_ns)
    highest = max(state.delay_ns, *changed.delays, 0)
    if direction.delay is not None and direction.delay.orbit is not None:
        highest = max(highest, *(delay for _, delay in files.delays(direction.delay, key)))
    return Hop("", rate, queue, state.delay_ns, lowest, highest)
