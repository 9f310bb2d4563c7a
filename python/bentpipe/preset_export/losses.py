"""Loss models in the formats of other tools. Everything that depends on a model of losses is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import LossModel

__all__ = ["LossTable", "describe_mean", "describe_tc", "mean_loss", "tc_arguments", "to_table"]


class Bernoulli(BaseModel):
    """Independent losses."""

    model_config = ConfigDict(extra="forbid")
    model: Literal["bernoulli"] = "bernoulli"
    probability: float


class GilbertElliott(BaseModel):
    """Two states with one possible transition for each packet (netem: gemodel)."""

    model_config = ConfigDict(extra="forbid")
    model: Literal["gilbert-elliott"] = "gilbert-elliott"
    good_to_bad: float
    bad_to_good: float
    loss_good: float
    loss_bad: float


class BurstLoss(BaseModel):
    """Everything is lost for a duration in each interval."""

    model_config = ConfigDict(extra="forbid")
    model: Literal["burst"] = "burst"
    interval_s: float
    duration_s: float
    offset_s: float


class TraceLoss(BaseModel):
    """Indices of lost packets, from 0."""

    model_config = ConfigDict(extra="forbid")
    model: Literal["trace"] = "trace"
    packets: list[int]


LossTable = Annotated[Bernoulli | GilbertElliott | BurstLoss | TraceLoss, Field(discriminator="model")]
"""Loss model in JSON."""


def to_table(model: LossModel | None) -> Bernoulli | GilbertElliott | BurstLoss | TraceLoss | None:
    """Return a loss model for JSON; None without one. Those of reconfiguration intervals have other fields."""
    if model is None or model["kind"] == "reconfiguration":
        return None
    if model["kind"] == "bernoulli":
        return Bernoulli(probability=model["probability"])
    if model["kind"] == "gilbert_elliott":
        return GilbertElliott(
            good_to_bad=model["good_to_bad"],
            bad_to_good=model["bad_to_good"],
            loss_good=model["loss_good"],
            loss_bad=model["loss_bad"],
        )
    if model["kind"] == "trace":
        return TraceLoss(packets=list(model["packets"]))
    return BurstLoss(
        interval_s=model["interval_ns"] / 1e9,
        duration_s=model["duration_ns"] / 1e9,
        offset_s=model["offset_ns"] / 1e9,
    )


def tc_arguments(model: LossModel | None) -> list[str]:
    """Return the arguments of netem; empty without losses, or if netem does not have the model."""
    if model is None:
        return []
    if model["kind"] == "bernoulli":
        return ["loss random", _percent(model["probability"])] if model["probability"] else []
    if model["kind"] == "gilbert_elliott":
        keys = (model["good_to_bad"], model["bad_to_good"], model["loss_bad"], model["loss_good"])
        return ["loss gemodel", *map(_percent, keys)]
    return []


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def describe_tc(model: LossModel | None) -> str | None:
    """Return what netem lacks of a model; None if nothing."""
    if model is None or model["kind"] in ("bernoulli", "gilbert_elliott"):
        return None
    return f"{model['kind']} losses: none"


def mean_loss(model: LossModel | None) -> float:
    """Return the mean probability of independent losses in place of a model; 0 for losses at given times."""
    if model is None:
        return 0.0
    if model["kind"] == "bernoulli":
        return model["probability"]
    if model["kind"] == "gilbert_elliott":
        to_bad, to_good = model["good_to_bad"], model["bad_to_good"]
        return (to_good * model["loss_good"] + to_bad * model["loss_bad"]) / (to_good + to_bad)
    return 0.0


def describe_mean(model: LossModel | None) -> str | None:
    """Return what :func:`mean_loss` lacks of a model; None if nothing."""
    if model is None or model["kind"] == "bernoulli":
        return None
    if model["kind"] == "gilbert_elliott":
        return "losses in bursts (Gilbert-Elliott): independent losses with the same mean"
    return f"{model['kind']} losses: none"
