"""Handovers of a scenario: ``[[path.handover]]`` and ``[[graph.handover]]``."""

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
    """New values of a direction from a handover on; a missing key keeps its value."""

    rate: RateText | None = None
    queue: QueueText | None = None
    delay: DurationText | None = None
    loss: ProbabilityText | None = None


_HINTS = {
    key: f'no key "{key}" here: it belongs to a direction; did you mean "both = {{ {key} = ... }}"?'
    for key in ("rate", "queue", "loss")
}


class Handover(Table):
    """Simultaneous change of delay, rate, queue and loss of a link, with the treatment of its packets in flight."""

    hints: ClassVar[Mapping[str, str]] = _HINTS
    name: Name | None = None
    at: Annotated[
        Duration | Literal["orbit"],
        PlainValidator(lambda found: "orbit" if found == "orbit" else Duration.parse(found)),
        text_schema("15 s", 'a duration, or "orbit": whenever the route of [orbit] changes'),
    ]
    interval: PositiveText | None = None
    gap: PositiveText | None = None
    delay: DurationText | None = None
    up: DirectionUpdate | None = None
    down: DirectionUpdate | None = None
    both: DirectionUpdate | None = None
    in_flight: Literal["in-order", "reorder", "drop"] | None = None
    queued: Literal["keep", "drop", "hold"] = "keep"

    @property
    def link(self) -> str:
        """Link after the handover."""
        raise NotImplementedError

    @property
    def previous_link(self) -> str:
        """Link before the handover, with the packets in flight."""
        return self.link

    def resolve_direction(self, side: Literal["up", "down"]) -> DirectionUpdate:
        """Return the update of one direction: its keys over those of ``both`` over ``delay``."""
        update = (self.up if side == "up" else self.down) or DirectionUpdate()
        if self.both is not None:
            update = merge_tables(update, self.both)
        if self.delay is not None:
            update = merge_tables(update, DirectionUpdate().model_copy(update={"delay": self.delay}))
        return update

    def iter_times_ns(self, duration_ns: int) -> Iterator[int]:
        """Yield the times of the handover in a run of ``duration_ns``, in ns; none with ``at = "orbit"``."""
        if not isinstance(self.at, Duration):
            return
        at = self.at.ns
        while at < duration_ns:
            yield at
            if self.interval is None:
                return
            at += self.interval.ns

    @model_validator(mode="after")
    def _check_combination(self) -> Handover:
        if self.at == "orbit" and self.interval is not None:
            raise ValueError('found interval with at = "orbit", which determines the times; expected none')
        if self.queued == "hold" and self.gap is None:
            raise ValueError('found queued = "hold" without gap; requires gap')
        if self.gap is not None and self.interval is not None and self.gap.ns >= self.interval.ns:
            raise ValueError(
                f"found a gap of {self.gap} with interval = {self.interval}, expected a shorter gap"
            )
        return self


class PathHandover(Handover):
    """Handover of a segment."""

    segment: Name

    @property
    def link(self) -> str:
        """Segment of the handover."""
        return self.segment

    @model_validator(mode="after")
    def _check_change(self) -> PathHandover:
        ignored = {"name", "at", "interval", "segment", "queued"}
        if not self.model_fields_set - ignored and self.queued == "keep":
            raise ValueError(
                "found a handover without changes, expected at least one of delay, up, down, both, in_flight, gap"
            )
        return self


class GraphHandover(Handover):
    """Handover between two links of a graph, or of one link."""

    to: Name
    replaces: Name | None = None

    @property
    def link(self) -> str:
        """Link after the handover."""
        return self.to

    @property
    def previous_link(self) -> str:
        """Link before the handover: ``replaces``, or the same link."""
        return self.replaces or self.to

    @model_validator(mode="after")
    def _check_links(self) -> GraphHandover:
        if self.replaces == self.to:
            raise ValueError(f'found to and replaces "{self.to}", expected two links, or no replaces')
        return self


def check_handovers(
    handovers: Sequence[Handover], links: Sequence[str], kind: str, names: Sequence[str]
) -> None:
    """Check that links exist and names are unique. Raises PydanticCustomError at the key.

    Args:
        handovers: the handovers of a path or graph.
        links: the names of its links.
        kind: the kind of link, for messages: "segment" or "link".
        names: the names of the nodes.
    """
    handover_names = [handover.name for handover in handovers]
    for number, handover in enumerate(handovers):
        at = handover.name or f"handover[{number + 1}]"
        for key in ("segment", "to", "replaces"):
            link = getattr(handover, key, None)
            if link is not None and link not in links:
                _reject(unknown_name(link, links, kind), f"{at}.{key}")
        if handover.name is not None and handover_names.count(handover.name) > 1:
            _reject(f'duplicate handover name "{handover.name}", expected unique names', at)
        if handover.name in (*links, *names):
            _reject(
                f'a handover and another element have the name "{handover.name}", expected unique names',
                at,
            )


def _reject(error: str, at: str) -> None:
    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": at})
