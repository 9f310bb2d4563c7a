"""Values of a member that depend on the rest of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import (
        ChannelSpec,
        CodeSpec,
        DecoderSpec,
        FeedbackSpec,
        LooSpec,
        ModcodSpec,
        PdcpReorderingSpec,
        QueueLimit,
        QueueSpec,
        RlcSpec,
        SemiMarkovCellSpec,
    )
    from bentpipe.scenario.link.channel import ElevationText
    from bentpipe.scenario.link.generated_services import Rlc
    from bentpipe.scenario.quantities import Duration

__all__ = [
    "AcmHooks", "Bearer", "ChannelHooks", "LinkLayerFields", "LinkLayerHooks", "LossHooks", "NrHooks",
    "QueueAndChannel", "QueueHooks", "RlcHooks", "ThreeStates",
]  # fmt: skip


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


class LinkLayerFields(TypedDict):
    """The fields of a link layer that depend on several options and on the rate."""

    rate_bit_s: int
    code: CodeSpec
    decoder: DecoderSpec
    attempts: int | None
    window: int | None
    feedback: FeedbackSpec | None
    timeout_ns: int | None
    first_overhead_bits: NotRequired[int]
    """Set by the table; mypy expects it here."""


class QueueAndChannel(TypedDict):
    """Queue and channel of a direction."""

    queue: QueueSpec
    channel: ChannelSpec


class Bearer(TypedDict):
    """The fields of a 5G link that depend on several options and on the direction."""

    queue: QueueSpec
    channel: ChannelSpec | None
    block_bytes: int
    coded_bits: int
    decoder: DecoderSpec
    attempts: int
    feedback: FeedbackSpec | None
    reordering: PdcpReorderingSpec | None


class LinkLayerHooks(Protocol):
    """The values that the planner supplies for a link layer."""

    def link_layer(self) -> LinkLayerFields:
        """Return the fields that depend on the rate and on several options."""


class RlcHooks(Protocol):
    """The values that the planner supplies for RLC. The default of a timer depends on the link."""

    def poll_pdus(self, count: int | None, key: str) -> int | None:
        """Return the PDUs between two polls; None for no limit."""

    def poll_retransmit_ns(self, timer: Duration | None, key: str) -> int:
        """Return ``t-PollRetransmit``."""

    def reassembly_ns(self, timer: Duration | None, key: str) -> int:
        """Return ``t-Reassembly``."""

    def status_prohibit_ns(self, timer: Duration | None, key: str) -> int:
        """Return ``t-StatusProhibit``."""


class NrHooks(Protocol):
    """The values that the planner supplies for a 5G link. Each raises ScenarioError."""

    def rlc(self, rlc: Rlc, key: str) -> RlcSpec:
        """Return the RLC entity."""

    def bearer(self) -> Bearer:
        """Return the fields that depend on the direction and on several options."""


class AcmHooks(Protocol):
    """The values that the planner supplies for adaptive coding. Each raises ScenarioError."""

    def modes(self, names: Sequence[str] | None, key: str) -> list[ModcodSpec]:
        """Return the modes in use."""

    def queue_and_channel(self) -> QueueAndChannel:
        """Return queue and channel of the direction."""
