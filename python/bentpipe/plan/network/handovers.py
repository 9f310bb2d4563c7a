"""Hand-overs in the engine's words (``graph.changes``): at each instant, links in use and changes of stages."""

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
    from bentpipe.scenario.link.handover import DirectionUpdate, Handover
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Direction

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

MOST_HANDOVERS = 200_000
"""Of a run: one a second for two days. Each takes some two kilobytes while a run is planned."""

FATES: dict[str, InFlightPolicy] = {"in-order": "in_order", "overtaken": "overtaken", "lost": "lost"}


@dataclass
class Extremes:
    """What a line has in the course of the run."""

    rates: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    limits: list[int | None] = field(default_factory=list)
    """Bounds of the queue, bytes; None: unbounded."""


@dataclass(frozen=True)
class DirectionState:
    """A direction of a link before any hand-over."""

    direction: Direction
    stages: Sequence[StageSpec]
    rate: Rate | None
    delay_ns: int
    key: str


def handovers_of(scenario: Scenario) -> Sequence[Handover]:
    """Of a path or a graph."""
    if scenario.path is not None:
        return scenario.path.handover
    return scenario.graph.handover if scenario.graph is not None else ()


def updated_fields(scenario: Scenario, edge: str, side: Literal["up", "down"]) -> set[str]:
    """What hand-overs set of a direction."""
    own = [one.toward(side) for one in handovers_of(scenario) if one.link == edge]
    return {key for one in own for key in type(one).model_fields if getattr(one, key) is not None}


def links_initially_unused(scenario: Scenario) -> set[str]:
    """Links of a graph that are not in use before a hand-over leads to them."""
    return {link.name for link in scenario.graph.link if not link.in_use} if scenario.graph else set()


def unused_links(events: Sequence[TopologyChange]) -> Iterator[set[str]]:
    """The links that are not in use at the start, and after each event."""
    unused: set[str] = set()
    if events[0]["at_ns"] > 0:
        yield set()
    for event in events:
        for one in event.get("links", []):
            (unused.discard if one["in_use"] else unused.add)(one["link"])
        yield set(unused)


def longest_gap_ns(
    events: Sequence[TopologyChange], links: Iterable[str], reaches: Callable[[set[str]], bool], whole_ns: int
) -> int:
    """How long a packet waits at the longest until a way leads on: no longer than until one leads all the way
    (``reaches``, over links that are not these), nor than each link on its own is out of use, one after the other."""
    without = 0
    closed: dict[str, int] = {}
    longest: dict[str, int] = defaultdict(int)
    since: int | None = None
    unused: set[str] = set()
    for event in [*events, None]:
        at = whole_ns if event is None else min(event["at_ns"], whole_ns)
        for one in event.get("links", []) if event is not None else ():
            (unused.discard if one["in_use"] else unused.add)(one["link"])
            if not one["in_use"]:
                closed.setdefault(one["link"], at)
            elif one["link"] in closed:
                longest[one["link"]] = max(longest[one["link"]], at - closed.pop(one["link"]))
        open_ = event is None or reaches(unused)
        if since is not None and open_:
            without, since = max(without, at - since), None
        elif since is None and not open_:
            since = at
    for link, at in closed.items():
        longest[link] = max(longest[link], whole_ns - at)
    return min(without, sum(longest[link] for link in links))


def topology_changes(
    scenario: Scenario,
    edges: Sequence[Edge],
    lines: Mapping[tuple[str, str], DirectionState],
    shared: Mapping[str, int],
    wire: int,
    files: Files,
    users: int = 1,
) -> tuple[list[TopologyChange], Mapping[tuple[str, str], Extremes]]:
    """What changes at which instant, and what each line has in the course of the run.

    Args:
        scenario: whose hand-overs.
        edges: links.
        lines: by link and direction.
        shared: by link, the round trip that "1 BDP" counts with before any hand-over.
        wire: bytes of a full packet.
        files: who knows when the way of an orbit changes.
        users: how many meet on the links.

    Raises:
        ScenarioError: a hand-over of what is not there.
    """
    made = _Changes(scenario, lines, shared, wire, users)
    for at, together in groupby(_in_order(scenario, lines, files), key=itemgetter(0)):
        now = [(number, one) for _, number, one in together]
        made.moves(one for _, one in now)
        for number, one in now:
            made.add(at, number, one)
    used = {edge.name: True for edge in edges}
    events: list[TopologyChange] = []
    made.links[0] = [
        *((name, False) for name in sorted(links_initially_unused(scenario))),
        *made.links.get(0, []),
    ]
    for at in sorted({*made.links, *made.stages}):
        final = dict(made.links.get(at, []))
        links: list[LinkAdminState] = [
            {"link": name, "in_use": use} for name, use in final.items() if used[name] != use
        ]
        used |= final
        event: TopologyChange = {"at_ns": at}
        if links:
            event["links"] = links
        if made.stages.get(at):
            event["stages"] = made.stages[at]
        if len(event) > 1:
            events.append(event)
    return events, made.extremes


