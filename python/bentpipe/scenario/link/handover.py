"""Hand-overs in a scenario: ``[[path.handover]]`` and ``[[graph.handover]]``, with units in types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import (
    DurationText,
    Name,
    PositiveText,
    ProbabilityText,
    QueueText,
    RateText,
    Table,
    merge_tables,
    text_schema,
)
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.quantities import Duration

__all__ = ["DirectionUpdate", "GraphHandover", "Handover", "PathHandover", "check_handovers"]


class DirectionUpdate(Table):
    """What a direction has from a hand-over on; what it does not say stays."""

    rate: RateText | None = None
    queue: QueueText | None = None
    delay: DurationText | None = None
    loss: ProbabilityText | None = None


_HINTS = {
    key: f'no key "{key}" here: it belongs to a direction; did you mean "both = {{ {key} = ... }}"?'
    for key in ("rate", "queue", "loss")
}


class Handover(Table):
    """What changes together at one instant: delay, rate, queue and loss of a link, and what is in flight on it."""

    hints: ClassVar[Mapping[str, str]] = _HINTS
    name: Name | None = None
    at: Annotated[
        Duration | Literal["orbit"],
        PlainValidator(lambda found: "orbit" if found == "orbit" else Duration.parse(found)),
        text_schema("15 s", 'a duration, or "orbit": whenever the way of [orbit] changes'),
    ]
    every: PositiveText | None = None
    gap: PositiveText | None = None
    delay: DurationText | None = None
    up: DirectionUpdate | None = None
    down: DirectionUpdate | None = None
    both: DirectionUpdate | None = None
    in_flight: Literal["in-order", "overtaken", "lost"] | None = None
    waiting: Literal["kept", "lost", "held"] = "kept"

    @property
    def link(self) -> str:
        """The link that is handed over to."""
        raise NotImplementedError

    @property
    def leaves(self) -> str:
        """The link that is handed over from: what is in flight on it meets the hand-over."""
        return self.link

    def toward(self, side: Literal["up", "down"]) -> DirectionUpdate:
        """One direction whole: its own keys over ``both`` over ``delay``."""
        whole = (self.up if side == "up" else self.down) or DirectionUpdate()
        if self.both is not None:
            whole = merge_tables(whole, self.both)
        if self.delay is not None:
            whole = merge_tables(whole, DirectionUpdate().model_copy(update={"delay": self.delay}))
        return whole

    def instants(self, duration_ns: int) -> Iterator[int]:
        """When it happens in a run of this length; those of an orbit are not known here."""
        if not isinstance(self.at, Duration):
            return
        at = self.at.ns
        while at < duration_ns:
            yield at
            if self.every is None:
                return
            at += self.every.ns

    @model_validator(mode="after")
    def _shorter(self) -> Handover:
        if self.at == "orbit" and self.every is not None:
            raise ValueError('found every beside at = "orbit", which says when; expected none')
        if self.waiting == "held" and self.gap is None:
            raise ValueError(
                'found waiting = "held" without a gap, at whose end what waits would be served again'
            )
        if self.gap is not None and self.every is not None and self.gap.ns >= self.every.ns:
            raise ValueError(f"found a gap of {self.gap} every {self.every}, expected a shorter one")
        return self


class PathHandover(Handover):
    """Of a segment."""

    segment: Name

    @property
    def link(self) -> str:
        """The segment."""
        return self.segment

    @model_validator(mode="after")
    def _something(self) -> PathHandover:
        silent = {"name", "at", "every", "segment", "waiting"}
        if not self.model_fields_set - silent and self.waiting == "kept":
            raise ValueError(
                "found a hand-over that changes nothing, expected at least one of delay, up, down, both, in_flight, gap"
            )
        return self


class GraphHandover(Handover):
    """From one link to another, or of one."""

    to: Name
    replaces: Name | None = None

    @property
    def link(self) -> str:
        """The link that is in use from now on."""
        return self.to

    @property
    def leaves(self) -> str:
        """The link that is not, or the same."""
        return self.replaces or self.to

    @model_validator(mode="after")
    def _two(self) -> GraphHandover:
        if self.replaces == self.to:
            raise ValueError(f'found to and replaces "{self.to}", expected two links, or no replaces')
        return self


def check_handovers(
    handovers: Sequence[Handover], links: Sequence[str], what: str, others: Sequence[str]
) -> None:
    """Links exist, names are free. Raises a scenario error at the key."""
    names = [one.name for one in handovers]
    for number, one in enumerate(handovers):
        at = one.name or f"handover[{number + 1}]"
        for key in ("segment", "to", "replaces"):
            found = getattr(one, key, None)
            if found is not None and found not in links:
                _refuse(unknown_name(found, links, what), f"{at}.{key}")
        if one.name is not None and names.count(one.name) > 1:
            _refuse(f'two hand-overs are called "{one.name}", expected a name for each', at)
        if one.name in (*links, *others):
            _refuse(f'a hand-over and something else are called "{one.name}", expected a name for each', at)


def _refuse(error: str, at: str) -> None:
    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": at})
