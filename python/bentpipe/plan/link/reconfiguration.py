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
    intervals = direction.reconfiguration
    if intervals is None:
        return
    conflicts: list[tuple[str, object]] = [("netem", direction.netem)]
    if intervals.rate is not None:
        conflicts += [
            ("rate", direction.rate),
            ("trace", direction.trace),
            ("link_layer", direction.link_layer),
        ]
        conflicts += [("acm", direction.acm)]
    if intervals.loss is not None or intervals.loss_bursts is not None:
        conflicts += [("loss", direction.loss)]
    rate_changes = [
        change for change in direction.changes or [] if change.rate is not None and intervals.rate
    ]
    loss_changes = [
        change
        for change in direction.changes or []
        if change.loss is not None and (intervals.loss or intervals.loss_bursts)
    ]
    conflicts += [("changes", rate_changes or loss_changes)]
    for name, value in conflicts:
        if value:
            raise ScenarioError(
                [
                    (
                        f"{key}.{name}",
                        f"found {name} beside reconfiguration, which sets the same, expected one of them",
                    )
                ]
            )


def _timing(intervals: Reconfiguration) -> ReconfigurationSpec:
    return {
        "interval_ns": intervals.interval.ns,
        "phase_ns": intervals.phase.ns,
        "jitter_ns": intervals.jitter.ns,
    }


def delay_stage(direction: Direction) -> list[StageSpec]:
    """Return the delay stage of the intervals, in addition to a constant delay; empty without one."""
    intervals = direction.reconfiguration
    if intervals is None or (intervals.delay is None and intervals.delay_jitter is None):
        return []
    return [
        {
            "kind": "reconfiguration_delay",
            "reconfiguration": _timing(intervals),
            "delay_ns": [delay.ns for delay in intervals.delay or []] or [0],
            "jitter_ns": [jitter.ns for jitter in intervals.delay_jitter or []],
            "step_ns": intervals.delay_step.ns,
            "correlation": float(intervals.delay_correlation),
        }
    ]


def service(direction: Direction) -> ServiceSpec | None:
    """Return the service of a transmitter whose rate the intervals set; None without such a rate."""
    intervals = direction.reconfiguration
    if intervals is None or intervals.rate is None:
        return None
    return {
        "kind": "reconfiguration",
        "reconfiguration": _timing(intervals),
        "rate_bit_s": [rate.bit_s for rate in intervals.rate],
    }


def loss_stages(direction: Direction) -> list[StageSpec]:
    """Return the loss stage of the intervals; empty without loss."""
    intervals = direction.reconfiguration
    if intervals is None or (intervals.loss is None and intervals.loss_bursts is None):
        return []
    bursts = intervals.loss_bursts
    return [
        {
            "kind": "loss",
            "model": {
                "kind": "reconfiguration",
                "reconfiguration": _timing(intervals),
                "probability": [loss.value for loss in intervals.loss or []] or [0.0],
                "burst_probability": 0.0 if bursts is None else bursts.probability.value,
                "burst_ns": [] if bursts is None else [duration.ns for duration in bursts.duration],
            },
            "changes": [],
        }
    ]


def _median(values: list[int]) -> int:
    below, above = values[(len(values) - 1) // 2], values[len(values) // 2]
    return (below + above) // 2


def delay_median_ns(direction: Direction) -> int:
    """Return the sum of the medians of delay and jitter in ns, which "1 BDP" refers to."""
    intervals = direction.reconfiguration
    tables = [] if intervals is None else [intervals.delay, intervals.delay_jitter]
    return sum(_median([value.ns for value in table]) for table in tables if table)


def delay_min_ns(direction: Direction) -> int:
    """Return the sum of the lowest delay and the lowest jitter in ns."""
    intervals = direction.reconfiguration
    tables = [] if intervals is None else [intervals.delay, intervals.delay_jitter]
    return sum(table[0].ns for table in tables if table)


def rate_median(direction: Direction) -> Rate | None:
    """Return the median rate of the intervals; None without a rate."""
    intervals = direction.reconfiguration
    if intervals is None or intervals.rate is None:
        return None
    return Rate(_median([rate.bit_s for rate in intervals.rate]))


def rate_max(direction: Direction) -> Rate | None:
    """Return the highest rate of an interval; None without a rate."""
    intervals = direction.reconfiguration
    return None if intervals is None or intervals.rate is None else intervals.rate[-1]
