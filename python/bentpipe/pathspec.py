"""The path of a scenario: segments, links and what packets meet on them, with units in types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bentpipe.problems import unknown_word
from bentpipe.units import Duration, Probability, QueueSize, Rate, Size, WindowSize


def described(example: str, meaning: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], "description": meaning})


DurationText = Annotated[Duration, PlainValidator(Duration.parse), described("250 ms", "a duration")]
RateText = Annotated[Rate, PlainValidator(Rate.parse), described("10 Mbit/s", "a rate above 0")]
SizeText = Annotated[Size, PlainValidator(Size.parse), described("5.3 MB", "a number of bytes")]
ChanceText = Annotated[Probability, PlainValidator(Probability.parse), described("0.01 %", "a probability")]
QueueText = Annotated[QueueSize, PlainValidator(QueueSize.parse), described("1 BDP", "the bound of a queue")]
WindowText = Annotated[WindowSize, PlainValidator(WindowSize.parse), described("10 packets", "a window")]


def positive(found: object) -> Duration:
    value = Duration.parse(found)
    if value.ns == 0:
        raise ValueError(f'found {found!r}, expected a duration above 0 such as "10 s"'.replace("'", '"'))
    return value


PositiveText = Annotated[Duration, PlainValidator(positive), described("10 s", "a duration above 0")]


@dataclass(frozen=True)
class as_table:  # noqa: N801 - used like a function, in annotations
    """A bare text or number stands for a table with that one key."""

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Widens before the table is read."""
        return core_schema.no_info_before_validator_function(self._widen, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Either form."""
        return {"anyOf": [{"type": ["string", "number"]}, handler(schema)]}

    def _widen(self, found: object) -> object:
        return found if isinstance(found, (Mapping, BaseModel)) else {self.key: found}


def only_one(table: BaseModel, keys: tuple[str, ...], what: str) -> None:
    given = [key for key in keys if getattr(table, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise ValueError(f"found {found}, expected exactly one of {', '.join(keys)} for {what}")


class Table(BaseModel):
    """A table of the scenario; unknown keys are refused with the nearest right one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    hints: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, found: object) -> object:
        if isinstance(found, Mapping):
            words = [field.alias or name for name, field in cls.model_fields.items()]
            for key in found:
                if key not in words:
                    error = cls.hints.get(str(key)) or unknown_word(str(key), words)
                    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": str(key)})
        return found


class Delay(Table):
    """One-way delay: constant (a bare duration), or over time from a CSV file (``time_s,delay_ms``)."""

    constant: DurationText | None = None
    trace: StrictStr | None = None
    interpolation: Literal["step", "linear"] = "step"
    repeat: PositiveText | None = None
    reorder: StrictBool = False

    @model_validator(mode="after")
    def _one(self) -> Delay:
        only_one(self, ("constant", "trace"), "a delay")
        return self


class LinkRate(Table):
    """Rate: constant (a bare rate), or over time from a CSV file (``time_s,rate_Mbit_s``)."""

    constant: RateText | None = None
    trace: StrictStr | None = None

    @model_validator(mode="after")
    def _one(self) -> LinkRate:
        only_one(self, ("constant", "trace"), "a rate")
        return self


DelayOrText = Annotated[Delay, as_table("constant")]
RateOrText = Annotated[LinkRate, as_table("constant")]


class GilbertElliott(Table):
    """Two states with one transition chance a packet (Gilbert 1960, Elliott 1963)."""

    good_to_bad: ChanceText
    bad_to_good: ChanceText
    loss_good: ChanceText = Probability(0.0)
    loss_bad: ChanceText = Probability(1.0)


class BurstLoss(Table):
    """Everything is lost for ``length`` at the start of every ``every``, from ``offset`` on."""

    every: PositiveText
    length: PositiveText
    offset: DurationText = Duration(0)

    @model_validator(mode="after")
    def _shorter(self) -> BurstLoss:
        if self.length.ns >= self.every.ns:
            raise ValueError(f"found a burst of {self.length} every {self.every}, expected a shorter one")
        return self


class Loss(Table):
    """Loss of packets: one of the keys. A bare percentage is ``probability``."""

    probability: ChanceText | None = None
    gilbert_elliott: GilbertElliott | None = None
    burst: BurstLoss | None = None
    trace: StrictStr | None = None

    @model_validator(mode="after")
    def _one(self) -> Loss:
        only_one(self, ("probability", "gilbert_elliott", "burst", "trace"), "a loss")
        return self


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
        only_one(self, ("uniform", "normal", "exponential"), "a jitter")
        return self


class Reorder(Table):
    """A packet is held back by ``hold`` with this probability, so that later ones overtake it."""

    probability: ChanceText
    hold: PositiveText


class Outage(Table):
    """Nothing passes from ``at`` on for ``length``."""

    at: DurationText
    length: PositiveText


