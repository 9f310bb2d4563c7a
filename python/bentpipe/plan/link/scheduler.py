"""Per-user queues and their scheduler (``PerUserQueueSpec``), and the users of a run."""

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
"""Highest user number."""

SCHEDULER_PREFIX = "scheduler "
"""Prefix of a scheduler's name among user-supplied classes, as a controller may have the same name."""


def schedulers(spec: RunSpec) -> set[str]:
    """Return the names of the user-supplied schedulers in a resolved run."""
    stages = (stage for link in spec["graph"]["links"] for side in ("up", "down") for stage in link[side])
    names: set[str] = set()
    for stage in stages:
        if stage["kind"] not in ("transmit", "radio", "acm"):
            continue
        queue = stage["queue"]
        if queue["kind"] == "per_user" and queue["scheduler"]["name"] == "external":
            names.add(queue["scheduler"]["scheduler_name"])
    return names


@dataclass(frozen=True, slots=True)
class Users:
    """Users that share the links of a run."""

    count: int = 1
    """Number of users."""
    distinguished: bool = False
    """Whether the scenario assigns flows to users; otherwise all flows belong to one user."""
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """User numbers by name of a user or of a flow table."""
    schedulers: frozenset[str] = frozenset()
    """Names of user-supplied schedulers."""

    def numbers_of(self, names: Iterable[str], key: str) -> list[int]:
        """Return the numbers of users or flow tables, in ascending order; ``key`` is for errors.

        Raises:
            ScenarioError: an unknown name.
        """
        numbers: set[int] = set()
        for name in names:
            if name not in self.numbers:
                raise ScenarioError([(key, unknown_name(name, self.numbers, "user or flow"))])
            numbers |= set(self.numbers[name])
        return sorted(numbers)


SINGLE_USER = Users()
"""All flows belong to one user."""


def check(direction: Direction, users: Users, key: str) -> None:
    """Check the keys beside a scheduler. Raises ScenarioError."""
    scheduler = direction.scheduler
    if scheduler is None:
        return
    name, scheduler_key = scheduler.name, f"{key}.scheduler"
    if (problem := unknown_scheduler(name, users.schedulers)) is not None:
        raise ScenarioError([(scheduler_key, problem)])
    if direction.aqm is not None:
        aqm = direction.aqm.name
        text = f'found "{name}" beside aqm = "{aqm}", which is one queue for all users; expected one of them'
        raise ScenarioError([(scheduler_key, text)])
    if not scheduler.per_user:
        return
    if direction.netem:
        raise ScenarioError(
            [
                (
                    scheduler_key,
                    f'found "{name}" beside netem = true, which is one queue for all users; expected one of them',
                )
            ]
        )
    if (
        direction.rate is None
        and direction.trace is None
        and direction.acm is None
        and direction.reconfiguration is None
    ):
        raise ScenarioError([(scheduler_key, "requires a rate or a trace")])
    if not users.distinguished:
        text = f'found "{name}", and all flows belong to one user; expected count or user of flows'
        raise ScenarioError([(scheduler_key, text)])
    if scheduler.uses_channel and direction.channel is None:
        text = f'found "{name}", which requires channel'
        raise ScenarioError([(scheduler_key, text)])


def queue(scheduler: Scheduler, hooks: QueueContext) -> PerUserQueueSpec:
    """Return the queue of each user and their scheduler."""
    limit = hooks.limit()
    return {
        "kind": "per_user",
        "scheduler": {
            "name": "external",
            "scheduler_name": scheduler.name,
            "options_json": json.dumps(scheduler.options),
        }
        if scheduler.is_user_supplied
        else scheduler.to_spec(scheduler.name, hooks),
        "limit": limit if scheduler.queue_scope == "per-user" else None,
        "total": limit if scheduler.queue_scope == "shared" else None,
        "csi_delay_ns": scheduler.csi_delay.ns,
    }
