"""Reconfiguration intervals (15 s for Starlink): random delay, rate and loss of each interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Rate

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import ReconfigurationSpec, ServiceSpec, StageSpec
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
    """Check the keys beside reconfiguration intervals. Raises ScenarioError."""
    slots = direction.slots
    if slots is None:
        return
    conflicts: list[tuple[str, object]] = [("netem", direction.netem)]
    if slots.rate is not None:
        conflicts += [
            ("rate", direction.rate),
            ("trace", direction.trace),
            ("link_layer", direction.link_layer),
        ]
        conflicts += [("acm", direction.acm)]
    if slots.loss is not None or slots.bursts is not None:
        conflicts += [("loss", direction.loss)]
    rate_changes = [change for change in direction.changes or [] if change.rate is not None and slots.rate]
    loss_changes = [
        change
        for change in direction.changes or []
        if change.loss is not None and (slots.loss or slots.bursts)
    ]
    conflicts += [("changes", rate_changes or loss_changes)]
    for name, value in conflicts:
        if value:
            raise ScenarioError(
                [(f"{key}.{name}", f"found {name} beside slots that say the same, expected one of them")]
            )


def _timing(slots: Reconfiguration) -> ReconfigurationSpec:
    return {"interval_ns": slots.every.ns, "phase_ns": slots.phase.ns, "jitter_ns": slots.jitter.ns}


def delay_stage(direction: Direction) -> list[StageSpec]:
    """Return the delay stage of the intervals, in addition to a constant delay; empty without one."""
    slots = direction.slots
    if slots is None or (slots.delay is None and slots.delay_jitter is None):
        return []
    return [
        {
            "kind": "reconfiguration_delay",
            "reconfiguration": _timing(slots),
            "delay_ns": [delay.ns for delay in slots.delay or []] or [0],
            "jitter_ns": [jitter.ns for jitter in slots.delay_jitter or []],
            "step_ns": slots.delay_step.ns,
            "correlation": float(slots.delay_correlation),
        }
    ]


def service(direction: Direction) -> ServiceSpec | None:
    """Return the service of a transmitter whose rate the intervals set; None without such a rate."""
    slots = direction.slots
    if slots is None or slots.rate is None:
        return None
    return {
        "kind": "reconfiguration",
        "reconfiguration": _timing(slots),
        "rate_bit_s": [rate.bit_s for rate in slots.rate],
    }


def loss_stages(direction: Direction) -> list[StageSpec]:
    """Return the loss stage of the intervals; empty without loss."""
    slots = direction.slots
    if slots is None or (slots.loss is None and slots.bursts is None):
        return []
    bursts = slots.bursts
    return [
        {
            "kind": "loss",
            "model": {
                "kind": "reconfiguration",
                "reconfiguration": _timing(slots),
                "probability": [loss.value for loss in slots.loss or []] or [0.0],
                "burst_probability": 0.0 if bursts is None else bursts.probability.value,
                "burst_ns": [] if bursts is None else [length.ns for length in bursts.length],
            },
            "changes": [],
        }
    ]


def _median(values: list[int]) -> int:
    below, above = values[(len(values) - 1) // 2], values[len(values) // 2]
    return (below + above) // 2


def delay_median_ns(direction: Direction) -> int:
    """Return the sum of the medians of delay and jitter in ns, which "1 BDP" refers to."""
    slots = direction.slots
    tables = [] if slots is None else [slots.delay, slots.delay_jitter]
    return sum(_median([value.ns for value in table]) for table in tables if table)


def delay_min_ns(direction: Direction) -> int:
    """Return the sum of the lowest delay and the lowest jitter in ns."""
    slots = direction.slots
    tables = [] if slots is None else [slots.delay, slots.delay_jitter]
    return sum(table[0].ns for table in tables if table)


def rate_median(direction: Direction) -> Rate | None:
    """Return the median rate of the intervals; None without a rate."""
    slots = direction.slots
    if slots is None or slots.rate is None:
        return None
    return Rate(_median([rate.bit_s for rate in slots.rate]))


def rate_max(direction: Direction) -> Rate | None:
    """Return the highest rate of an interval; None without a rate."""
    slots = direction.slots
    return None if slots is None or slots.rate is None else slots.rate[-1]