def _in_order(
    scenario: Scenario, lines: Mapping[tuple[str, str], DirectionState], files: Files
) -> Iterator[tuple[int, int, Handover]]:
    """Every hand-over at every instant, in order of time, then of the scenario."""
    many: list[tuple[int, int, Handover]] = []
    for number, one in enumerate(handovers_of(scenario)):
        for at in _instants(one, number, scenario, lines, files):
            many.append((at, number, one))
            if len(many) > MOST_HANDOVERS:
                key = f"{_root(scenario)}.{one.name or f'handover[{number + 1}]'}"
                text = f"gives more than {MOST_HANDOVERS:,} hand-overs in {scenario.duration}; expected fewer"
                raise ScenarioError([(f"{key}.every" if one.every is not None else f"{key}.at", text)])
    return iter(sorted(many, key=lambda event: event[:2]))


def _root(scenario: Scenario) -> str:
    return "path" if scenario.path is not None else "graph"


def _instants(
    one: Handover,
    number: int,
    scenario: Scenario,
    lines: Mapping[tuple[str, str], DirectionState],
    files: Files,
) -> Iterable[int]:
    """When ``one`` happens: an orbit's hand-overs are those of the leg that the link takes."""
    if one.at != "orbit":
        return one.instants(scenario.duration.ns)
    key = f"{_root(scenario)}.{one.name or f'handover[{number + 1}]'}.at"
    delays = [line.direction.delay for side in SIDES if (line := lines.get((one.link, side))) is not None]
    legs = {delay.orbit for delay in delays if delay is not None and delay.orbit is not None}
    if not legs:
        raise ScenarioError([(key, f'found "orbit", and {one.link} takes no leg of it; expected a time')])
    return files.route_timeline(key).changes("first" if "first" in legs else "last")


