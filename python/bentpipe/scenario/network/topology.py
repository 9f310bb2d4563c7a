"""The path of a scenario: segments, links and what packets meet on them, with units in types."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainValidator, StrictBool, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import (
    DurationText,
    Name,
    PositiveText,
    ProbabilityText,
    QueueText,
    RateText,
    Table,
    as_table,
    construct_table,
    merge_tables,
    require_one,
    text_schema,
)
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.flow.proxy import Proxy, ProxyKeys, check_proxies, places, pool_without_end
from bentpipe.scenario.link.acm import AdaptiveCoding
from bentpipe.scenario.link.arq import LinkLayer, ReorderingBuffer
from bentpipe.scenario.link.channel import Channel
from bentpipe.scenario.link.generated import Aqm, Loss
from bentpipe.scenario.link.handover import GraphHandover, PathHandover, check_handovers
from bentpipe.scenario.link.nr import Nr
from bentpipe.scenario.link.reconfiguration import Reconfiguration
from bentpipe.scenario.link.scheduler import Scheduler
from bentpipe.scenario.quantities import Duration, Size


class Delay(Table):
    """One-way delay: constant (a bare duration), over time from a CSV file (``time_s,delay_ms``), or a leg of
    ``[orbit]``: up to its last satellite (``first``), or from there on (``last``)."""

    constant: DurationText | None = None
    trace: StrictStr | None = None
    orbit: Literal["first", "last"] | None = None
    interpolation: Literal["step", "linear"] = "step"
    repeat: PositiveText | None = None
    reorder: StrictBool = False

    @model_validator(mode="after")
    def _one(self) -> Delay:
        require_one(self, ("constant", "trace", "orbit"), "a delay")
        if self.orbit is not None:
            other = next((key for key in ("interpolation", "repeat") if key in self.model_fields_set), None)
            if other is not None:
                raise ValueError(f"found {other} beside a leg of [orbit], which has its own; expected none")
        return self


class LinkRate(Table):
    """Rate: constant (a bare rate), or over time from a CSV file (``time_s,rate_Mbit_s``)."""

    constant: RateText | None = None
    trace: StrictStr | None = None

    @model_validator(mode="after")
    def _one(self) -> LinkRate:
        require_one(self, ("constant", "trace"), "a rate")
        return self


DelayOrText = Annotated[Delay, as_table("constant")]
RateOrText = Annotated[LinkRate, as_table("constant")]


class NormalJitter(Table):
    """Normal distribution, cut off below 0."""

    mean: DurationText
    deviation: DurationText


class Jitter(Table):
    """Random extra delay of each packet: one distribution, and whether packets may overtake."""

    uniform: DurationText | None = None
    normal: NormalJitter | None = None
    exponential: DurationText | None = None
    reorder: StrictBool

    @model_validator(mode="after")
    def _one(self) -> Jitter:
        require_one(self, ("uniform", "normal", "exponential"), "a jitter")
        return self


class Reorder(Table):
    """A packet is held back by ``hold`` with this probability, so that later ones overtake it."""

    probability: ProbabilityText
    hold: PositiveText


class Outage(Table):
    """Nothing passes from ``at`` on for ``length``."""

    at: DurationText
    length: PositiveText


class Outages(Table):
    """Outages, in order of time. A bare list is ``windows``.

    ``place``: before the delay, so that what is in flight as one begins arrives, or behind it, so that it is lost.
    Where nothing is said it is behind the transmitter, which with ``netem`` has the delay in it.
    """

    windows: list[Outage] = Field(min_length=1)
    repeat: PositiveText | None = None
    hold: StrictBool = False
    place: Literal["before", "behind"] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Outages:
        end = 0
        for window in self.windows:
            if window.at.ns < end:
                raise ValueError(
                    f"time runs back: an outage at {window.at} starts before the one before it ends"
                )
            end = window.at.ns + window.length.ns
        if self.repeat is not None and end > self.repeat.ns:
            raise ValueError(
                f"found an outage until {Duration(end)}, expected none after repeat = {self.repeat}"
            )
        return self


class Change(Table):
    """From ``at`` on, another rate, delay or loss."""

    at: DurationText
    rate: RateText | None = None
    delay: DurationText | None = None
    loss: ProbabilityText | None = None

    @model_validator(mode="after")
    def _something(self) -> Change:
        if self.rate is None and self.delay is None and self.loss is None:
            raise ValueError("found a change of nothing, expected at least one of rate, delay, loss")
        return self


LossOrText = Annotated[Loss, as_table("probability")]
ReorderingOrNumber = Annotated[ReorderingBuffer, as_table("packets")]
AqmOrWord = Annotated[Aqm, as_table("name")]
SchedulerOrWord = Annotated[Scheduler, as_table("name")]


def _windows(found: object) -> object:
    return {"windows": found} if isinstance(found, list) else found


class Direction(Table):
    """One direction of a segment: what packets meet, and how long they take."""

    rate: RateOrText | None = None
    queue: QueueText | None = None
    aqm: AqmOrWord | None = None
    scheduler: SchedulerOrWord | None = None
    delay: DelayOrText | None = None
    loss: LossOrText | None = None
    loss_place: Literal["before", "after"] | None = None
    jitter: Jitter | None = None
    reorder: Reorder | None = None
    outages: (
        Annotated[
            Outages,
            BeforeValidator(_windows, json_schema_input_type=Outages | list[Outage]),
        ]
        | None
    ) = None
    changes: list[Change] | None = None
    trace: StrictStr | None = None
    netem: StrictBool | None = None
    slots: Reconfiguration | None = None
    channel: Channel | None = None
    acm: AdaptiveCoding | None = None
    link_layer: LinkLayer | None = None
    nr: Nr | None = None
    reordering_buffer: ReorderingOrNumber | None = None

    @model_validator(mode="after")
    def _changes_in_order(self) -> Direction:
        at = -1
        for change in self.changes or []:
            if change.at.ns <= at:
                raise ValueError(
                    f"changes: time runs back: {change.at} after {Duration(at)}, expected increasing times"
                )
            at = change.at.ns
        if self.rate is not None and self.trace is not None:
            raise ValueError("found rate and trace, expected one of them: a trace is the rate")
        return self

    def over(self, other: Direction | None) -> Direction:
        """This direction's keys, with those of ``other`` where this one is silent."""
        if other is None:
            return self
        whole = merge_tables(self, other)
        for one, rival in (("rate", "trace"), ("trace", "rate")):
            hidden = one in self.model_fields_set and rival not in self.model_fields_set
            if hidden and rival in whole.model_fields_set:
                whole = whole.model_copy(update={rival: None})
                whole.model_fields_set.discard(rival)
        return whole


