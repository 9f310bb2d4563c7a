"""Contact plan as TOML or JSON: contacts with their rates, and one-way light times between nodes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt, StrictStr, WithJsonSchema

from bentpipe.scenario.base import DurationText, RateText, Table, text_schema
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.network.constellations import Instant, InstantText, parse_instant
from bentpipe.scenario.quantities import Duration, UnitError

__all__ = ["ContactPlan", "NextHop", "PlannedContact", "PlannedRange"]

FOREVER_NS = 2**63 - 1
"""End of a range without ``stop``."""


def parse_node_name(found: object) -> str:
    """Return the name of a node: a number, or a name without blanks. Raises ValueError."""
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return str(found)
    if isinstance(found, str) and found.isprintable() and found and not any(map(str.isspace, found)):
        return found
    shown = f'"{found}"' if isinstance(found, str) else found
    raise ValueError(f"found {shown}, expected a node's number, or its name without blanks")


def parse_plan_time(found: object) -> Duration | Instant:
    """Return a time: the duration since the epoch of the plan, or an instant of UTC. Raises ValueError."""
    if isinstance(found, str) and found[:4].isdigit() and "T" in found:
        return parse_instant(found)
    try:
        return Duration.parse(found)
    except UnitError as error:
        raise ValueError(f'{error}; or an instant such as "2026-11-22T12:00:00Z"') from None


_NODE_SCHEMA = WithJsonSchema(
    {"type": ["string", "integer"], "examples": ["6"], "description": "a node: its number, or its name"}
)
NodeName = Annotated[str, PlainValidator(parse_node_name), _NODE_SCHEMA]
TimeText = Annotated[
    Duration | Instant,
    PlainValidator(parse_plan_time),
    text_schema("10 min", "since the epoch of the plan, or an instant of UTC"),
]


class PlannedContact(Table):
    """Interval in which ``from`` can send to ``to``; with ``both`` also in the other direction.

    ``owlt``, the one-way light time, is a range of this contact.
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
    """One-way light time between two nodes in an interval, which has no end without ``stop``.

    It applies in both directions unless ``one_way``, or unless the other direction has its own range.
    """

    from_: NodeName = Field(alias="from")
    to: NodeName
    start: TimeText = Duration(0)
    stop: TimeText | None = None
    owlt: DurationText
    one_way: StrictBool = False


class NextHop(Table):
    """Static next hop ``via`` of node ``at`` for bundles to ``to``, or without ``to`` the default route."""

    at: NodeName
    to: NodeName | None = None
    via: NodeName


class ContactPlan(Table):
    """Contact plan. Its times are relative to ``epoch``, or without one to the start of the run."""

    title: StrictStr = ""
    epoch: InstantText | None = None
    contact: list[PlannedContact] = Field(default_factory=list)
    range: list[PlannedRange] = Field(default_factory=list)
    route: list[NextHop] = Field(default_factory=list)

    def time_ns(self, time: Duration | Instant, key: str) -> int:
        """Return a time in nanoseconds since the epoch of the plan.

        Args:
            time: the duration since the epoch, or an instant.
            key: the key of the time, for the message.

        Raises:
            ScenarioError: an instant before the epoch, or in a plan without epoch.
        """
        if isinstance(time, Duration):
            return time.ns
        if self.epoch is None:
            raise ScenarioError([(key, f'found an instant, which needs the plan\'s epoch = "{time}"')])
        elapsed_ns = time.unix_ns - self.epoch.unix_ns
        if elapsed_ns < 0:
            raise ScenarioError([(key, f"found {time}, which is before the plan's epoch, {self.epoch}")])
        return elapsed_ns

    def spec(self, lines: dict[tuple[str, int], str] | None = None) -> dict[str, Any]:
        """Return the plan for the engine (``PlanSpec`` of ``crates/contacts``).

        Args:
            lines: the location of each member, by its list and index; by default its key.

        Raises:
            ScenarioError: an instant before the epoch.
        """
        contacts: list[dict[str, Any]] = []
        ranges: list[dict[str, Any]] = []
        for number, contact in enumerate(self.contact):
            key = f"contact[{number + 1}]"
            location = (lines or {}).get(("contact", number), key)
            times = {
                "start_ns": self.time_ns(contact.start, f"{key}.start"),
                "stop_ns": self.time_ns(contact.stop, f"{key}.stop"),
            }
            ends = [(contact.from_, contact.to), (contact.to, contact.from_)]
            for start, end in ends if contact.both else ends[:1]:
                contacts.append(
                    {"from": start, "to": end, **times, "rate_bit_s": contact.rate.bit_s,
                     "confidence": float(contact.confidence), "declared_at": location}
                )  # fmt: skip
                if contact.owlt is not None:
                    ranges.append(_range_spec(start, end, times, contact.owlt, location, implies=False))
        for number, interval in enumerate(self.range):
            key = f"range[{number + 1}]"
            location = (lines or {}).get(("range", number), key)
            stop = FOREVER_NS if interval.stop is None else self.time_ns(interval.stop, f"{key}.stop")
            times = {"start_ns": self.time_ns(interval.start, f"{key}.start"), "stop_ns": stop}
            ranges.append(
                _range_spec(
                    interval.from_, interval.to, times, interval.owlt, location, implies=not interval.one_way
                )
            )
        epoch = None if self.epoch is None else self.epoch.unix_ns // 10**9
        nodes = dict.fromkeys(name for hop in self.route for name in (hop.at, hop.to, hop.via) if name)
        return {"epoch_unix_s": epoch, "nodes": list(nodes), "contacts": contacts, "ranges": ranges}


def _range_spec(
    start: str, end: str, times: dict[str, int], owlt: Duration, location: str, *, implies: bool
) -> dict[str, Any]:
    return {
        "from": start,
        "to": end,
        **times,
        "owlt_ns": owlt.ns,
        "implies_reverse": implies,
        "declared_at": location,
    }
