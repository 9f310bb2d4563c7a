"""Tables of the members of each kind, and their part of a resolved run.

Written by ``make types`` from the engine's descriptors (``crates/units/src/descriptor.rs``); a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from bentpipe.scenario.base import (
    AngleText,
    DecibelText,
    DistanceText,
    DurationText,
    FrequencyText,
    PositiveText,
    ProbabilityText,
    RateText,
    SizeText,
    SpeedText,
    Table,
    check_options,
    check_range,
    check_required,
    require_one,
)
from bentpipe.scenario.link import rules
from bentpipe.scenario.link.channel import Attenuation, ElevationText
from bentpipe.scenario.quantities import Angle, Duration, Probability, Size
from bentpipe.scenario.radio_quantities import Decibel, Frequency

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import (
        BurstLossModel,
        ChannelSpec,
        GilbertElliottLossModel,
        LossModel,
        QueueSpec,
        SchedulerSpec,
    )
    from bentpipe.scenario.link.hooks import ChannelHooks, LossHooks, QueueHooks

__all__ = ["Aqm", "BurstLoss", "Channel", "GilbertElliottLoss", "Loss", "SchedulerOptions"]

DRAWN_CHANNELS = frozenset({"rayleigh", "semi_markov", "three_state"})
"""The channels that draw random numbers, by their kind in the resolved run."""

DRAWN_LOSSES = frozenset({"bernoulli", "gilbert_elliott", "reconfiguration"})
"""The loss models that draw random numbers, by their kind in the resolved run."""

SCHEDULERS = (
    "round-robin",
    "deficit-round-robin",
    "maximum-rate",
    "proportional-fair",
    "codes",
    "m-lwdf",
    "exp-pf",
)
"""The schedulers of a queue for each user."""

SCHEDULER_ALIASES = {
    "rr": "round-robin",
    "drr": "deficit-round-robin",
    "wrr": "deficit-round-robin",
    "max-rate": "maximum-rate",
    "mr": "maximum-rate",
    "pf": "proportional-fair",
    "mlwdf": "m-lwdf",
    "exppf": "exp-pf",
}
"""Other names of schedulers."""


class GilbertElliottLoss(Table):
    """Two states with one possible transition per packet (Gilbert 1960, Elliott 1963)."""

    good_to_bad: ProbabilityText
    bad_to_good: ProbabilityText
    loss_good: ProbabilityText = Probability(0.0)
    loss_bad: ProbabilityText = Probability(1.0)

    def to_spec(self) -> GilbertElliottLossModel:
        """Return the member in the resolved run."""
        return {
            "kind": "gilbert_elliott",
            "good_to_bad": self.good_to_bad.value,
            "bad_to_good": self.bad_to_good.value,
            "loss_good": self.loss_good.value,
            "loss_bad": self.loss_bad.value,
        }


class BurstLoss(Table):
    """All packets are lost for a time, periodically."""

    interval: PositiveText
    duration: PositiveText
    offset: DurationText = Duration(0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        rules.burstloss(self)
        return self

    def to_spec(self) -> BurstLossModel:
        """Return the member in the resolved run."""
        return {
            "kind": "burst",
            "interval_ns": self.interval.ns,
            "duration_ns": self.duration.ns,
            "offset_ns": self.offset.ns,
        }


class Loss(Table):
    """Loss of packets: one of the keys. A bare percentage is ``probability``."""

    probability: ProbabilityText | None = None
    gilbert_elliott: GilbertElliottLoss | None = None
    burst: BurstLoss | None = None
    trace: StrictStr | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        require_one(self, ("probability", "gilbert_elliott", "burst", "trace"), "a loss")
        return self

    def to_spec(self, hooks: LossHooks) -> LossModel:
        """Return the model in the resolved run."""
        if self.probability is not None:
            return {"kind": "bernoulli", "probability": self.probability.value}
        if self.gilbert_elliott is not None:
            return self.gilbert_elliott.to_spec()
        if self.burst is not None:
            return self.burst.to_spec()
        if self.trace is not None:
            return {"kind": "trace", "packets": hooks.loss_trace(self.trace, "trace")}
        raise AssertionError("a loss has one key")


class Aqm(Table):
    """A queue discipline. A bare word is ``name``."""

    name: Literal["drop-tail", "drop-head", "codel", "fq-codel", "policer"]
    target: PositiveText = Duration(5_000_000)
    interval: PositiveText = Duration(100_000_000)
    ecn: StrictBool | None = None
    queues: Annotated[StrictInt, Field(ge=1, le=65536)] = 1024
    quantum: SizeText = Size(1_514)
    rate: RateText | None = None
    burst: SizeText | None = None

    option_owners: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "target": ("codel", "fq-codel"),
        "interval": ("codel", "fq-codel"),
        "ecn": ("codel", "fq-codel"),
        "queues": ("fq-codel",),
        "quantum": ("fq-codel",),
        "rate": ("policer",),
        "burst": ("policer",),
    }
    """The members that have an option, unless all have it."""

    required_options: ClassVar[Mapping[str, tuple[str, ...]]] = {"policer": ("rate", "burst")}
    """The options that a member requires."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        check_options(self.name, self.model_fields_set, self.option_owners)
        check_required("name", self, self.required_options)
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range("quantum", self.quantum, Size(1), Size(4_294_967_295))
        check_range("burst", self.burst, Size(1), None)
        return self

    def to_spec(self, hooks: QueueHooks) -> QueueSpec:
        """Return the member in the resolved run."""
        if self.name == "drop-tail":
            return {"kind": "drop_tail", "limit": hooks.limit()}
        if self.name == "drop-head":
            return {"kind": "drop_head", "limit": hooks.limit()}
        if self.name == "codel":
            return {
                "kind": "codel",
                "limit": hooks.limit(),
                "target_ns": self.target.ns,
                "interval_ns": self.interval.ns,
                "ecn": False if self.ecn is None else self.ecn,
            }
        if self.name == "fq-codel":
            return {
                "kind": "fq_codel",
                "limit_packets": hooks.limit_packets(),
                "flows": self.queues,
                "quantum_bytes": self.quantum.bytes,
                "target_ns": self.target.ns,
                "interval_ns": self.interval.ns,
                "ecn": True if self.ecn is None else self.ecn,
            }
        if self.rate is not None and self.burst is not None and self.name == "policer":
            return {
                "kind": "policer",
                "limit": hooks.limit(),
                "rate_bit_s": self.rate.bit_s,
                "burst_bytes": self.burst.bytes,
            }
        raise AssertionError(f"no descriptor of {self.name}")