_SILENT = construct_table(Direction)

_DIRECTION_HINT = {
    key: f'no key "{key}" here: it belongs to a direction; did you mean "both = {{ {key} = ... }}"?'
    for key in (
        "rate",
        "queue",
        "aqm",
        "scheduler",
        "loss",
        "loss_place",
        "jitter",
        "reorder",
        "outages",
        "changes",
        "netem",
        "slots",
        "channel",
        "acm",
        "link_layer",
        "nr",
        "reordering_buffer",
    )
}


def _hold(found: object) -> Size:
    size = Size.parse(found)
    if size.bytes == 0:
        raise ValueError(f'found {found!r}, expected a size above 0 such as "1 MB"'.replace("'", '"'))
    return size


HoldText = Annotated[Size, PlainValidator(_hold), text_schema("1 MB", "bytes that a node holds")]


class Access(Table):
    """Two directions between two nodes; rates and delays are one-way."""

    hints: ClassVar[Mapping[str, str]] = _DIRECTION_HINT
    delay: DelayOrText | None = None
    up: Direction | None = None
    down: Direction | None = None
    both: Direction | None = None

    def toward(self, side: Literal["up", "down"]) -> Direction:
        """One direction whole: its own keys over ``both`` over the segment's delay."""
        own = (self.up if side == "up" else self.down) or _SILENT
        whole = own.over(self.both)
        if self.delay is None or "delay" in whole.model_fields_set:
            return whole
        return whole.model_copy(update={"delay": self.delay})


class Segment(Access):
    """A part of the path, client to server. The nodes at its ends ``hold`` so many bytes while no way leads on."""

    name: Name
    hold: HoldText | None = None


class Contacts(Table):
    """Links are up while a contact plan has a contact between their nodes; a bare word is ``plan``.

    ``in_flight``: whether what is on its way as a contact ends arrives, or is lost.
    """

    plan: StrictStr
    in_flight: Literal["kept", "lost"] = "kept"


ContactsOrText = Annotated[Contacts, as_table("plan")]


