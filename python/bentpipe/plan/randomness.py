"""What a resolved run draws at random: the one answer for how many seeds a plan needs and for what two clocks may
differ in."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from bentpipe.plan.link.loss import is_loss_stochastic
from bentpipe.plan.link.scheduler import schedulers
from bentpipe.plan.link.stages import STOCHASTIC_STAGES

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.plan.spec.run_spec import (
        ChannelSpec,
        DecoderSpec,
        FeedbackSpec,
        LoadSpec,
        RunSpec,
        SourceSpec,
        StageSpec,
        TopologySpec,
    )

__all__ = ["RandomInput", "controllers", "is_path_stochastic", "random_inputs"]


class RandomInput(StrEnum):
    """Where a run's random numbers go."""

    PATH = "path"
    """Packets are lost, delayed or put out of order at random."""
    LOAD = "load"
    """Starts, arrivals, sizes, pauses."""
    CONTROLLER = "controller"
    """A congestion controller's own: when BBR probes. One that is not known may."""
    SCHEDULER = "scheduler"
    """Those of a scheduler that is given from outside: it may."""


def random_inputs(spec: RunSpec, silent: Collection[str] = ()) -> frozenset[RandomInput]:
    """What is drawn in a resolved run; ``silent`` are the controllers that draw nothing."""
    found = {
        RandomInput.PATH: is_path_stochastic(spec["graph"]),
        RandomInput.LOAD: any(flow["start_jitter_ns"] > 0 or _load(flow["load"]) for flow in spec["flows"]),
        RandomInput.CONTROLLER: not controllers(spec) <= set(silent),
        RandomInput.SCHEDULER: bool(schedulers(spec)),
    }
    return frozenset(draw for draw, is_drawn in found.items() if is_drawn)


def is_path_stochastic(graph: TopologySpec) -> bool:
    """Return whether any link of ``graph`` loses, delays or reorders packets at random."""
    return any(_stage(stage) for link in graph["links"] for way in ("up", "down") for stage in link[way])


def controllers(spec: RunSpec) -> set[str]:
    """Names of all controllers that a resolved run uses."""
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


def _stage(stage: StageSpec) -> bool:
    if stage["kind"] == "radio":
        layer = stage["link_layer"]
        return _erring(layer["decoder"], layer["feedback"], stage["channel"])
    if stage["kind"] == "nr":
        return _erring(stage["decoder"], stage["feedback"], stage["channel"])
    if stage["kind"] == "acm":
        return _channel(stage["channel"])
    if stage["kind"] == "loss":
        return is_loss_stochastic(stage)
    if stage["kind"] == "transmit":
        return stage["service"]["kind"] == "slots"
    return stage["kind"] in STOCHASTIC_STAGES


def _erring(decoder: DecoderSpec, feedback: FeedbackSpec | None, channel: ChannelSpec | None) -> bool:
    if decoder["kind"] == "block_errors" and any(0 < one < 1 for one in decoder["probabilities"]):
        return True
    if feedback is not None and 0 < feedback["loss"] < 1:
        return True
    return channel is not None and _channel(channel)


def _channel(channel: ChannelSpec) -> bool:
    """A fading channel that has no seed of its own."""
    if channel["kind"] == "fixed" or channel["kind"] == "measured":
        return False
    if channel["kind"] == "ranged":
        return _channel(channel["channel"])
    return channel["motion"].get("seed") is None


def _source(source: SourceSpec | None) -> bool:
    periods = source["periods"] if source is not None else None
    return periods is not None and periods["draw"]["kind"] != "fixed"


def _load(load: LoadSpec) -> bool:
    if load["kind"] == "on_off":
        return load["exponential"] or "pareto_shape" in load
    if load["kind"] == "datagrams":
        return any(_source(source) for source in (load["up"], load["down"]))
    if load["kind"] == "page":
        low, high = load["pause_ns"]
        return load["loads"] > 1 and low != high
    return load["kind"] == "poisson"
