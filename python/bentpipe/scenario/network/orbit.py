"""Route over a constellation (``[orbit]``), whose delays segments of a path use."""

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
    """Rule for the handovers of a ground station. A bare text is ``rule``.

    ``periodic``: handovers with an interval, the time of the first one, and a random delay of each.
    """

    rule: Literal["shortest-path", "best-elevation", "keep-until-lost", "periodic"] = "periodic"
    interval: PositiveText = Duration(15_000_000_000)
    phase: DurationText = Duration(0)
    jitter: DurationText = Duration(0)
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 1

    @model_validator(mode="after")
    def _check_interval(self) -> HandoverRule:
        interval_keys = self.model_fields_set - {"rule"}
        if interval_keys and self.rule != "periodic":
            raise ValueError(
                f'found {min(interval_keys)} beside rule = "{self.rule}", expected it with "periodic"'
            )
        if self.jitter.ns >= self.interval.ns:
            raise ValueError(f"found jitter = {self.jitter}, expected less than interval = {self.interval}")
        return self


def _to_list(found: object) -> object:
    return found if isinstance(found, list) else [found]


class Orbit(Table):
    """Two places and the constellation of the route between them."""

    constellation: ConstellationOrName
    from_: PlaceText = Field(alias="from")
    to: Annotated[
        list[PlaceText], BeforeValidator(_to_list, json_schema_input_type=PlaceText | list[PlaceText])
    ] = Field(min_length=1)
    relays: list[PlaceText] = Field(default_factory=list)
    start: InstantText | None = None
    step: PositiveText = Duration(100_000_000)
    elevation: AngleText | None = None
    links: Literal["grid", "bent-pipe"] | None = None
    handover: Annotated[HandoverRule, as_table("rule")] | None = None
    coverage_gaps: Literal["error", "outage"] = "error"

    @model_validator(mode="after")
    def _check_links(self) -> Orbit:
        if self.links == "grid" and self.constellation.planes is None:
            raise ValueError('found links = "grid" over a constellation without planes, expected "bent-pipe"')
        return self
