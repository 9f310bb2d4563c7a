"""``[orbit]``: the pair of places and the constellation whose delays segments of a path take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainValidator, StrictInt, model_validator

from bentpipe.scenario.base import AngleText, DurationText, PositiveText, Table, as_table, text_schema
from bentpipe.scenario.network.constellations import ConstellationOrName, InstantText
from bentpipe.scenario.network.places import Place
from bentpipe.scenario.quantities import Duration

__all__ = ["HandoverRule", "Orbit"]

PlaceText = Annotated[
    Place, PlainValidator(Place.parse), text_schema("Paris", "a place of the list, or latitude,longitude")
]


class HandoverRule(Table):
    """When a ground station goes over to another satellite. A bare word is ``rule``.

    ``slots`` have a length, an instant of the first boundary, and a random lateness of each.
    """

    rule: Literal["shortest-path", "best-elevation", "keep-until-lost", "slots"] = "slots"
    every: PositiveText = Duration(15_000_000_000)
    phase: DurationText = Duration(0)
    jitter: DurationText = Duration(0)
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 1

    @model_validator(mode="after")
    def _of_slots(self) -> HandoverRule:
        others = self.model_fields_set - {"rule"}
        if others and self.rule != "slots":
            raise ValueError(f'found {min(others)} beside rule = "{self.rule}", expected it with "slots"')
        if self.jitter.ns >= self.every.ns:
            raise ValueError(f"found jitter = {self.jitter}, expected less than every = {self.every}")
        return self


def _listed(found: object) -> object:
    return found if isinstance(found, list) else [found]


class Orbit(Table):
    """Two places and what flies over them."""

    constellation: ConstellationOrName
    from_: PlaceText = Field(alias="from")
    to: Annotated[
        list[PlaceText], BeforeValidator(_listed, json_schema_input_type=PlaceText | list[PlaceText])
    ] = Field(min_length=1)
    relays: list[PlaceText] = Field(default_factory=list)
    start: InstantText | None = None
    step: PositiveText = Duration(100_000_000)
    elevation: AngleText | None = None
    links: Literal["grid", "bent-pipe"] | None = None
    handover: Annotated[HandoverRule, as_table("rule")] | None = None
    gaps: Literal["refused", "outages"] = "refused"

    @model_validator(mode="after")
    def _links_of_planes(self) -> Orbit:
        if self.links == "grid" and self.constellation.planes is None:
            raise ValueError('found links = "grid" over a constellation without planes, expected "bent-pipe"')
        return self
