"""Random inputs of a resolved run.

They decide how many seeds a plan needs, and where simulation and emulation may differ.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from bentpipe.plan.link.loss import is_loss_stochastic
from bentpipe.plan.link.scheduler import schedulers
from bentpipe.plan.link.stages import STOCHASTIC_STAGES
from bentpipe.scenario.link.generated import DRAWN_CHANNELS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bentpipe.plan.spec.run_spec import (
        ChannelSpec,
        DecoderSpec,
        FeedbackSpec,
        FlowSpec,
        LoadSpec,
        RunSpec,
        SourceSpec,
        StageSpec,
        TopologySpec,
    )

__all__ = ["RandomInput", "controllers", "is_path_stochastic", "random_inputs"]


class RandomInput(StrEnum):
    """Part of a run that uses random numbers."""

    PATH = "path"
    """Random loss, delay or reordering of packets."""
    LOAD = "load"
    """Random starts, arrivals, sizes and pauses."""
    QUIC = "QUIC"
    """Packet numbers that a QUIC stack skips at random (RFC 9000, section 21.4), and its connection ids."""
    CONTROLLER = "controller"
    """Random numbers of a congestion controller, such as the time of a BBR probe; an unknown one may draw."""
    SCHEDULER = "scheduler"
    """Random numbers of a user-supplied scheduler, which may draw."""


def random_inputs(spec: RunSpec, deterministic: Collection[str] = ()) -> frozenset[RandomInput]:
    """Return the random inputs of a resolved run.

    Args:
        spec: the resolved run.
        deterministic: names of the controllers that draw no random numbers.
    """
    used = {
        RandomInput.PATH: is_path_stochastic(spec["graph"]),
        RandomInput.LOAD: any(
            flow["start_jitter_ns"] > 0 or _is_load_stochastic(flow["load"]) for flow in spec["flows"]
        ),
        RandomInput.QUIC: any(_uses_quic(flow) for flow in spec["flows"]),
        RandomInput.CONTROLLER: not controllers(spec) <= set(deterministic),
        RandomInput.SCHEDULER: bool(schedulers(spec)),
    }
    return frozenset(part for part, is_used in used.items() if is_used)


def is_path_stochastic(graph: TopologySpec) -> bool:
    """Return whether any link of ``graph`` loses, delays or reorders packets at random."""
    return any(
        _is_stage_stochastic(stage)
        for link in graph["links"]
        for way in ("up", "down")
        for stage in link[way]
    )


def controllers(spec: RunSpec) -> set[str]:
    """Return the names of all controllers in a resolved run."""
    found: set[str] = set()
    for flow in spec["flows"]:
        if flow["transport"]["kind"] == "udp":
            continue
        found |= {flow["client_congestion"]["name"], flow["server_congestion"]["name"]}
        transport = flow["transport"]
        if transport["kind"] == "web":
            found |= {one["name"] for one in transport.get("tcp_congestion") or ()}
    for proxy in spec.get("proxies", ()):
        found |= {proxy["client_side"]["congestion"], proxy["server_side"]["congestion"]}
    return found


def _uses_quic(flow: FlowSpec) -> bool:
    load = flow["load"]
    if load["kind"] == "page":
        return load["http"] in ("3", "alt-svc")
    return flow["transport"]["kind"] == "quic"


def _is_stage_stochastic(stage: StageSpec) -> bool:
    if stage["kind"] == "radio":
        layer = stage["link_layer"]
        return _has_random_errors(layer["decoder"], layer["feedback"], stage["channel"])
    if stage["kind"] == "nr":
        return _has_random_errors(stage["decoder"], stage["feedback"], stage["channel"])
    if stage["kind"] == "acm":
        return _is_channel_stochastic(stage["channel"])
    if stage["kind"] == "loss":
        return is_loss_stochastic(stage)
    if stage["kind"] == "transmit":
        return stage["service"]["kind"] == "reconfiguration"
    return stage["kind"] in STOCHASTIC_STAGES


def _has_random_errors(
    decoder: DecoderSpec, feedback: FeedbackSpec | None, channel: ChannelSpec | None
) -> bool:
    if decoder["kind"] == "block_errors" and any(0 < rate < 1 for rate in decoder["probabilities"]):
        return True
    if feedback is not None and 0 < feedback["loss"] < 1:
        return True
    return channel is not None and _is_channel_stochastic(channel)


def _is_channel_stochastic(channel: ChannelSpec) -> bool:
    """Return whether a channel fades and has no seed in the scenario."""
    if channel["kind"] == "range_loss":
        return _is_channel_stochastic(channel["channel"])
    motion: Mapping[str, object] = cast("Mapping[str, Any]", channel).get("motion", {})
    return channel["kind"] in DRAWN_CHANNELS and motion.get("seed") is None


def _is_source_stochastic(source: SourceSpec | None) -> bool:
    periods = source["periods"] if source is not None else None
    return periods is not None and periods["distribution"]["kind"] != "fixed"


def _is_load_stochastic(load: LoadSpec) -> bool:
    if load["kind"] == "on_off":
        return load["exponential"] or "pareto_shape" in load
    if load["kind"] == "datagrams":
        return any(_is_source_stochastic(source) for source in (load["up"], load["down"]))
    if load["kind"] == "page":
        low, high = load["pause_ns"]
        return load["loads"] > 1 and low != high
    return load["kind"] == "poisson"
