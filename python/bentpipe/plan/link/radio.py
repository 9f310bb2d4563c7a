"""Radio links: channel and link layer with ARQ or HARQ (``RadioStageSpec``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bentpipe.plan.link import channel
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import (
        CodeSpec,
        DecoderSpec,
        FeedbackSpec,
        HarqCombining,
        LinkLayerSpec,
        QueueSpec,
        RadioStageSpec,
        ReorderingSpec,
    )
    from bentpipe.scenario.link.arq import LinkLayer, ReorderingBuffer
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.quantities import Rate

__all__ = ["check", "stage"]

WINDOW = 500
"""Default window in packets: the buffer of Tauran 2018, section 3.4.3."""

_COMBINING: dict[str, HarqCombining] = {
    "harq-chase": "chase",
    "harq-2": "incremental",
    "harq-3": "incremental",
    "adaptive-harq": "incremental",
}


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
    layer = direction.link_layer
    if layer is None:
        raise ScenarioError([(f"{key}.link_layer", "missing")])
    return {
        "kind": "radio",
        "queue": queue,
        "channel": channel.channel(direction.channel, files, f"{key}.channel")
        if direction.channel is not None
        else None,
        "link_layer": link_layer(layer, rate.bit_s),
        "reordering": reordering(direction.reordering_buffer),
    }


def link_layer(layer: LinkLayer, rate_bit_s: int) -> LinkLayerSpec:
    """Return the ``LinkLayerSpec`` of a link layer, given the rate of coded bits."""
    attempts, information = layer.attempts, layer.frame.bytes * 8
    feedback: FeedbackSpec | None = None
    time_out = None
    decoder: DecoderSpec = {"kind": "information", "margin": layer.margin}
    if layer.block_error_rate is not None:
        decoder = {
            "kind": "block_errors",
            "probabilities": [one.value for one in layer.block_error_rate],
        }
    if attempts != 1:
        loss = layer.feedback_loss.value
        feedback = {"delay_ns": layer.feedback_delay.ns, "loss": loss}
        time_out = layer.timeout or (layer.feedback_delay if loss > 0 else None)
    spec: LinkLayerSpec = {
        "rate_bit_s": rate_bit_s,
        "frame_bytes": layer.frame.bytes,
        "overhead_bits": layer.overhead_bits,
        "code": _code(layer, information),
        "decoder": decoder,
        "combining": _COMBINING.get(layer.scheme, "none"),
        "repeat": "go_back_n" if layer.scheme == "go-back-n" else "selective",
        "attempts": attempts,
        "window": _window(layer),
        "feedback": feedback,
        "timeout_ns": time_out.ns if time_out is not None else None,
    }
    if layer.first_overhead_bits:
        spec["first_overhead_bits"] = layer.first_overhead_bits
    return spec


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


def reordering(buffer: ReorderingBuffer | None) -> ReorderingSpec | None:
    """Return the ``ReorderingSpec`` of a reordering buffer; None without one."""
    if buffer is None or buffer.packets == 0:
        return None
    limit = buffer.time_limit
    return {
        "packets": buffer.packets,
        "time_limit_ns": limit.ns if limit is not None else None,
        "numbering": buffer.numbering,
    }
