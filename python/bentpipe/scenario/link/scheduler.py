"""Scheduler of a link with one queue per user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictStr, model_validator

from bentpipe.scenario.base import check_options
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.link import generated
from bentpipe.scenario.link.generated import SCHEDULER_ALIASES, SchedulerOptions

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["SCHEDULERS", "Scheduler", "unknown_scheduler"]

SCHEDULERS = ("drop-tail", *generated.SCHEDULERS)
"""Names of all schedulers of the package."""

_UNPUBLISHED = ("ubmt", "bbs", "bps")
"""Schedulers of table 6.1 of Tauran 2018 whose formulas are not public."""


def _check_name(name: str) -> str:
    if name.casefold() in _UNPUBLISHED:
        raise ValueError(
            f'found "{name}", of which no formula is public; expected one of: {", ".join(SCHEDULERS)}'
        )
    return name


def unknown_scheduler(name: str, user_supplied: Collection[str] = ()) -> str | None:
    """Return the message for an unknown scheduler; None for a known one.

    Args:
        name: the name of the scheduler.
        user_supplied: names of user-supplied schedulers.
    """
    if name in SCHEDULERS or name in user_supplied:
        return None
    alias = SCHEDULER_ALIASES.get(name.casefold())
    hint = f'no scheduler "{name}", expected one of: {", ".join(SCHEDULERS)}; did you mean "{alias}"?'
    return hint if alias else unknown_name(name, [*SCHEDULERS, *sorted(user_supplied)], "scheduler")


class Scheduler(SchedulerOptions):
    """Scheduler with one queue per user. A bare text is ``name``; ``drop-tail`` is one queue for all users."""

    name: Annotated[
        StrictStr, AfterValidator(_check_name), Field(json_schema_extra={"examples": list(SCHEDULERS)})
    ]
    queue_scope: Literal["per-user", "shared"] = "per-user"
    options: dict[StrictStr, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_combination(self) -> Scheduler:
        given = self.model_fields_set - {"csi_delay"} if self.is_user_supplied else self.model_fields_set
        check_options(self.name, given, self.option_owners)
        if self.name == "drop-tail" and "queue_scope" in self.model_fields_set:
            raise ValueError('found queue_scope with "drop-tail", which has one queue for all users')
        if self.options and not self.is_user_supplied:
            raise ValueError(f'found options beside "{self.name}", options require a user-supplied scheduler')
        return self

    @property
    def per_user(self) -> bool:
        """Whether each user has a queue."""
        return self.name != "drop-tail"

    @property
    def is_user_supplied(self) -> bool:
        """Whether the scheduler is user-supplied."""
        return self.name not in SCHEDULERS

    @property
    def uses_channel(self) -> bool:
        """Whether the scheduler uses the state of the channels."""
        return self.name in self.option_owners["csi_delay"]
