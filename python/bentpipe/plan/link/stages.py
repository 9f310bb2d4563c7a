"""Stages of one direction of a link, in the order of a packet.

``[loss before] -> queue and transmitter (or netem's) -> outages -> [loss after] -> delay -> jitter ->
reordering``. Loss "after" (the default) is loss on the link: a lost packet has used airtime. Loss "before" (the
default with ``netem = true``) is netem's order: a lost packet never enters the queue. Outages can be placed before
netem, which has its own delay, or behind all other stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plan.link import acm, nr, queues, radio, reconfiguration, scheduler
from bentpipe.plan.link.loss import loss_stage
from bentpipe.plan.link.queues import QueueContext
from bentpipe.plan.link.scheduler import SINGLE_USER, Users
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration, Rate
from bentpipe.scenario.traces import MAHIMAHI_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import (
        DelayChange,
        JitterModel,
        NetemStageSpec,
        QueueSpec,
        ServiceSpec,
        StageSpec,
    )
    from bentpipe.scenario.link.direction import Direction, Jitter

__all__ = [
    "DELAY_STAGES",
    "IN_FLIGHT_STAGES",
    "QUEUE_STAGES",
    "STOCHASTIC_STAGES",
    "base_delay_ns",
    "delay_min_ns",
    "first_rate",
    "rate_max",
    "stages",
]

IN_FLIGHT_STAGES = ("delay", "delay_trace", "reconfiguration_delay", "jitter", "reorder", "outage")
"""Kinds of stages behind the transmitter, with packets in flight."""
QUEUE_STAGES = ("transmit", "radio", "nr", "acm")
"""Kinds of stages with a queue."""
DELAY_STAGES = ("delay", "delay_trace", "reconfiguration_delay", "jitter")
"""Kinds of stages that can preserve the order of packets in flight, or reorder them."""
STOCHASTIC_STAGES = ("reconfiguration_delay", "jitter", "reorder")
"""Kinds of stages that are stochastic with any settings."""


def base_delay_ns(direction: Direction, files: Files, key: str) -> int:
    """Return the one-way delay at the start in ns, which "1 BDP" refers to; a median if it is random."""
    delay, interval_ns = direction.delay, reconfiguration.delay_median_ns(direction)
    if delay is None or delay.constant is not None:
        return _constant_ns(direction) + interval_ns
    return interval_ns + files.delays(delay, key)[0][1]


def delay_min_ns(direction: Direction, files: Files, key: str) -> int:
    """Return the lowest one-way delay of the direction in ns, without handovers."""
    delay, interval_ns = direction.delay, reconfiguration.delay_min_ns(direction)
    if delay is not None and delay.constant is None:
        return interval_ns + min(value for _, value in files.delays(delay, key))
    changed = [change.delay.ns for change in direction.changes or [] if change.delay is not None]
    return interval_ns + min([_constant_ns(direction), *changed])


def _constant_ns(direction: Direction) -> int:
    delay = direction.delay
    return 0 if delay is None or delay.constant is None else delay.constant.ns


def first_rate(direction: Direction, files: Files, key: str) -> Rate | None:
    """Return the rate at the start of the run; None without a transmitter.

    It is the mean of a Mahimahi trace, the median of reconfiguration intervals, or the highest of adaptive coding.

    Args:
        direction: the direction.
        files: input files.
        key: key of the direction, for errors.

    Raises:
        ScenarioError: a trace that cannot be used.
    """
    if (interval_rate := reconfiguration.rate_median(direction)) is not None:
        return interval_rate
    if direction.trace is not None:
        return Rate(files.mahimahi(direction.trace, f"{key}.trace").bit_s)
    if direction.acm is not None:
        return acm.rate_max(direction.acm, f"{key}.acm")
    if direction.rate is None:
        return None
    if direction.rate.constant is not None:
        return direction.rate.constant
    return Rate(_rates(direction, files, key)[0][1])


def _rates(direction: Direction, files: Files, key: str) -> list[tuple[int, int]]:
    name = direction.rate.trace if direction.rate is not None else None
    points = [(at, int(value)) for at, value in files.csv(name or "", "rate", f"{key}.rate")]
    zero_at = next((at for at, value in points if value == 0), None)
    if zero_at is not None:
        raise ScenarioError(
            [
                (
                    f"{key}.rate",
                    f"found a rate of 0 at {Duration(zero_at)}, expected rates above 0; use outages",
                )
            ]
        )
    return points


def rate_max(direction: Direction, files: Files, key: str) -> Rate | None:
    """Return the highest rate of the direction over time; None without a transmitter. Raises ScenarioError."""
    if (interval_rate := reconfiguration.rate_max(direction)) is not None:
        return interval_rate
    first = first_rate(direction, files, key)
    if first is None:
        return None
    rates = [
        first.bit_s,
        *[change.rate.bit_s for change in direction.changes or [] if change.rate is not None],
    ]
    if direction.rate is not None and direction.rate.trace is not None:
        rates += [value for _, value in _rates(direction, files, key)]
    return Rate(max(rates))


def stages(
    direction: Direction,
    rtt: Duration,
    packet_bytes: int,
    files: Files,
    key: str,
    updated: Collection[str] = (),
    users: Users = SINGLE_USER,
) -> list[StageSpec]:
    """Return the stages of a direction in order.

    Args:
        direction: the direction with all defaults merged.
        rtt: the round-trip time of "1 BDP".
        packet_bytes: bytes of a full packet with all headers.
        files: input files.
        key: key of the direction, for errors.
        updated: keys that handovers set; ``delay`` and ``loss`` then have a stage even if they are zero.
        users: users that share the link.

    Raises:
        ScenarioError: keys that cannot be combined, or a trace that cannot be used.
    """
    acm.check(direction, key)
    scheduler.check(direction, users, key)
    nr.check(direction, key)
    radio.check(direction, key)
    reconfiguration.check(direction, key)
    before = (
        direction.loss_position or ("before-queue" if direction.netem else "after-queue")
    ) == "before-queue"
    interval_loss = reconfiguration.loss_stages(direction)
    loss = interval_loss or loss_stage(direction, files, key, always="loss" in updated)
    delay = _delay(direction, files, key, always="delay" in updated)
    if direction.netem:
        service: list[StageSpec] = [_netem(direction, rtt, files, key)]
        delay = []
    else:
        service = _transmit(direction, rtt, packet_bytes, files, key, users)
    outages = _outages(direction)
    position = direction.outages.position if direction.outages is not None else None
    outages_first = position == "before-delay" and bool(direction.netem)
    outages_last = position == "after-stages"
    stage_specs = [
        *(loss if before else []),
        *(outages if outages_first else []),
        *service,
        *([] if outages_first or outages_last else outages),
        *_orbit_outages(direction, files, key),
        *([] if before else loss),
        *delay,
        *reconfiguration.delay_stage(direction),
    ]
    if direction.jitter is not None:
        stage_specs.append(
            {"kind": "jitter", "model": _jitter(direction.jitter), "reorder": direction.jitter.reorder}
        )
    if direction.reorder is not None:
        stage_specs.append(
            {
                "kind": "reorder",
                "probability": direction.reorder.probability.value,
                "delay_ns": direction.reorder.delay.ns,
            }
        )
    return [*stage_specs, *outages] if outages_last else stage_specs


def _transmit(
    direction: Direction, rtt: Duration, packet_bytes: int, files: Files, key: str, users: Users
) -> list[StageSpec]:
    rate = first_rate(direction, files, key)
    if rate is None:
        for name in ("queue", "aqm"):
            if getattr(direction, name) is not None:
                raise ScenarioError([(f"{key}.{name}", "requires a rate or a trace")])
        if any(change.rate is not None for change in direction.changes or []):
            raise ScenarioError([(f"{key}.changes", "found a change of rate, which requires a rate")])
        return []
    if direction.acm is not None:
        return [
            acm.stage(
                direction,
                queues.queue_spec(QueueContext(direction, rate, rtt, packet_bytes, key, users)),
                files,
                key,
            )
        ]
    service: ServiceSpec
    interval_service = reconfiguration.service(direction)
    if interval_service is not None:
        service = interval_service
    elif direction.trace is not None:
        trace = files.mahimahi(direction.trace, f"{key}.trace")
        if any(change.rate is not None for change in direction.changes or []):
            raise ScenarioError(
                [(f"{key}.changes", "found a change of rate beside a trace, expected one of them")]
            )
        service = {
            "kind": "trace",
            "opportunities_ns": list(trace.slots_ns),
            "opportunity_bytes": MAHIMAHI_BYTES,
            "repeat_ns": trace.repeat_ns,
        }
    else:
        changes = [(c.at.ns, c.rate.bit_s) for c in direction.changes or [] if c.rate is not None]
        if direction.rate is not None and direction.rate.trace is not None:
            if changes:
                raise ScenarioError(
                    [(f"{key}.changes", "found a change of rate beside a trace, expected one of them")]
                )
            changes = _rates(direction, files, key)[1:]
        service = {
            "kind": "rate",
            "rate_bit_s": rate.bit_s,
            "changes": [{"at_ns": at, "rate_bit_s": value} for at, value in changes],
        }
    queue = queues.queue_spec(QueueContext(direction, rate, rtt, packet_bytes, key, users))
    return [_transmitter(direction, queue, service, rate, files, key)]


def _transmitter(
    direction: Direction, queue: QueueSpec, service: ServiceSpec, rate: Rate, files: Files, key: str
) -> StageSpec:
    """Return the stage with a queue and its transmitter: a wire, or a radio link."""
    if direction.nr is not None:
        return nr.stage(direction, queue, rate, files, key)
    if direction.link_layer is not None:
        return radio.stage(direction, queue, rate, files, key)
    return {"kind": "transmit", "queue": queue, "service": service}


def _netem(direction: Direction, rtt: Duration, files: Files, key: str) -> NetemStageSpec:
    rate = direction.rate.constant if direction.rate is not None else None
    if rate is None:
        raise ScenarioError([(f"{key}.netem", 'requires a constant rate, such as rate = "10 Mbit/s"')])
    if direction.aqm is not None:
        raise ScenarioError(
            [(f"{key}.aqm", "cannot be combined with netem = true, whose queue is first in, first out")]
        )
    if direction.delay is not None and direction.delay.constant is None:
        raise ScenarioError([(f"{key}.delay", "found a trace, expected a constant delay with netem = true")])
    if any(change.rate is not None or change.delay is not None for change in direction.changes or []):
        raise ScenarioError(
            [
                (
                    f"{key}.changes",
                    "found a change of rate or delay, which cannot be combined with netem = true",
                )
            ]
        )
    return {
        "kind": "netem",
        "rate_bit_s": rate.bit_s,
        "delay_ns": base_delay_ns(direction, files, key),
        "limit_packets": queues.packets(direction, rate, rtt, key),
    }


def _delay(direction: Direction, files: Files, key: str, *, always: bool) -> list[StageSpec]:
    changes: list[DelayChange] = [
        {"at_ns": change.at.ns, "delay_ns": change.delay.ns}
        for change in direction.changes or []
        if change.delay is not None
    ]
    delay = direction.delay
    if delay is not None and delay.constant is None:
        if changes:
            raise ScenarioError(
                [(f"{key}.changes", "found a change of delay beside a trace, expected one of them")]
            )
        points = files.delays(delay, key)
        if delay.repeat is not None and points[-1][0] >= delay.repeat.ns:
            last = Duration(points[-1][0])
            raise ScenarioError(
                [(f"{key}.delay.repeat", f"found {delay.repeat}, expected more than the trace's {last}")]
            )
        return [
            {
                "kind": "delay_trace",
                "points": [[at, value] for at, value in points],
                "interpolation": "linear" if delay.orbit is not None else delay.interpolation,
                "repeat_ns": delay.repeat.ns if delay.repeat is not None else None,
                "reorder": delay.reorder,
            }
        ]
    constant = _constant_ns(direction)
    if constant == 0 and not changes and not always:
        return []
    return [{"kind": "delay", "delay_ns": constant, "changes": changes}]


def _orbit_outages(direction: Direction, files: Files, key: str) -> list[StageSpec]:
    """Return outages for the times without a route, if the delay follows an orbit."""
    if direction.delay is None or direction.delay.orbit is None:
        return []
    gaps = files.route_timeline(f"{key}.delay").gaps
    windows = [[start, end] for start, end in gaps]
    return (
        [{"kind": "outage", "windows": windows, "repeat_ns": None, "buffer_packets": False}]
        if windows
        else []
    )


def _outages(direction: Direction) -> list[StageSpec]:
    outages = direction.outages
    if outages is None:
        return []
    return [
        {
            "kind": "outage",
            "windows": [[window.at.ns, window.at.ns + window.duration.ns] for window in outages.windows],
            "repeat_ns": outages.repeat.ns if outages.repeat is not None else None,
            "buffer_packets": outages.buffer_packets,
        }
    ]


def _jitter(jitter: Jitter) -> JitterModel:
    if jitter.uniform is not None:
        return {"kind": "uniform", "max_ns": jitter.uniform.ns}
    if jitter.exponential is not None:
        return {"kind": "exponential", "mean_ns": jitter.exponential.ns}
    if jitter.normal is None:
        raise ScenarioError([("jitter", "found none, expected a distribution")])
    return {"kind": "normal", "mean_ns": jitter.normal.mean.ns, "deviation_ns": jitter.normal.deviation.ns}
