"""Steps of a traced run: specification (``spec.json``), packet steps and radio attempts.

Instants are whole nanoseconds since the start of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.trace_check.handovers import Spec, merge_changes

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Attempt",
    "Crossing",
    "Direction",
    "Finding",
    "Rule",
    "Trace",
    "Visit",
    "load_trace",
    "nanoseconds",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """Violation of an invariant in a run."""

    rule: str
    """Short name of the rule."""
    place: str
    """Direction of a link, flow, node or run."""
    text: str
    """Found and expected values."""


@dataclass(slots=True)
class Visit:
    """Passage of a packet through one stage."""

    packet: int
    bytes: int
    arrival: int
    departure: int | None = None
    departure_step: int = -1
    """Number of the departure step: orders departures of the same instant."""
    dropped: int | None = None
    cause: str = ""
    user: int = 0
    """User whose flow sent the packet."""

    @property
    def removal(self) -> int | None:
        """Instant at which the packet left the stage or was dropped; None while it is inside."""
        return self.departure if self.departure is not None else self.dropped


@dataclass(slots=True)
class Crossing:
    """Passage of a packet through one link direction."""

    direction: str
    packet: int
    entry: int
    departure: int | None = None
    dropped: int | None = None
    cause: str = ""
    no_route: bool = False
    """The packet left the link, and the node at the end had no route."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Transmission attempt at a packet on a radio link."""

    packet: int
    user: int
    attempt: int
    """Number of the attempt at this packet, from 1."""
    copy: bool
    """The packet had left the stage already."""
    begin: int
    end: int


@dataclass
class Direction:
    """Direction of a link, or a store-and-forward node: its stages and the packets in them."""

    name: str
    start: str
    end: str
    stages: list[dict[str, Any]]
    visits: list[list[Visit]]
    """By stage, in order of arrival."""
    attempts: list[list[Attempt] | None]
    """By stage, in order of begin; None: the run has no table of attempts."""
    crossings: list[Crossing] = field(default_factory=list)


Rule = Callable[[Direction, Spec, Sequence[Visit], int], Iterator[Finding]]
"""Check of a stage: direction, specification of the stage, visits in order of arrival, end of the run."""


@dataclass
class Trace:
    """Packets and steps of a run."""

    spec: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    directions: dict[str, Direction]
    node_buffers: dict[str, Direction]
    """Store-and-forward nodes, each as a direction from itself to itself with one stage."""
    paths: dict[int, list[Crossing]]
    """Link directions that each packet crossed, in order."""
    sent: list[dict[str, Any]]
    """Rows of the table of packets."""
    findings: list[Finding]
    """Violations in the steps themselves."""

    @property
    def end(self) -> int:
        """End of the run in ns."""
        return int(self.spec["duration_ns"])

    def find_direction(self, name: str) -> Direction | None:
        """Return the link direction or store-and-forward node of a name."""
        return self.directions.get(name) or self.node_buffers.get(name)


def nanoseconds(seconds: float | None) -> int | None:
    """Round seconds to whole nanoseconds."""
    return None if seconds is None else round(seconds * 1e9)


def load_trace(spec: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> Trace:
    """Load the trace of a run.

    Args:
        spec: specification of the run.
        tables: rows of this run, with ``stages`` and ``packets`` among them.
    """
    directions = {}
    for link in spec["graph"]["links"]:
        ends = (link["client_side"], link["server_side"])
        for side, (start, end) in (("up", ends), ("down", ends[::-1])):
            name = f"{link['name']}.{side}"
            stages = merge_changes(spec["graph"], name, link[side])
            directions[name] = Direction(name, start, end, stages, [[] for _ in stages], [None] * len(stages))
    node_buffers = {
        node["name"]: Direction(node["name"], node["name"], node["name"], [_buffer_stage(node)], [[]], [None])
        for node in spec["graph"]["nodes"]
        if node.get("store_and_forward_bytes") is not None
    }
    trace = Trace(spec, tables, directions, node_buffers, defaultdict(list), tables["packets"].to_dicts(), [])
    _read_steps(trace)
    _read_attempts(trace)
    for packet, crossings in trace.paths.items():
        last, direction = crossings[-1], trace.find_direction(crossings[-1].direction)
        end = None if direction is None else direction.end
        last.no_route = last.departure is not None and end != trace.sent[packet]["to_node"]
    return trace


def _buffer_stage(node: Spec) -> dict[str, Any]:
    """Return the stage that stands for the buffer of a node."""
    return {"kind": "hold", "bytes": node["store_and_forward_bytes"]}


def _read_steps(trace: Trace) -> None:
    """Assign every step to its direction and stage; report steps without one."""
    report = trace.findings.append
    user_of = {flow["name"]: flow.get("user", 0) for flow in trace.spec["flows"]}
    packets = [(packet["bytes"], user_of.get(packet["flow"], 0)) for packet in trace.sent]
    directions = {**trace.node_buffers, **trace.directions}
    inside: dict[tuple[str, int], tuple[int, Visit]] = {}
    previous = 0
    columns = ("step", "packet", "link", "stage", "at_ns", "dropped")
    for step, packet, name, stage, instant, cause in (
        trace.tables["packet_steps"].sort("step").select(columns).iter_rows()
    ):
        direction = directions.get(name)
        if direction is None or not 0 <= stage <= len(direction.stages) or not 0 <= packet < len(packets):
            report(Finding("known link", str(name), f"step {step}: there is no such stage or packet"))
            continue
        if instant < previous:
            report(
                Finding(
                    "time order",
                    name,
                    f"packet {packet} made a step at {instant} ns, after one at {previous} ns",
                )
            )
        previous = instant
        current, visit = inside.pop((name, packet), (-1, None))
        if stage != current + (not cause):
            text = f"packet {packet} was in stage {current}, and at {instant} ns in stage {stage}"
            report(Finding("stage order", name, text))
        if visit is None:
            crossing = Crossing(name, packet, instant)
            direction.crossings.append(crossing)
            trace.paths[packet].append(crossing)
        else:
            crossing = trace.paths[packet][-1]
        if cause:
            crossing.dropped, crossing.cause = instant, cause
            if visit is not None:
                visit.dropped, visit.cause = instant, cause
            continue
        if visit is not None:
            visit.departure, visit.departure_step = instant, step
        if stage == len(direction.stages):
            crossing.departure = instant
        else:
            size, user = packets[packet]
            visit = Visit(packet, size, instant, user=user)
            direction.visits[stage].append(visit)
            inside[name, packet] = stage, visit


def _read_attempts(trace: Trace) -> None:
    """Assign every attempt to its direction and stage; report attempts without one."""
    if "radio_attempts" not in trace.tables:
        return
    for direction in trace.directions.values():
        direction.attempts = [[] for _ in direction.stages]
    columns = ("packet", "link", "stage", "user", "attempt", "copy", "begin_ns", "end_ns")
    for packet, name, stage, user, attempt, copy, begin, end in (
        trace.tables["radio_attempts"]
        .select(columns)
        .sort("begin_ns", "end_ns", maintain_order=True)
        .iter_rows()
    ):
        place = trace.directions.get(name)
        attempts = place.attempts[stage] if place is not None and 0 <= stage < len(place.stages) else None
        if attempts is None or not 0 <= packet < len(trace.sent) or end < begin:
            text = f"attempt {attempt} at packet {packet} from {begin} to {end} ns: no such stage, packet or time"
            trace.findings.append(Finding("known link", str(name), text))
            continue
        attempts.append(Attempt(packet, user, attempt, bool(copy), begin, end))
