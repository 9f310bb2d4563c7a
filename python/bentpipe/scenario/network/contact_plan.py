"""A contact plan as TOML or JSON: who can send to whom, when, how fast, and how far apart they are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt, StrictStr, WithJsonSchema

from bentpipe.scenario.base import DurationText, RateText, Table, text_schema
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.network.constellations import Instant, InstantText, parse_instant
from bentpipe.scenario.quantities import Duration, UnitError

__all__ = ["ContactPlan", "NextHop", "PlannedContact", "PlannedRange"]

FOREVER_NS = 2**63 - 1
"""The end of a range that has none."""


def node_name(found: object) -> str:
    """A node: a number, or a name without blanks. Raises ValueError."""
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return str(found)
    if isinstance(found, str) and found.isprintable() and found and not any(map(str.isspace, found)):
        return found
    shown = f'"{found}"' if isinstance(found, str) else found
    raise ValueError(f"found {shown}, expected a node's number, or its name without blanks")


def plan_time(found: object) -> Duration | Instant:
    """Since the plan's zero, or an instant of UTC. Raises ValueError."""
    if isinstance(found, str) and found[:4].isdigit() and "T" in found:
        return parse_instant(found)
    try:
        return Duration.parse(found)
    except UnitError as error:
        raise ValueError(f'{error}; or an instant such as "2026-11-22T12:00:00Z"') from None


_NODE_SCHEMA = WithJsonSchema(
    {"type": ["string", "integer"], "examples": ["6"], "description": "a node: its number, or its name"}
)
NodeName = Annotated[str, PlainValidator(node_name), _NODE_SCHEMA]
TimeText = Annotated[
    Duration | Instant,
    PlainValidator(plan_time),
    text_schema("10 min", "since the plan's zero, or an instant of UTC"),
]


class PlannedContact(Table):
    """A time in which ``from`` can send to ``to``; with ``both`` the other way too.

    ``owlt``, the one-way light time, is a range of the contact's own.
    """

    from_: NodeName = Field(alias="from")
    to: NodeName
    start: TimeText = Duration(0)
    stop: TimeText
    rate: RateText
    owlt: DurationText | None = None
    confidence: StrictFloat | StrictInt = Field(default=1.0, gt=0, le=1)
    both: StrictBool = False


class PlannedRange(Table):
    """The one-way light time between two nodes for some time: without ``stop`` from then on.

    It holds both ways wherever the other one has no range of its own, unless ``one_way``.
    """

    from_: NodeName = Field(alias="from")
    to: NodeName
    start: TimeText = Duration(0)
    stop: TimeText | None = None
    owlt: DurationText
    one_way: StrictBool = False


class NextHop(Table):
    """A next hop set by hand: at ``at``, bundles for ``to`` (without one: those that no other way is known for)."""

    at: NodeName
    to: NodeName | None = None
    via: NodeName


class ContactPlan(Table):
    """A contact plan. Its zero is ``epoch``; without one, times are since whatever begins."""

    title: StrictStr = ""
    epoch: InstantText | None = None
    contact: list[PlannedContact] = Field(default_factory=list)
    range: list[PlannedRange] = Field(default_factory=list)
    route: list[NextHop] = Field(default_factory=list)

    def since(self, time: Duration | Instant, where: str) -> int:
        """Nanoseconds since the plan's zero.

        Raises:
            ScenarioError: an instant before it, or of a plan without one.
        """
        if isinstance(time, Duration):
            return time.ns
        if self.epoch is None:
            raise ScenarioError([(where, f'found an instant, which needs the plan\'s epoch = "{time}"')])
        found = time.unix_ns - self.epoch.unix_ns
        if found < 0:
            raise ScenarioError([(where, f"found {time}, which is before the plan's epoch, {self.epoch}")])
        return found

    def spec(self, lines: dict[tuple[str, int], str] | None = None) -> dict[str, Any]:
        """The plan in the engine's words (``PlanSpec`` of ``crates/contacts``); ``lines`` says where members are.

        Raises:
            ScenarioError: an instant before the epoch.
        """
        contacts: list[dict[str, Any]] = []
        ranges: list[dict[str, Any]] = []
        for number, one in enumerate(self.contact):
            where = f"contact[{number + 1}]"
            place = (lines or {}).get(("contact", number), where)
            times = {
                "start_ns": self.since(one.start, f"{where}.start"),
                "stop_ns": self.since(one.stop, f"{where}.stop"),
            }
            ends = [(one.from_, one.to), (one.to, one.from_)]
            for start, end in ends if one.both else ends[:1]:
                contacts.append(
                    {"from": start, "to": end, **times, "rate_bit_s": one.rate.bit_s,
                     "confidence": float(one.confidence), "at": place}
                )  # fmt: skip
                if one.owlt is not None:
                    ranges.append(_range(start, end, times, one.owlt, place, implies=False))
        for number, held in enumerate(self.range):
            where = f"range[{number + 1}]"
            place = (lines or {}).get(("range", number), where)
            stop = FOREVER_NS if held.stop is None else self.since(held.stop, f"{where}.stop")
            times = {"start_ns": self.since(held.start, f"{where}.start"), "stop_ns": stop}
            ranges.append(_range(held.from_, held.to, times, held.owlt, place, implies=not held.one_way))
        epoch = None if self.epoch is None else self.epoch.unix_ns // 10**9
        nodes = dict.fromkeys(name for hop in self.route for name in (hop.at, hop.to, hop.via) if name)
        return {"epoch_unix_s": epoch, "nodes": list(nodes), "contacts": contacts, "ranges": ranges}


def _range(
    start: str, end: str, times: dict[str, int], owlt: Duration, place: str, *, implies: bool
) -> dict[str, Any]:
    return {"from": start, "to": end, **times, "owlt_ns": owlt.ns, "implies_reverse": implies, "at": place}