class Path(Table):
    """The path all flows share: segments in order from client to server.

    ``preset`` stands for segments in front of them; the plan has put those in before a path is read.
    """

    preset: StrictStr | None = None
    segment: list[Segment] = Field(default_factory=list)
    proxy: list[Proxy] = Field(default_factory=list)
    handover: list[PathHandover] = Field(default_factory=list)
    contacts: ContactsOrText | None = None

    @model_validator(mode="before")
    @classmethod
    def _placed(cls, found: object) -> object:
        """A proxy says between which segments it stands."""
        lists = [found.get(key) if isinstance(found, Mapping) else None for key in ("segment", "proxy")]
        segments, proxies = (
            [one for one in many if isinstance(one, Mapping)] if isinstance(many, list) else []
            for many in lists
        )
        for index, proxy in enumerate(proxies):
            if "between" not in proxy:
                names = [name for one in segments if isinstance(name := one.get("name"), str)]
                error = f"missing, expected between = [...] with {places(names)}"
                at = f"{proxy.get('name', f'proxy[{index + 1}]')}.between"
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": at})
        return found

    @model_validator(mode="after")
    def _whole(self) -> Path:
        if not self.segment and self.preset is None:
            raise ValueError("expected at least one [[path.segment]], or a preset")
        names = [segment.name for segment in self.segment]
        check_proxies(self.proxy, names)
        check_handovers(self.handover, names, "segment", [proxy.name for proxy in self.proxy])
        for near, far in pairwise(self.segment):
            if near.hold is not None and far.hold is not None and near.hold != far.hold:
                error = f"found {far.hold} beside {near.hold} of {near.name}, expected one of the node between them"
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": f"{far.name}.hold"})
        return self


class Node(ProxyKeys):
    """A node of a graph. A bare name is a host; the keys of a proxy go with its kind."""

    name: Name
    kind: Literal["host", "router", "proxy"] = "host"
    hold: HoldText | None = None

    @property
    def role(self) -> Literal["host", "router", "proxy"]:
        """Its kind in the engine's words: a proxy with ``setup = "none"`` is a router."""
        return "router" if self.kind == "proxy" and not self.splits else self.kind

    @model_validator(mode="after")
    def _keys_of_a_proxy(self) -> Node:
        others = [key for key in ProxyKeys.model_fields if key in self.model_fields_set]
        if others and self.kind != "proxy":
            raise ValueError(f'found {others[0]} for a {self.kind}, expected it beside kind = "proxy"')
        return self


class Link(Access):
    """A link of a graph; up goes from ``client_side`` to ``server_side``."""

    name: Name
    client_side: Name
    server_side: Name
    in_use: StrictBool = True


class Graph(Table):
    """The general form of a path: nodes, and links between them."""

    node: list[Annotated[Node, as_table("name")]] = Field(min_length=2)
    link: list[Link] = Field(min_length=1)
    handover: list[GraphHandover] = Field(default_factory=list)
    contacts: ContactsOrText | None = None

    @model_validator(mode="after")
    def _ends(self) -> Graph:
        names = [node.name for node in self.node]
        for link in self.link:
            if link.client_side == link.server_side:
                raise ValueError(f"link {link.name}: both sides are {link.client_side}, expected two nodes")
            for end in (link.client_side, link.server_side):
                if end not in names:
                    raise ValueError(f"link {link.name}: {unknown_name(end, names, 'node')}")
        self._check_proxies()
        check_handovers(self.handover, [link.name for link in self.link], "link", names)
        used = {one.to for one in self.handover}
        for link in self.link:
            if not link.in_use and link.name not in used:
                error = "found false, and no hand-over leads to it; expected one, or true"
                raise PydanticCustomError(
                    "scenario", "{error}", {"error": error, "at": f"{link.name}.in_use"}
                )
        return self

    def _check_proxies(self) -> None:
        """Two nodes of one name, a proxy called like a link, a pool without a far end."""
        names = [node.name for node in self.node]
        proxies = [node.name for node in self.node if node.role == "proxy"]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f'two nodes are called "{twice}", expected a name for each')
        for node in self.node:
            if node.kind == "proxy" and node.name in [link.name for link in self.link]:
                raise ValueError(f'a proxy and a link are called "{node.name}", expected a name for each')
            if node.setup == "pooled" and not self._onward(node.name) & set(proxies):
                raise ValueError(pool_without_end(node.name))

    def _onward(self, node: str) -> set[str]:
        """Nodes that lie further on towards servers."""
        found: set[str] = set()
        frontier = {node}
        while frontier:
            frontier = {link.server_side for link in self.link if link.client_side in frontier} - found
            found |= frontier
        return found - {node}
