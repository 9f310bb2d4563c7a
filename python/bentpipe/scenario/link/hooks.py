"""Values of a member that depend on the rest of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import QueueLimit

__all__ = ["LossHooks", "QueueHooks"]


class QueueHooks(Protocol):
    """The values that the planner supplies for a queue. Each raises ScenarioError."""

    def limit(self) -> QueueLimit | None:
        """Return the limit of the queue."""

    def limit_packets(self) -> int:
        """Return the limit of the queue in packets of 1500 bytes."""

    def users(self, names: Sequence[str], key: str) -> list[int]:
        """Return the numbers of users and flows, in ascending order."""

    def user_weights(self, weights: Mapping[str, float], key: str) -> list[list[float]]:
        """Return users and their weights, in ascending order."""


class LossHooks(Protocol):
    """The values that the planner supplies for a loss model. Each raises ScenarioError."""

    def loss_trace(self, name: str, key: str) -> list[int]:
        """Return the packets that a file lists."""
