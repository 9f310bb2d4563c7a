"""Queues of users and their scheduler in the engine's words, and who the users of a run are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.link.scheduler import unknown_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bentpipe.plan.link.queues import QueueContext
    from bentpipe.plan.spec.run_spec import PerUserQueueSpec, RunSpec
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.scheduler import Scheduler

__all__ = ["MAX_USERS", "SCHEDULER_PREFIX", "SINGLE_USER", "Users", "check", "queue", "schedulers"]

MAX_USERS = 65_535
"""The largest number of a user."""


SCHEDULER_PREFIX = "scheduler "
"""Before the name of a scheduler among the classes that are given from outside: a controller may be called alike."""


def schedulers(spec: RunSpec) -> set[str]:
    """Names of the schedulers that a resolved run has from outside."""
    stages = (stage for link in spec["graph"]["links"] for way in ("up", "down") for stage in link[way])
    found: set[str] = set()
    for stage in stages:
        if stage["kind"] not in ("transmit", "radio", "acm"):
            continue
        queue = stage["queue"]
        if queue["kind"] == "per_user" and queue["scheduler"]["name"] == "own":
            found.add(queue["scheduler"]["called"])
    return found


@dataclass(frozen=True, slots=True)
class Users:
    """Whose packets meet on the links of a run."""

    count: int = 1
    distinguished: bool = False
    """Whether the scenario says whose flows are: otherwise all are one user's."""
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each user that has a name, and of each table of flows."""
    schedulers: frozenset[str] = frozenset()
    """Names of schedulers that were given from outside."""

    def named(self, names: Iterable[str], key: str) -> list[int]:
        """The users that are called so, in order. Raises ScenarioError."""
        found: set[int] = set()
        for name in names:
            if name not in self.numbers:
                raise ScenarioError([(key, unknown_name(name, self.numbers, "user or flow"))])
            found |= set(self.numbers[name])
        return sorted(found)


SINGLE_USER = Users()


def check(direction: Direction, users: Users, key: str) -> None:
    """The keys of a scheduler go together. Raises ScenarioError."""
    scheduler = direction.scheduler
    if scheduler is None:
        return
    name, where = scheduler.name, f"{key}.scheduler"
    if (wrong := unknown_scheduler(name, users.schedulers)) is not None:
        raise ScenarioError([(where, wrong)])
    if direction.aqm is not None:
        text = f'found "{name}" beside aqm = "{direction.aqm.name}", a queue that all share; expected one of them'
        raise ScenarioError([(where, text)])
    if not scheduler.per_user:
        return
    if direction.netem:
        raise ScenarioError(
            [(where, f'found "{name}" beside netem = true, a queue that all share; expected one of them')]
        )
    if (
        direction.rate is None
        and direction.trace is None
        and direction.acm is None
        and direction.slots is None
    ):
        raise ScenarioError([(where, "goes with a rate or a trace, and there is none")])
    if not users.distinguished:
        text = f'found "{name}" over one shared queue: all flows are one user\'s; expected count or user of flows'
        raise ScenarioError([(where, text)])
    if scheduler.uses_channel and direction.channel is None:
        text = f'found "{name}", which goes by the channel, and there is none; expected channel beside it'
        raise ScenarioError([(where, text)])


def queue(scheduler: Scheduler, hooks: QueueContext) -> PerUserQueueSpec:
    """Return the queue of each user and their scheduler."""
    limit = hooks.limit()
    return {
        "kind": "per_user",
        "scheduler": {"name": "own", "called": scheduler.name, "options_json": json.dumps(scheduler.options)}
        if scheduler.is_user_supplied
        else scheduler.to_spec(scheduler.name, hooks),
        "limit": limit if scheduler.room == "each" else None,
        "total": limit if scheduler.room == "all" else None,
        "channel_delay_ns": scheduler.channel_delay.ns,
    }