class Outages(Table):
    """Outages, in order of time. A bare list is ``windows``."""

    windows: list[Outage] = Field(min_length=1)
    repeat: PositiveText | None = None
    hold: StrictBool = False

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
    loss: ChanceText | None = None

    @model_validator(mode="after")
    def _something(self) -> Change:
        if self.rate is None and self.delay is None and self.loss is None:
            raise ValueError("found a change of nothing, expected at least one of rate, delay, loss")
        return self


class Aqm(Table):
    """A queue discipline. A bare word is ``name``.

    Target 5 ms and interval 100 ms are RFC 8289's (sections 4.3, 4.2); 1024 queues and a quantum of
    1514 bytes are RFC 8290's (sections 5.2.5, 5.2.4). ECN is on for FQ-CoDel and off for CoDel, as in Linux.
    """

    name: Literal["drop-tail", "codel", "fq-codel"]
    target: PositiveText = Duration(5_000_000)
    interval: PositiveText = Duration(100_000_000)
    ecn: StrictBool | None = None
    queues: Annotated[StrictInt, Field(ge=1, le=65536)] = 1024
    quantum: SizeText = Size(1514)


LossOrText = Annotated[Loss, as_table("probability")]
AqmOrWord = Annotated[Aqm, as_table("name")]


def _windows(found: object) -> object:
    return {"windows": found} if isinstance(found, list) else found


class Direction(Table):
    """One direction of a segment: what packets meet, and how long they take."""

    rate: RateOrText | None = None
    queue: QueueText | None = None
    aqm: AqmOrWord | None = None
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
        merged = {name: getattr(other, name) for name in other.model_fields_set}
        merged |= {name: getattr(self, name) for name in self.model_fields_set}
        for one, rival in (("rate", "trace"), ("trace", "rate")):
            if one in self.model_fields_set and rival not in self.model_fields_set:
                merged.pop(rival, None)
        return Direction.model_construct(_fields_set=set(merged), **merged)


_DIRECTION_HINT = {
    key: f'no key "{key}" here: it belongs to a direction; did you mean "both = {{ {key} = ... }}"?'
    for key in (
        "rate",
        "queue",
        "aqm",
        "loss",
        "loss_place",
        "jitter",
        "reorder",
        "outages",
        "changes",
        "netem",
    )
}


class Access(Table):
    """Two directions between two nodes; rates and delays are one-way."""

    hints: ClassVar[Mapping[str, str]] = _DIRECTION_HINT
    delay: DelayOrText | None = None
    up: Direction | None = None
    down: Direction | None = None
    both: Direction | None = None

    def toward(self, side: Literal["up", "down"]) -> Direction:
        """One direction whole: its own keys over ``both`` over the segment's delay."""
        own = (self.up if side == "up" else self.down) or Direction.model_construct(_fields_set=set())
        whole = own.over(self.both)
        if self.delay is not None:
            whole = whole.over(Direction.model_construct(_fields_set={"delay"}, delay=self.delay))
        return whole


NAME = r"[A-Za-z][A-Za-z0-9_-]*"


def _name(found: object) -> str:
    if not isinstance(found, str) or not re.fullmatch(NAME, found):
        raise ValueError(f'found "{found}", expected a name: a letter, then letters, digits, _ or -')
    return found


Name = Annotated[str, PlainValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{NAME}$"})]


class Segment(Access):
    """A part of the path, client to server."""

    name: Name


class Path(Table):
    """The path all flows share: segments in order from client to server.

    ``preset`` stands for segments in front of them; the plan has put those in before a path is read.
    """

    preset: StrictStr | None = None
    segment: list[Segment] = Field(default_factory=list)

    @model_validator(mode="after")
    def _not_empty(self) -> Path:
        if not self.segment and self.preset is None:
            raise ValueError("expected at least one [[path.segment]], or a preset")
        return self


class Node(Table):
    """A node of a graph. A bare name is a host."""

    name: Name
    kind: Literal["host", "router"] = "host"


class Link(Segment):
    """A link of a graph; up goes from ``client_side`` to ``server_side``."""

    client_side: Name
    server_side: Name


class Graph(Table):
    """The general form of a path: nodes, and links between them."""

    node: list[Annotated[Node, as_table("name")]] = Field(min_length=2)
    link: list[Link] = Field(min_length=1)

    @model_validator(mode="after")
    def _ends(self) -> Graph:
        names = [node.name for node in self.node]
        for link in self.link:
            if link.client_side == link.server_side:
                raise ValueError(f"link {link.name}: both sides are {link.client_side}, expected two nodes")
            for end in (link.client_side, link.server_side):
                if end not in names:
                    raise ValueError(f"link {link.name}: {unknown_word(end, names, 'node')}")
        return self
