"""Values of a member that depend on the rest of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import LooSpec, QueueLimit, SemiMarkovCellSpec
    from bentpipe.scenario.link.channel import ElevationText
    from bentpipe.scenario.quantities import Duration

__all__ = ["ChannelHooks", "LossHooks", "QueueHooks", "ThreeStates"]


class ThreeStates(TypedDict):
    """The fields of a three-state channel that come from published parameters."""

    transitions: Sequence[Sequence[float]]
    states: Sequence[LooSpec]
    frames_m: Sequence[float]
    transition_m: float
    correlation_m: float


class ChannelHooks(Protocol):
    """The values that the planner supplies for a channel. Each raises ScenarioError."""

    def step_ns(self, step: Duration | None, key: str) -> int:
        """Return the step of the time grid."""

    def elevation_deg(self, elevation: ElevationText, key: str) -> float:
        """Return the elevation of the satellite; on an orbit, that at the start."""

    def three_states(self, state_lengths: Literal["each", "one"], key: str) -> ThreeStates:
        """Return the published parameters of three states."""

    def cells(self) -> list[SemiMarkovCellSpec]:
        """Return the published parameters of two states, by time."""

    def points(self) -> list[list[int | float]]:
        """Return times and attenuations."""


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
