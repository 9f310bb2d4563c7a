"""Slots in the engine's words: the delay, the rate and the loss that a direction draws anew in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Rate

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import ServiceSpec, SlotsSpec, StageSpec
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.reconfiguration import Reconfiguration

__all__ = [
    "check",
    "delay_median_ns",
    "delay_min_ns",
    "delay_stage",
    "loss_stages",
    "rate_max",
    "rate_median",
    "service",
]


def check(direction: Direction, key: str) -> None:
    """Refuses what does not go together with slots. Raises ScenarioError."""
    slots = direction.slots
    if slots is None:
        return
    beside: list[tuple[str, object]] = [("netem", direction.netem)]
    if slots.rate is not None:
        beside += [("rate", direction.rate), ("trace", direction.trace), ("link_layer", direction.link_layer)]
        beside += [("acm", direction.acm)]
    if slots.loss is not None or slots.bursts is not None:
        beside += [("loss", direction.loss)]
    changed = [change for change in direction.changes or [] if change.rate is not None and slots.rate]
    lost = [
        change
        for change in direction.changes or []
        if change.loss is not None and (slots.loss or slots.bursts)
    ]
    beside += [("changes", changed or lost)]
    for name, found in beside:
        if found:
            raise ScenarioError(
                [(f"{key}.{name}", f"found {name} beside slots that say the same, expected one of them")]
            )


def _timing(slots: Reconfiguration) -> SlotsSpec:
    return {"every_ns": slots.every.ns, "phase_ns": slots.phase.ns, "jitter_ns": slots.jitter.ns}


def delay_stage(direction: Direction) -> list[StageSpec]:
    """The delay of slots, which comes on top of a constant one; none without."""
    slots = direction.slots
    if slots is None or (slots.delay is None and slots.delay_jitter is None):
        return []
    return [
        {
            "kind": "slot_delay",
            "slots": _timing(slots),
            "delay_ns": [one.ns for one in slots.delay or []] or [0],
            "jitter_ns": [one.ns for one in slots.delay_jitter or []],
            "step_ns": slots.delay_step.ns,
            "correlation": float(slots.delay_correlation),
        }
    ]


def service(direction: Direction) -> ServiceSpec | None:
    """The transmitter of slots; None: theirs is not the rate."""
    slots = direction.slots
    if slots is None or slots.rate is None:
        return None
    return {"kind": "slots", "slots": _timing(slots), "rate_bit_s": [one.bit_s for one in slots.rate]}


def loss_stages(direction: Direction) -> list[StageSpec]:
    """The losses of slots; none without."""
    slots = direction.slots
    if slots is None or (slots.loss is None and slots.bursts is None):
        return []
    bursts = slots.bursts
    return [
        {
            "kind": "loss",
            "model": {
                "kind": "slots",
                "slots": _timing(slots),
                "probability": [one.value for one in slots.loss or []] or [0.0],
                "burst_probability": 0.0 if bursts is None else bursts.probability.value,
                "burst_ns": [] if bursts is None else [one.ns for one in bursts.length],
            },
            "changes": [],
        }
    ]


def _middle(values: list[int]) -> int:
    below, above = values[(len(values) - 1) // 2], values[len(values) // 2]
    return (below + above) // 2


def delay_median_ns(direction: Direction) -> int:
    """The median of the slots' delay and of its jitter together: what "1 BDP" counts with."""
    slots = direction.slots
    tables = [] if slots is None else [slots.delay, slots.delay_jitter]
    return sum(_middle([one.ns for one in table]) for table in tables if table)


def delay_min_ns(direction: Direction) -> int:
    """The least of the slots' delay."""
    slots = direction.slots
    tables = [] if slots is None else [slots.delay, slots.delay_jitter]
    return sum(table[0].ns for table in tables if table)


def rate_median(direction: Direction) -> Rate | None:
    """The median of the slots' rate; None without."""
    slots = direction.slots
    if slots is None or slots.rate is None:
        return None
    return Rate(_middle([one.bit_s for one in slots.rate]))


def rate_max(direction: Direction) -> Rate | None:
    """The largest rate of a slot; None without."""
    slots = direction.slots
    return None if slots is None or slots.rate is None else slots.rate[-1]
