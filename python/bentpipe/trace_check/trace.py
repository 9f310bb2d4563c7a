"""A traced run as it lies in its store: what was asked for (``spec.json``) and every step that a packet made.

Instants are whole nanoseconds since the start of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.trace_check.handovers import Spec, changed

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Attempt", "Crossing", "Finding", "Line", "Rule", "Trace", "Visit", "load", "nanoseconds"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a run that cannot be."""

    rule: str
    """Which rule is broken, in a word or two."""
    place: str
    """A link's direction, a flow, or the run."""
    text: str
    """What was found, and what was expected."""


@dataclass(slots=True)
class Visit:
    """A packet in one stage."""

    packet: int
    bytes: int
    came: int
    left: int | None = None
    left_step: int = -1
    """Tells who was first of those that left at one instant."""
    dropped: int | None = None
    cause: str = ""
    user: int = 0
    """Whose it is."""

    @property
    def gone(self) -> int | None:
        """When it was not there any more."""
        return self.left if self.left is not None else self.dropped


@dataclass(slots=True)
class Crossing:
    """A packet on one link."""

    line: str
    packet: int
    entered: int
    left: int | None = None
    dropped: int | None = None
    cause: str = ""
    stranded: bool = False
    """It left, and from the node at the link's end no way led on."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A packet on the air of a radio link."""

    packet: int
    user: int
    attempt: int
    """Which one at it, from 1."""
    copy: bool
    """The packet had left already."""
    begin: int
    end: int


@dataclass
class Line:
    """One direction of a link: what it is made of, and who was in it."""

    name: str
    start: str
    end: str
    stages: list[dict[str, Any]]
    visits: list[list[Visit]]
    """By stage, in order of arrival."""
    attempts: list[list[Attempt] | None]
    """By stage, in the order in which they began; None: the run has no table of them."""
    crossings: list[Crossing] = field(default_factory=list)


Rule = Callable[[Line, Spec, Sequence[Visit], int], Iterator[Finding]]
"""What cannot be in a stage of a line, of its specification, its visits in order of arrival, and the run's end."""


@dataclass
class Trace:
    """A run."""

    spec: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    lines: dict[str, Line]
    holds: dict[str, Line]
    """Nodes that hold packets, each as a line from itself to itself with one stage."""
    ways: dict[int, list[Crossing]]
    """Of each packet the links it crossed, in order."""
    sent: list[dict[str, Any]]
    """The table of packets."""
    findings: list[Finding]
    """What is wrong with the steps themselves."""

    @property
    def end(self) -> int:
        """The end of the run."""
        return int(self.spec["duration_ns"])

    def place(self, name: str) -> Line | None:
        """A line, or a node that holds."""
        return self.lines.get(name) or self.holds.get(name)


def nanoseconds(seconds: float | None) -> int | None:
    """The nearest whole nanosecond."""
    return None if seconds is None else round(seconds * 1e9)


def load(spec: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> Trace:
    """The run of ``spec``; ``tables`` are its own rows, ``stages`` and ``packets`` among them."""
    lines = {}
    for link in spec["graph"]["links"]:
        ends = (link["client_side"], link["server_side"])
        for way, (start, end) in (("up", ends), ("down", ends[::-1])):
            name = f"{link['name']}.{way}"
            stages = changed(spec["graph"], name, link[way])
            lines[name] = Line(name, start, end, stages, [[] for _ in stages], [None] * len(stages))
    holds = {
        node["name"]: Line(node["name"], node["name"], node["name"], [_stage(node)], [[]], [None])
        for node in spec["graph"]["nodes"]
        if node.get("hold_bytes") is not None
    }
    trace = Trace(spec, tables, lines, holds, defaultdict(list), tables["packets"].to_dicts(), [])
    _read(trace)
    _read_attempts(trace)
    for packet, crossings in trace.ways.items():
        last, place = crossings[-1], trace.place(crossings[-1].line)
        end = None if place is None else place.end
        last.stranded = last.left is not None and end != trace.sent[packet]["to_node"]
    return trace


def _stage(node: Spec) -> dict[str, Any]:
    return {"kind": "hold", "bytes": node["hold_bytes"]}


def _read(trace: Trace) -> None:
    """Puts every step in its place, and tells of those that have none."""
    say = trace.findings.append
    whose = {flow["name"]: flow.get("user", 0) for flow in trace.spec["flows"]}
    packets = [(packet["bytes"], whose.get(packet["flow"], 0)) for packet in trace.sent]
    places = {**trace.holds, **trace.lines}
    inside: dict[tuple[str, int], tuple[int, Visit]] = {}
    before = 0
    columns = ("step", "packet", "link", "stage", "at_ns", "dropped")
    for step, packet, name, stage, at, cause in (
        trace.tables["stages"].sort("step").select(columns).iter_rows()
    ):
        line = places.get(name)
        if line is None or not 0 <= stage <= len(line.stages) or not 0 <= packet < len(packets):
            say(
                Finding("a place for everything", str(name), f"step {step}: there is no such stage or packet")
            )
            continue
        if at < before:
            say(
                Finding(
                    "time passes", name, f"packet {packet} made a step at {at} ns, after one at {before} ns"
                )
            )
        before = at
        place, here = inside.pop((name, packet), (-1, None))
        if stage != place + (not cause):
            text = f"packet {packet} was in stage {place}, and at {at} ns in stage {stage}"
            say(Finding("one stage after the other", name, text))
        if here is None:
            crossing = Crossing(name, packet, at)
            line.crossings.append(crossing)
            trace.ways[packet].append(crossing)
        else:
            crossing = trace.ways[packet][-1]
        if cause:
            crossing.dropped, crossing.cause = at, cause
            if here is not None:
                here.dropped, here.cause = at, cause
            continue
        if here is not None:
            here.left, here.left_step = at, step
        if stage == len(line.stages):
            crossing.left = at
        else:
            size, user = packets[packet]
            visit = Visit(packet, size, at, user=user)
            line.visits[stage].append(visit)
            inside[name, packet] = stage, visit


def _read_attempts(trace: Trace) -> None:
    """Puts every attempt in its place, and tells of those that have none."""
    if "attempts" not in trace.tables:
        return
    for line in trace.lines.values():
        line.attempts = [[] for _ in line.stages]
    columns = ("packet", "link", "stage", "user", "attempt", "copy", "begin_ns", "end_ns")
    for packet, name, stage, user, attempt, copy, begin, end in (
        trace.tables["attempts"].select(columns).sort("begin_ns", "end_ns", maintain_order=True).iter_rows()
    ):
        place = trace.lines.get(name)
        tried = place.attempts[stage] if place is not None and 0 <= stage < len(place.stages) else None
        if tried is None or not 0 <= packet < len(trace.sent) or end < begin:
            text = f"attempt {attempt} at packet {packet} from {begin} to {end} ns: no such stage, packet or time"
            trace.findings.append(Finding("a place for everything", str(name), text))
            continue
        tried.append(Attempt(packet, user, attempt, bool(copy), begin, end))
