"""Loss stages (``LossStageSpec``), and the models that are stochastic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.link.generated import DRAWN_LOSSES

if TYPE_CHECKING:
    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import LossChange, LossModel, LossStageSpec
    from bentpipe.scenario.link.direction import Direction

__all__ = ["is_loss_stochastic", "loss_stage"]


def loss_stage(direction: Direction, files: Files, key: str, *, always: bool) -> list[LossStageSpec]:
    """Return the loss stage of a direction, or an empty list if no packet is ever lost.

    Args:
        direction: the direction.
        files: input files.
        key: key of the direction, for errors.
        always: return a stage without loss too, for handovers that set it.

    Raises:
        ScenarioError: a trace with values above 1, or changes beside a trace.
    """
    changes: list[LossChange] = [
        {"at_ns": change.at.ns, "probability": change.loss.value}
        for change in direction.changes or []
        if change.loss is not None
    ]
    loss = direction.loss
    if loss is not None and loss.trace is not None and loss.trace.endswith(".csv"):
        points = [(at, float(value)) for at, value in files.csv(loss.trace, "loss", f"{key}.loss")]
        invalid = next((value for _, value in points if value > 1), None)
        if invalid is not None:
            raise ScenarioError(
                [(f"{key}.loss", f'"{loss.trace}": found a loss of {invalid:.4g}, expected 0 to 1')]
            )
        if changes:
            raise ScenarioError(
                [(f"{key}.changes", "found a change of loss beside a trace, expected one of them")]
            )
        model: LossModel = {"kind": "bernoulli", "probability": points[0][1]}
        changes = [{"at_ns": at, "probability": value} for at, value in points[1:]]
    else:
        none: LossModel = {"kind": "bernoulli", "probability": 0.0}
        model = none if loss is None else loss.to_spec(_LossFiles(files, f"{key}.loss"))
    if model == {"kind": "bernoulli", "probability": 0.0} and not changes and not always:
        return []
    return [{"kind": "loss", "model": model, "changes": changes}]


@dataclass(frozen=True, slots=True)
class _LossFiles:
    """Input files of a loss model (``LossHooks`` of the scenario)."""

    files: Files
    key: str

    def loss_trace(self, name: str, key: str) -> list[int]:
        """Return the indices of lost packets in a file."""
        del key
        return self.files.packets(name, self.key)


def is_loss_stochastic(stage: LossStageSpec) -> bool:
    """Return whether packets are lost at random; bursts and lists of packets are deterministic."""
    if any(0 < change["probability"] < 1 for change in stage.get("changes", ())):
        return True
    model = stage["model"]
    if model["kind"] == "bernoulli":
        return 0 < model["probability"] < 1
    return model["kind"] in DRAWN_LOSSES
