"""Loss in the engine's words (``LossModel``), and which models draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.problems import ScenarioError

if TYPE_CHECKING:
    from bentpipe.plan.files import Files
    from bentpipe.plan.spec import LossChange, LossModel, LossStageSpec
    from bentpipe.scenario.losses import Loss
    from bentpipe.scenario.path import Direction

__all__ = ["loss_is_drawn", "loss_stage"]


def loss_stage(direction: Direction, files: Files, key: str, *, always: bool) -> list[LossStageSpec]:
    """The loss stage; none where nothing is ever lost, unless ``always``."""
    changes: list[LossChange] = [
        {"at_ns": change.at.ns, "probability": change.loss.value}
        for change in direction.changes or []
        if change.loss is not None
    ]
    loss = direction.loss
    if loss is not None and loss.trace is not None and loss.trace.endswith(".csv"):
        points = [(at, float(value)) for at, value in files.csv(loss.trace, "loss", f"{key}.loss")]
        wrong = next((value for _, value in points if value > 1), None)
        if wrong is not None:
            raise ScenarioError(
                [(f"{key}.loss", f'"{loss.trace}": found a loss of {wrong:.4g}, expected 0 to 1')]
            )
        if changes:
            raise ScenarioError(
                [(f"{key}.changes", "found a change of loss beside a trace, expected one of them")]
            )
        model: LossModel = {"kind": "bernoulli", "probability": points[0][1]}
        changes = [{"at_ns": at, "probability": value} for at, value in points[1:]]
    else:
        model = _model(loss, files, key)
    if model == {"kind": "bernoulli", "probability": 0.0} and not changes and not always:
        return []
    return [{"kind": "loss", "model": model, "changes": changes}]


def _model(loss: Loss | None, files: Files, key: str) -> LossModel:
    if loss is None:
        return {"kind": "bernoulli", "probability": 0.0}
    if loss.probability is not None:
        return {"kind": "bernoulli", "probability": loss.probability.value}
    if loss.gilbert_elliott is not None:
        states = loss.gilbert_elliott
        return {
            "kind": "gilbert_elliott",
            "good_to_bad": states.good_to_bad.value,
            "bad_to_good": states.bad_to_good.value,
            "loss_good": states.loss_good.value,
            "loss_bad": states.loss_bad.value,
        }
    if loss.burst is not None:
        burst = loss.burst
        return {
            "kind": "burst",
            "period_ns": burst.every.ns,
            "length_ns": burst.length.ns,
            "offset_ns": burst.offset.ns,
        }
    return {"kind": "trace", "packets": files.packets(loss.trace or "", f"{key}.loss")}


def loss_is_drawn(stage: LossStageSpec) -> bool:
    """Whether packets are lost at random: bursts and lists of packets are losses at set instants and places."""
    if any(0 < change["probability"] < 1 for change in stage.get("changes", ())):
        return True
    model = stage["model"]
    if model["kind"] == "bernoulli":
        return 0 < model["probability"] < 1
    return model["kind"] in ("gilbert_elliott", "slots")
