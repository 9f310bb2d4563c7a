"""The scheduler of a link that has a queue for each user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictStr, model_validator

from bentpipe.scenario.base import check_options
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.link import generated
from bentpipe.scenario.link.generated import SCHEDULER_ALIASES, SchedulerOptions

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["SCHEDULERS", "Scheduler", "unknown"]

SCHEDULERS = ("drop-tail", *generated.SCHEDULERS)
_WITHOUT_FORMULA = ("ubmt", "bbs", "bps")
"""Schedulers of table 6.1 of Tauran 2018 whose formulas are not public."""


def _known(name: str) -> str:
    if name.casefold() in _WITHOUT_FORMULA:
        raise ValueError(
            f'found "{name}", of which no formula is public; expected one of: {", ".join(SCHEDULERS)}'
        )
    return name


def unknown(name: str, own: Collection[str] = ()) -> str | None:
    """What is wrong with a name that is neither of ours nor of one's ``own``; None of one that is."""
    if name in SCHEDULERS or name in own:
        return None
    called = SCHEDULER_ALIASES.get(name.casefold())
    hint = f'no scheduler "{name}", expected one of: {", ".join(SCHEDULERS)}; did you mean "{called}"?'
    return hint if called else unknown_name(name, [*SCHEDULERS, *sorted(own)], "scheduler")


class Scheduler(SchedulerOptions):
    """A scheduler of a queue for each user. A bare word is ``name``; ``drop-tail`` is one queue for all."""

    name: Annotated[
        StrictStr, AfterValidator(_known), Field(json_schema_extra={"examples": list(SCHEDULERS)})
    ]
    room: Literal["each", "all"] = "each"
    options: dict[StrictStr, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_combination(self) -> Scheduler:
        given = self.model_fields_set - {"channel_delay"} if self.own else self.model_fields_set
        check_options(self.name, given, self.option_owners)
        if self.name == "drop-tail" and "room" in self.model_fields_set:
            raise ValueError('found room beside "drop-tail", which is one queue for all')
        if self.options and not self.own:
            raise ValueError(
                f'found options beside "{self.name}", expected them with a scheduler of one\'s own'
            )
        return self

    @property
    def per_user(self) -> bool:
        """Whether each user has a queue."""
        return self.name != "drop-tail"

    @property
    def own(self) -> bool:
        """Whether the scheduler comes from outside."""
        return self.name not in SCHEDULERS

    @property
    def by_channel(self) -> bool:
        """Whether the scheduler uses the state of the channels."""
        return self.name in self.option_owners["channel_delay"]