class _Changes:
    """What has changed so far."""

    def __init__(
        self,
        scenario: Scenario,
        lines: Mapping[tuple[str, str], DirectionState],
        shared: Mapping[str, int],
        wire: int,
        users: int,
    ) -> None:
        self.scenario, self.lines, self.shared, self.wire = scenario, lines, shared, wire
        self.users = users
        self.links: dict[int, list[tuple[str, bool]]] = {}
        self.stages: dict[int, list[ScheduledStageUpdate]] = {}
        self.extremes: dict[tuple[str, str], Extremes] = defaultdict(Extremes)
        self.segments = {one.name for one in scenario.path.segment} if scenario.path is not None else set()
        self.rate = {place: line.rate for place, line in lines.items()}
        self.delay = {place: line.delay_ns for place, line in lines.items()}

    def moves(self, together: Iterable[Handover]) -> None:
        """Rates and delays after hand-overs of one instant, which every "1 BDP" of it counts with."""
        for one in together:
            for side in SIDES:
                place, moved = (one.link, side), one.toward(side)
                if place not in self.lines:
                    continue
                if moved.delay is not None:
                    self.delay[place] = moved.delay.ns
                if moved.rate is not None:
                    self.rate[place] = moved.rate

    def add(self, at: int, number: int, one: Handover) -> None:
        """``one``, which is hand-over ``number``, happens at ``at``."""
        key = f"{_root(self.scenario)}.{one.name or f'handover[{number + 1}]'}"
        self._use(at, one)
        stages = self.stages.setdefault(at, [])
        stages += self._in_flight(at, one, key)
        for side in SIDES:
            if (one.link, side) in self.lines:
                stages += self._moved(one.link, side, one.toward(side), f"{key}.{side}")

    def _use(self, at: int, one: Handover) -> None:
        now = self.links.setdefault(at, [])
        if one.leaves != one.link:
            now.append((one.leaves, False))
        now.append((one.link, one.gap is None))
        if one.gap is not None:
            self.links.setdefault(at + one.gap.ns, []).append((one.link, True))

    def _held(
        self, one: Handover, side: str, index: int, stage: StageSpec, place: tuple[int, str]
    ) -> Iterator[ScheduledStageUpdate]:
        """What waits stays in its queue until the gap is over."""
        at, key = place
        if stage["kind"] != "transmit" or stage["service"]["kind"] != "rate" or one.gap is None:
            text = f'found "held", which goes with a constant rate of {one.leaves}; expected one, or "kept"'
            raise ScenarioError([(f"{key}.waiting", text)])
        line = f"{one.leaves}.{side}"
        yield _stage(line, index, {"kind": "serves", "serves": False})
        again = _stage(line, index, {"kind": "serves", "serves": True})
        self.stages.setdefault(at + one.gap.ns, []).append(again)

    def _in_flight(self, at: int, one: Handover, key: str) -> Iterator[ScheduledStageUpdate]:
        """What becomes of what is on the link, and of what waits for it."""
        waits = flies = False
        for side in SIDES:
            line = self.lines.get((one.leaves, side))
            for index, stage in enumerate(line.stages if line is not None else ()):
                kind = stage["kind"]
                fate: InFlightPolicy | None = None
                if kind in QUEUE_STAGES:
                    waits = True
                    fate = "lost" if one.waiting == "lost" else None
                    if one.waiting == "held":
                        yield from self._held(one, side, index, stage, (at, key))
                elif kind in IN_FLIGHT_STAGES and one.in_flight == "lost":
                    flies, fate = True, "lost"
                elif kind in DELAY_STAGES and one.in_flight is not None and not _reorders(stage):
                    flies, fate = True, FATES[one.in_flight]
                if fate is not None:
                    yield _stage(f"{one.leaves}.{side}", index, {"kind": "in_flight", "fate": fate})
        if one.waiting != "kept" and not waits:
            text = f'found "{one.waiting}", and nothing waits on {one.leaves}; expected a queue there'
            raise ScenarioError([(f"{key}.waiting", text)])
        if one.in_flight is not None and not flies:
            text = (
                f'found "{one.in_flight}", and nothing is in flight on {one.leaves}; expected a delay there'
            )
            raise ScenarioError([(f"{key}.in_flight", text)])

    def _moved(
        self, link: str, side: str, moved: DirectionUpdate, key: str
    ) -> Iterator[ScheduledStageUpdate]:
        """What one direction has from now on."""
        line, place, name = self.lines[link, side], (link, side), f"{link}.{side}"
        seen = self.extremes[place]
        if moved.delay is not None:
            index = self._index(line, ("delay", "netem"), f"{key}.delay")
            seen.delays.append(moved.delay.ns)
            yield _stage(name, index, {"kind": "delay", "delay_ns": moved.delay.ns})
        if moved.rate is not None:
            index = self._index(line, ("transmit", "netem"), f"{key}.rate")
            seen.rates.append(moved.rate.bit_s)
            yield _stage(name, index, {"kind": "rate", "rate_bit_s": moved.rate.bit_s})
        if moved.queue is not None:
            index = self._index(line, ("transmit", "netem"), f"{key}.queue")
            rate = self.rate[place] or Rate(0)
            rtt = Duration(self._round_trip(link))
            queue = moved.queue.among(self.users)
            limit = updated_limit(line.direction, queue, rate, rtt, self.wire, key)
            seen.limits.append(_bytes(limit, self.wire))
            yield _stage(name, index, {"kind": "limit", "limit": limit})
        if moved.loss is not None:
            index = self._index(line, ("loss",), f"{key}.loss")
            yield _stage(name, index, {"kind": "loss", "probability": moved.loss.value})

    def _index(self, line: DirectionState, kinds: Sequence[str], key: str) -> int:
        """The number of the first stage of these kinds, which must follow nothing of its own."""
        what = key.rpartition(".")[2]
        traced = {
            "delay": line.direction.delay is not None and line.direction.delay.constant is None,
            "rate": line.direction.trace is not None
            or (line.direction.rate is not None and line.direction.rate.trace is not None),
            "loss": line.direction.loss is not None and (line.direction.loss.trace or "").endswith(".csv"),
        }
        slots = line.direction.slots
        if slots is not None and (getattr(slots, what, None) or (what == "loss" and slots.bursts)):
            raise ScenarioError([(key, f"found a {what} beside slots of {line.key}, expected one of them")])
        if traced.get(what):
            raise ScenarioError(
                [(key, f"found a {what} beside the trace of {line.key}, expected one of them")]
            )
        if any(getattr(change, what, None) is not None for change in line.direction.changes or []):
            raise ScenarioError([(key, f"found a {what} beside changes of {line.key}, expected one of them")])
        index = next((n for n, stage in enumerate(line.stages) if stage["kind"] in kinds), None)
        if index is None:
            raise ScenarioError([(key, f"goes with a rate of {line.key}, and there is none")])
        return index

    def _round_trip(self, link: str) -> int:
        """The round trip of "1 BDP" now: on a path that of all segments, in a graph that of the link is another."""
        moved = [
            self.delay[place] - self.lines[place].delay_ns
            for place in self.lines
            if place[0] in self.segments or place[0] == link
        ]
        return self.shared[link] + sum(moved)


def _reorders(stage: StageSpec) -> bool:
    return (stage["kind"] == "delay_trace" or stage["kind"] == "jitter") and stage["reorder"]


def _bytes(limit: QueueLimit | None, wire: int) -> int | None:
    """A queue's bound in bytes, packets taken as full ones."""
    if limit is None:
        return None
    return limit["packets"] * wire if "packets" in limit else limit["bytes"]


def _stage(line: str, stage: int, change: StageUpdateSpec) -> ScheduledStageUpdate:
    return {"line": line, "stage": stage, "change": change}
