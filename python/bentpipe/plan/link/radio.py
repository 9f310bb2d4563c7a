"""Radio links: channel and link layer with ARQ or HARQ (``RadioStageSpec``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.link import channel
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.link.arq import link_layer_attempts

if TYPE_CHECKING:
    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import (
        CodeSpec,
        DecoderSpec,
        FeedbackSpec,
        QueueSpec,
        RadioStageSpec,
    )
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.generated_services import LinkLayer
    from bentpipe.scenario.link.hooks import LinkLayerFields
    from bentpipe.scenario.quantities import Rate

__all__ = ["check", "stage"]

WINDOW = 500
"""Default window in packets: the buffer of Tauran 2018, section 3.4.3."""


def check(direction: Direction, key: str) -> None:
    """Check the keys of a radio link. Raises ScenarioError."""
    layer = direction.link_layer
    if layer is None:
        if direction.channel is not None and direction.acm is None and direction.nr is None:
            raise ScenarioError([(f"{key}.channel", "requires link_layer, nr or acm")])
        if direction.reordering_buffer is not None:
            raise ScenarioError([(f"{key}.reordering_buffer", "requires link_layer")])
        return
    if direction.rate is None or direction.rate.constant is None:
        raise ScenarioError(
            [
                (
                    f"{key}.link_layer",
                    'requires a constant rate, that of coded bits, such as rate = "50 Mbit/s"',
                )
            ]
        )
    if any(change.rate is not None for change in direction.changes or []):
        raise ScenarioError(
            [(f"{key}.changes", "found a change of rate, which cannot be combined with link_layer")]
        )
    if direction.netem:
        raise ScenarioError([(f"{key}.netem", "cannot be combined with link_layer")])
    if direction.channel is None and layer.block_error_rate is None:
        raise ScenarioError(
            [
                (
                    f"{key}.link_layer",
                    f'found scheme = "{layer.scheme}" without a channel, expected channel or block_error_rate',
                )
            ]
        )


def stage(direction: Direction, queue: QueueSpec, rate: Rate, files: Files, key: str) -> RadioStageSpec:
    """Return the stage of a radio link; ``rate`` is that of coded bits. Raises ScenarioError."""
    layer, buffer = direction.link_layer, direction.reordering_buffer
    if layer is None:
        raise ScenarioError([(f"{key}.link_layer", "missing")])
    return {
        "kind": "radio",
        "queue": queue,
        "channel": channel.channel(direction.channel, files, f"{key}.channel")
        if direction.channel is not None
        else None,
        "link_layer": layer.to_spec(_LinkLayerHooks(layer, rate.bit_s)),
        "reordering": buffer.to_spec() if buffer is not None and buffer.packets else None,
    }


@dataclass(frozen=True, slots=True)
class _LinkLayerHooks:
    """Values of a link layer that depend on several options (``LinkLayerHooks`` of the scenario)."""

    layer: LinkLayer
    rate_bit_s: int

    def link_layer(self) -> LinkLayerFields:
        """Return the fields that depend on the rate and on several options."""
        layer, attempts = self.layer, link_layer_attempts(self.layer)
        feedback: FeedbackSpec | None = None
        timeout = None
        decoder: DecoderSpec = {"kind": "information", "margin": layer.margin}
        if layer.block_error_rate is not None:
            decoder = {
                "kind": "block_errors",
                "probabilities": [one.value for one in layer.block_error_rate],
            }
        if attempts != 1:
            loss = layer.feedback_loss.value
            feedback = {"delay_ns": layer.feedback_delay.ns, "loss": loss}
            timeout = layer.timeout or (layer.feedback_delay if loss > 0 else None)
        return {
            "rate_bit_s": self.rate_bit_s,
            "code": _code(layer, layer.frame.bytes * 8),
            "decoder": decoder,
            "attempts": attempts,
            "window": _window(layer),
            "feedback": feedback,
            "timeout_ns": timeout.ns if timeout is not None else None,
        }


def _code(layer: LinkLayer, information: int) -> CodeSpec:
    if layer.coded_bits is not None:
        return {"kind": "given", "coded_bits": layer.coded_bits}
    if layer.scheme == "adaptive-harq":
        shares = [share.value for share in layer.target_decoded_ratio]
        return {"kind": "adaptive", "mother_rate": layer.mother_rate, "target_decoded_ratio": shares}
    rate = layer.code_rate if layer.code_rate is not None else 1.0
    # A rate such as 1/3 is not exact as a float.
    return {"kind": "given", "coded_bits": [math.ceil(round(information / rate, 6))]}


def _window(layer: LinkLayer) -> int | None:
    if layer.scheme == "code":
        return None
    return 1 if layer.scheme == "stop-and-wait" else layer.window or WINDOW
