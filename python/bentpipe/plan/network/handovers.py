"""Handovers as topology changes (``graph.changes``): links in use and stage updates at each instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

from bentpipe.plan.link.queues import updated_limit
from bentpipe.plan.link.stages import DELAY_STAGES, IN_FLIGHT_STAGES, QUEUE_STAGES
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration, Rate

if TYPE_CHECKING:
    from bentpipe.plan.input_files import Files
    from bentpipe.plan.network.graph import Edge
    from bentpipe.plan.spec.run_spec import (
        InFlightPolicy,
        LinkAdminState,
        QueueLimit,
        ScheduledStageUpdate,
        StageSpec,
        StageUpdateSpec,
        TopologyChange,
    )
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.handover import DirectionUpdate, Handover
    from bentpipe.scenario.model import Scenario

__all__ = [
    "SIDES",
    "DirectionState",
    "Extremes",
    "handovers_of",
    "links_initially_unused",
    "longest_gap_ns",
    "topology_changes",
    "unused_links",
    "updated_fields",
]

SIDES: tuple[Literal["up", "down"], ...] = ("up", "down")

MAX_HANDOVERS = 200_000
"""Largest number of handovers in a run: one per second for two days. Planning needs about 2 kB for each."""

IN_FLIGHT_POLICIES: dict[str, InFlightPolicy] = {
    "in-order": "in_order",
    "reorder": "reorder",
    "drop": "drop",
}


@dataclass
class Extremes:
    """Values that handovers set in one direction of a link."""

    rates: list[int] = field(default_factory=list)
    """Rates, bit/s."""
    delays: list[int] = field(default_factory=list)
    """Delays, ns."""
    limits: list[int | None] = field(default_factory=list)
    """Limits of the queue, bytes; None for an unlimited queue."""


@dataclass(frozen=True)
class DirectionState:
    """One direction of a link before any handover."""

    direction: Direction
    stages: Sequence[StageSpec]
    rate: Rate | None
    delay_ns: int
    key: str


def handovers_of(scenario: Scenario) -> Sequence[Handover]:
    """Return the handovers of a path or a graph."""
    if scenario.path is not None:
        return scenario.path.handover
    return scenario.graph.handover if scenario.graph is not None else ()


def updated_fields(scenario: Scenario, edge: str, side: Literal["up", "down"]) -> set[str]:
    """Return the keys of a direction that any handover sets."""
    updates = [
        handover.resolve_direction(side) for handover in handovers_of(scenario) if handover.link == edge
    ]
    return {key for one in updates for key in type(one).model_fields if getattr(one, key) is not None}


def links_initially_unused(scenario: Scenario) -> set[str]:
    """Return the links of a graph that are out of use until a handover."""
    return {link.name for link in scenario.graph.link if not link.enabled} if scenario.graph else set()


def unused_links(changes: Sequence[TopologyChange]) -> Iterator[set[str]]:
    """Yield the links that are out of use at the start and after each change."""
    unused: set[str] = set()
    if changes[0]["at_ns"] > 0:
        yield set()
    for change in changes:
        for link in change.get("links", []):
            (unused.discard if link["enabled"] else unused.add)(link["link"])
        yield set(unused)


def longest_gap_ns(
    changes: Sequence[TopologyChange],
    links: Iterable[str],
    reaches: Callable[[set[str]], bool],
    duration_ns: int,
) -> int:
    """Return an upper bound of the time that a packet waits for a route, in ns.

    It is the lower of two bounds. One is the longest time without an end-to-end route, the other the sum of the longest
    time out of use of each link.

    Args:
        changes: topology changes in order of time.
        links: links on the routes of the flow.
        reaches: whether an end-to-end route exists without these links.
        duration_ns: duration of the run.
    """
    without_route = 0
    closed: dict[str, int] = {}
    longest: dict[str, int] = defaultdict(int)
    since: int | None = None
    unused: set[str] = set()
    for change in [*changes, None]:
        at = duration_ns if change is None else min(change["at_ns"], duration_ns)
        for link in change.get("links", []) if change is not None else ():
            (unused.discard if link["enabled"] else unused.add)(link["link"])
            if not link["enabled"]:
                closed.setdefault(link["link"], at)
            elif link["link"] in closed:
                longest[link["link"]] = max(longest[link["link"]], at - closed.pop(link["link"]))
        has_route = change is None or reaches(unused)
        if since is not None and has_route:
            without_route, since = max(without_route, at - since), None
        elif since is None and not has_route:
            since = at
    for name, at in closed.items():
        longest[name] = max(longest[name], duration_ns - at)
    return min(without_route, sum(longest[name] for name in links))


def topology_changes(
    scenario: Scenario,
    edges: Sequence[Edge],
    states: Mapping[tuple[str, str], DirectionState],
    rtts: Mapping[str, int],
    packet_bytes: int,
    files: Files,
    users: int = 1,
) -> tuple[list[TopologyChange], Mapping[tuple[str, str], Extremes]]:
    """Return the topology changes of a run in order, and the values that they set in each direction.

    Args:
        scenario: the scenario.
        edges: links.
        states: directions before any handover, by link and side.
        rtts: by link, the round-trip time of "1 BDP" before any handover, in ns.
        packet_bytes: bytes of a full packet.
        files: input files, with the handovers of an orbit.
        users: number of users that share the links.

    Raises:
        ScenarioError: a handover without its link or stage, or too many handovers.
    """
    builder = _ChangeBuilder(scenario, states, rtts, packet_bytes, users)
    for at, group in groupby(_handovers_in_order(scenario, states, files), key=itemgetter(0)):
        simultaneous = [(number, handover) for _, number, handover in group]
        builder.track(handover for _, handover in simultaneous)
        for number, handover in simultaneous:
            builder.add(at, number, handover)
    in_use = {edge.name: True for edge in edges}
    changes: list[TopologyChange] = []
    initially_unused = [(name, False) for name in sorted(links_initially_unused(scenario))]
    builder.links[0] = [*initially_unused, *builder.links.get(0, [])]
    for at in sorted({*builder.links, *builder.stages}):
        latest = dict(builder.links.get(at, []))
        links: list[LinkAdminState] = [
            {"link": name, "enabled": used} for name, used in latest.items() if in_use[name] != used
        ]
        in_use |= latest
        change: TopologyChange = {"at_ns": at}
        if links:
            change["links"] = links
        if builder.stages.get(at):
            change["stages"] = builder.stages[at]
        if len(change) > 1:
            changes.append(change)
    return changes, builder.extremes


def _handovers_in_order(
    scenario: Scenario, states: Mapping[tuple[str, str], DirectionState], files: Files
) -> Iterator[tuple[int, int, Handover]]:
    """Return (ns, number, handover) for each time of each handover, ordered by time, then as in the scenario."""
    occurrences: list[tuple[int, int, Handover]] = []
    for number, handover in enumerate(handovers_of(scenario)):
        for at in _instants(handover, number, scenario, states, files):
            occurrences.append((at, number, handover))
            if len(occurrences) > MAX_HANDOVERS:
                key = _handover_key(handover, number, scenario)
                text = f"has more than {MAX_HANDOVERS:,} handovers in {scenario.duration}; expected fewer"
                raise ScenarioError(
                    [(f"{key}.interval" if handover.interval is not None else f"{key}.at", text)]
                )
    return iter(sorted(occurrences, key=lambda occurrence: occurrence[:2]))


def _handover_key(handover: Handover, number: int, scenario: Scenario) -> str:
    root = "path" if scenario.path is not None else "graph"
    return f"{root}.{handover.name or f'handover[{number + 1}]'}"


def _instants(
    handover: Handover,
    number: int,
    scenario: Scenario,
    states: Mapping[tuple[str, str], DirectionState],
    files: Files,
) -> Iterable[int]:
    """Return the times of a handover in ns; those of an orbit come from the hop that the link follows."""
    if handover.at != "orbit":
        return handover.iter_times_ns(scenario.duration.ns)
    key = f"{_handover_key(handover, number, scenario)}.at"
    delays = [
        state.direction.delay for side in SIDES if (state := states.get((handover.link, side))) is not None
    ]
    orbit_hops = {delay.orbit for delay in delays if delay is not None and delay.orbit is not None}
    if not orbit_hops:
        raise ScenarioError(
            [(key, f'found "orbit", and {handover.link} has no delay of an orbit; expected a time')]
        )
    return files.route_timeline(key).changes(
        "before-last-hop" if "before-last-hop" in orbit_hops else "last-hop"
    )


class _ChangeBuilder:
    """Builder of topology changes, with the current rate and delay of each direction."""

    def __init__(
        self,
        scenario: Scenario,
        states: Mapping[tuple[str, str], DirectionState],
        rtts: Mapping[str, int],
        packet_bytes: int,
        users: int,
    ) -> None:
        self.scenario, self.states, self.rtts = scenario, states, rtts
        self.packet_bytes, self.users = packet_bytes, users
        self.links: dict[int, list[tuple[str, bool]]] = {}
        self.stages: dict[int, list[ScheduledStageUpdate]] = {}
        self.extremes: dict[tuple[str, str], Extremes] = defaultdict(Extremes)
        self.segments = {one.name for one in scenario.path.segment} if scenario.path is not None else set()
        self.rate = {direction: state.rate for direction, state in states.items()}
        self.delay = {direction: state.delay_ns for direction, state in states.items()}

    def track(self, handovers: Iterable[Handover]) -> None:
        """Update rates and delays by the handovers of one instant, before any "1 BDP" of it is computed."""
        for handover in handovers:
            for side in SIDES:
                direction, update = (handover.link, side), handover.resolve_direction(side)
                if direction not in self.states:
                    continue
                if update.delay is not None:
                    self.delay[direction] = update.delay.ns
                if update.rate is not None:
                    self.rate[direction] = update.rate

    def add(self, at: int, number: int, handover: Handover) -> None:
        """Add the changes of handover ``number`` at the time ``at`` in ns."""
        key = _handover_key(handover, number, self.scenario)
        self._switch_links(at, handover)
        stages = self.stages.setdefault(at, [])
        stages += self._in_flight_updates(at, handover, key)
        for side in SIDES:
            if (handover.link, side) in self.states:
                stages += self._direction_updates(
                    handover.link, side, handover.resolve_direction(side), f"{key}.{side}"
                )

    def _switch_links(self, at: int, handover: Handover) -> None:
        switches = self.links.setdefault(at, [])
        if handover.previous_link != handover.link:
            switches.append((handover.previous_link, False))
        switches.append((handover.link, handover.gap is None))
        if handover.gap is not None:
            self.links.setdefault(at + handover.gap.ns, []).append((handover.link, True))

    def _pause_service(
        self, handover: Handover, line: str, index: int, stage: StageSpec, at: int, key: str
    ) -> Iterator[ScheduledStageUpdate]:
        """Stop the transmitter of a queue until the gap ends, so that packets stay in the queue."""
        if stage["kind"] != "transmit" or stage["service"]["kind"] != "rate" or handover.gap is None:
            text = f'found "hold", which requires a constant rate of {handover.previous_link}; expected one, or "keep"'
            raise ScenarioError([(f"{key}.queued", text)])
        yield _stage_update(line, index, {"kind": "enabled", "enabled": False})
        resumption = _stage_update(line, index, {"kind": "enabled", "enabled": True})
        self.stages.setdefault(at + handover.gap.ns, []).append(resumption)

    def _in_flight_updates(self, at: int, handover: Handover, key: str) -> Iterator[ScheduledStageUpdate]:
        """Yield the updates for packets in flight and in queues of the link that the handover leaves."""
        has_queue = has_in_flight = False
        for side in SIDES:
            state = self.states.get((handover.previous_link, side))
            line = f"{handover.previous_link}.{side}"
            for index, stage in enumerate(state.stages if state is not None else ()):
                kind = stage["kind"]
                policy: InFlightPolicy | None = None
                if kind in QUEUE_STAGES:
                    has_queue = True
                    policy = "drop" if handover.queued == "drop" else None
                    if handover.queued == "hold":
                        yield from self._pause_service(handover, line, index, stage, at, key)
                elif kind in IN_FLIGHT_STAGES and handover.in_flight == "drop":
                    has_in_flight, policy = True, "drop"
                elif kind in DELAY_STAGES and handover.in_flight is not None and not _reorders(stage):
                    has_in_flight, policy = True, IN_FLIGHT_POLICIES[handover.in_flight]
                if policy is not None:
                    yield _stage_update(line, index, {"kind": "in_flight", "policy": policy})
        if handover.queued != "keep" and not has_queue:
            text = f'found "{handover.queued}", and {handover.previous_link} has no queue; expected one'
            raise ScenarioError([(f"{key}.queued", text)])
        if handover.in_flight is not None and not has_in_flight:
            text = f'found "{handover.in_flight}", and {handover.previous_link} has no delay; expected one'
            raise ScenarioError([(f"{key}.in_flight", text)])

    def _direction_updates(
        self, link: str, side: str, update: DirectionUpdate, key: str
    ) -> Iterator[ScheduledStageUpdate]:
        """Yield the stage updates of one direction of a link."""
        direction, line = (link, side), f"{link}.{side}"
        state, extremes = self.states[direction], self.extremes[direction]
        if update.delay is not None:
            index = self._stage_index(state, ("delay", "netem"), f"{key}.delay")
            extremes.delays.append(update.delay.ns)
            yield _stage_update(line, index, {"kind": "delay", "delay_ns": update.delay.ns})
        if update.rate is not None:
            index = self._stage_index(state, ("transmit", "netem"), f"{key}.rate")
            extremes.rates.append(update.rate.bit_s)
            yield _stage_update(line, index, {"kind": "rate", "rate_bit_s": update.rate.bit_s})
        if update.queue is not None:
            index = self._stage_index(state, ("transmit", "netem"), f"{key}.queue")
            rate = self.rate[direction] or Rate(0)
            rtt = Duration(self._round_trip_ns(link))
            queue = update.queue.for_users(self.users)
            limit = updated_limit(state.direction, queue, rate, rtt, self.packet_bytes, key)
            extremes.limits.append(_limit_bytes(limit, self.packet_bytes))
            yield _stage_update(line, index, {"kind": "limit", "limit": limit})
        if update.loss is not None:
            index = self._stage_index(state, ("loss",), f"{key}.loss")
            yield _stage_update(line, index, {"kind": "loss", "probability": update.loss.value})

    def _stage_index(self, state: DirectionState, kinds: Sequence[str], key: str) -> int:
        """Return the index of the first stage of these kinds. Raises ScenarioError if it varies by itself."""
        quantity, direction = key.rpartition(".")[2], state.direction
        traced = {
            "delay": direction.delay is not None and direction.delay.constant is None,
            "rate": direction.trace is not None
            or (direction.rate is not None and direction.rate.trace is not None),
            "loss": direction.loss is not None and (direction.loss.trace or "").endswith(".csv"),
        }
        intervals = direction.reconfiguration
        if intervals is not None and (
            getattr(intervals, quantity, None) or (quantity == "loss" and intervals.loss_bursts)
        ):
            raise ScenarioError(
                [(key, f"found a {quantity} beside reconfiguration of {state.key}, expected one of them")]
            )
        if traced.get(quantity):
            raise ScenarioError(
                [(key, f"found a {quantity} beside the trace of {state.key}, expected one of them")]
            )
        if any(getattr(change, quantity, None) is not None for change in direction.changes or []):
            raise ScenarioError(
                [(key, f"found a {quantity} beside changes of {state.key}, expected one of them")]
            )
        index = next((n for n, stage in enumerate(state.stages) if stage["kind"] in kinds), None)
        if index is None:
            raise ScenarioError([(key, f"requires a rate of {state.key}")])
        return index

    def _round_trip_ns(self, link: str) -> int:
        """Return the current round-trip time of "1 BDP": of the whole path, or in a graph with this link's change."""
        shifts = [
            self.delay[direction] - self.states[direction].delay_ns
            for direction in self.states
            if direction[0] in self.segments or direction[0] == link
        ]
        return self.rtts[link] + sum(shifts)


def _reorders(stage: StageSpec) -> bool:
    return (stage["kind"] == "delay_trace" or stage["kind"] == "jitter") and stage["reorder"]


def _limit_bytes(limit: QueueLimit | None, packet_bytes: int) -> int | None:
    """Return a queue limit in bytes, with full packets."""
    if limit is None:
        return None
    return limit["packets"] * packet_bytes if "packets" in limit else limit["bytes"]


def _stage_update(line: str, stage: int, change: StageUpdateSpec) -> ScheduledStageUpdate:
    return {"simplex_link": line, "stage": stage, "update": change}