class SchedulerOptions(Table):
    """The options of schedulers."""

    quantum: SizeText = Size(1_500)
    weights: dict[StrictStr, Annotated[StrictFloat | StrictInt, Field(ge=0.001, le=1_000_000)]] = Field(
        default_factory=dict
    )
    csi_delay: DurationText = Duration(0)
    average: Literal["channel", "served"] = "channel"
    window: PositiveText = Duration(1_667_000_000)
    time_limit: PositiveText = Duration(100_000_000)
    delay: PositiveText = Duration(100_000_000)
    violation_ratio: ProbabilityText = Probability(0.03)
    best_effort: list[StrictStr] = Field(default_factory=list)

    option_owners: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "quantum": ("deficit-round-robin",),
        "weights": ("deficit-round-robin",),
        "csi_delay": ("maximum-rate", "proportional-fair", "codes", "m-lwdf", "exp-pf"),
        "average": ("proportional-fair", "codes", "m-lwdf", "exp-pf"),
        "window": ("proportional-fair", "codes", "m-lwdf", "exp-pf"),
        "time_limit": ("codes",),
        "delay": ("m-lwdf", "exp-pf"),
        "violation_ratio": ("m-lwdf", "exp-pf"),
        "best_effort": ("m-lwdf", "exp-pf"),
    }
    """The members that have an option, unless all have it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range("quantum", self.quantum, Size(1), Size(4_294_967_295))
        check_range("csi_delay", self.csi_delay, None, Duration(1_000_000_000))
        rules.scheduleroptions(self)
        return self

    def to_spec(self, name: str, hooks: QueueHooks) -> SchedulerSpec:
        """Return the member in the resolved run."""
        if name == "round-robin":
            return {"name": "round_robin"}
        if name == "deficit-round-robin":
            return {
                "name": "deficit_round_robin",
                "quantum_bytes": self.quantum.bytes,
                "weights": hooks.user_weights(self.weights, "weights"),
            }
        if name == "maximum-rate":
            return {"name": "maximum_rate"}
        if name == "proportional-fair":
            return {
                "name": "proportional_fair",
                "average": {"quantity": self.average, "window_ns": self.window.ns},
            }
        if name == "codes":
            return {
                "name": "codes",
                "average": {"quantity": self.average, "window_ns": self.window.ns},
                "time_limit_ns": self.time_limit.ns,
            }
        if name == "m-lwdf":
            return {
                "name": "m_lwdf",
                "average": {"quantity": self.average, "window_ns": self.window.ns},
                "deadline": {
                    "delay_ns": self.delay.ns,
                    "violation_ratio": self.violation_ratio.value,
                    "best_effort": hooks.users(self.best_effort, "best_effort"),
                },
            }
        if name == "exp-pf":
            return {
                "name": "exp_pf",
                "average": {"quantity": self.average, "window_ns": self.window.ns},
                "deadline": {
                    "delay_ns": self.delay.ns,
                    "violation_ratio": self.violation_ratio.value,
                    "best_effort": hooks.users(self.best_effort, "best_effort"),
                },
            }
        raise AssertionError(f"no descriptor of {name}")


class Channel(Table):
    """A radio channel."""

    hints: ClassVar[Mapping[str, str]] = rules.CHANNEL_HINTS
    model: Literal["white-noise", "perez-fontan", "p681", "rayleigh", "attenuation"]
    snr: DecibelText
    snr_error: DecibelText = Decibel(0.0)
    environment: StrictStr | None = None
    elevation: ElevationText | None = None
    azimuth: AngleText = Angle(0)
    snr_range: DistanceText | None = None
    speed: SpeedText | None = None
    frequency: FrequencyText = Frequency(2_200_000_000)
    state_lengths: Literal["each", "one"] = "each"
    step: PositiveText | None = None
    seed: Annotated[StrictInt, Field(ge=0, le=9223372036854775807)] | None = None
    trace: StrictStr | None = None
    schedule: Annotated[list[Attenuation], Field(min_length=1)] | None = None
    interpolation: Literal["step", "linear"] = "linear"
    repeat: PositiveText | None = None

    option_owners: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "snr_error": ("perez-fontan", "p681", "rayleigh", "attenuation"),
        "environment": ("perez-fontan", "p681"),
        "elevation": ("perez-fontan", "p681"),
        "azimuth": ("perez-fontan", "p681"),
        "snr_range": ("perez-fontan", "p681"),
        "speed": ("perez-fontan", "p681", "rayleigh"),
        "frequency": ("perez-fontan", "p681", "rayleigh"),
        "state_lengths": ("perez-fontan",),
        "step": ("perez-fontan", "p681", "rayleigh"),
        "seed": ("perez-fontan", "p681", "rayleigh"),
        "trace": ("attenuation",),
        "schedule": ("attenuation",),
        "interpolation": ("attenuation",),
        "repeat": ("attenuation",),
    }
    """The members that have an option, unless all have it."""

    required_options: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "perez-fontan": ("environment", "elevation", "speed"),
        "p681": ("environment", "elevation", "speed"),
        "rayleigh": ("speed",),
    }
    """The options that a member requires."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        check_options(self.model, self.model_fields_set, self.option_owners)
        check_required("model", self, self.required_options)
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        rules.channel(self)
        return self

    def to_spec(self, hooks: ChannelHooks) -> ChannelSpec:
        """Return the member in the resolved run."""
        if self.model == "white-noise":
            return {"kind": "fixed", "snr_db": self.snr.db}
        if self.elevation is not None and self.speed is not None and self.model == "perez-fontan":
            return {
                "kind": "three_state",
                "reference": {"snr_db": self.snr.db, "error_db": self.snr_error.db},
                "look_angle": {
                    "elevation_deg": hooks.elevation_deg(self.elevation, "elevation"),
                    "azimuth_deg": self.azimuth.degrees,
                },
                "motion": {
                    "speed_m_s": self.speed.m_s,
                    "carrier_hz": self.frequency.hz,
                    "step_ns": hooks.step_ns(self.step, "step"),
                    "seed": self.seed,
                },
                **hooks.three_states(self.state_lengths, "state_lengths"),
            }
        if self.elevation is not None and self.speed is not None and self.model == "p681":
            return {
                "kind": "semi_markov",
                "reference": {"snr_db": self.snr.db, "error_db": self.snr_error.db},
                "look_angle": {
                    "elevation_deg": hooks.elevation_deg(self.elevation, "elevation"),
                    "azimuth_deg": self.azimuth.degrees,
                },
                "motion": {
                    "speed_m_s": self.speed.m_s,
                    "carrier_hz": self.frequency.hz,
                    "step_ns": hooks.step_ns(self.step, "step"),
                    "seed": self.seed,
                },
                "cells": hooks.cells(),
            }
        if self.speed is not None and self.model == "rayleigh":
            return {
                "kind": "rayleigh",
                "reference": {"snr_db": self.snr.db, "error_db": self.snr_error.db},
                "motion": {
                    "speed_m_s": self.speed.m_s,
                    "carrier_hz": self.frequency.hz,
                    "step_ns": hooks.step_ns(self.step, "step"),
                    "seed": self.seed,
                },
            }
        if self.model == "attenuation":
            return {
                "kind": "measured",
                "reference": {"snr_db": self.snr.db, "error_db": self.snr_error.db},
                "points": hooks.points(),
                "interpolation": self.interpolation,
                "repeat_ns": None if self.repeat is None else self.repeat.ns,
            }
        raise AssertionError(f"no descriptor of {self.model}")
