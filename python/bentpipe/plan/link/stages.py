"""One direction of a link as a list of stages, in the order in which a packet meets them.

``[loss before] -> queue and transmitter (or netem's) -> outages -> [loss after] -> delay -> jitter ->
reordering``. Loss "after" (the default) falls on the link: a lost packet has used the link's time. Loss
"before" (the default with ``netem = true``) is netem's order: a lost packet never enters the queue. Outages
may be said to be before netem, whose delay is its own, or behind all others.
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

IN_FLIGHT_STAGES = ("delay", "delay_trace", "slot_delay", "jitter", "reorder", "outage")
"""Kinds of stages behind the transmitter that packets are in flight in."""
QUEUE_STAGES = ("transmit", "radio", "nr", "acm")
"""Kinds of stages that packets wait in for their turn."""
DELAY_STAGES = ("delay", "delay_trace", "slot_delay", "jitter")
"""Those of them that may keep who is in flight in order, or let it be overtaken."""
STOCHASTIC_STAGES = ("slot_delay", "jitter", "reorder")
"""Those of them that draw at random, whatever their settings are."""


def base_delay_ns(direction: Direction, files: Files, key: str) -> int:
    """One-way delay at the start of the run: what "1 BDP" counts with."""
    delay, drawn = direction.delay, reconfiguration.delay_median_ns(direction)
    if delay is None or delay.constant is not None:
        return _constant_ns(direction) + drawn
    return drawn + files.delays(delay, key)[0][1]


def delay_min_ns(direction: Direction, files: Files, key: str) -> int:
    """The smallest one-way delay that the direction ever has by itself."""
    delay, drawn = direction.delay, reconfiguration.delay_min_ns(direction)
    if delay is not None and delay.constant is None:
        return drawn + min(value for _, value in files.delays(delay, key))
    changed = [change.delay.ns for change in direction.changes or [] if change.delay is not None]
    return drawn + min([_constant_ns(direction), *changed])


def _constant_ns(direction: Direction) -> int:
    delay = direction.delay
    return 0 if delay is None or delay.constant is None else delay.constant.ns


def first_rate(direction: Direction, files: Files, key: str) -> Rate | None:
    """Rate at the start of the run (a Mahimahi trace's mean, the median of slots, the fastest that follows a
    channel); None without a transmitter."""
    if (drawn := reconfiguration.rate_median(direction)) is not None:
        return drawn
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
    stopped = next((at for at, value in points if value == 0), None)
    if stopped is not None:
        raise ScenarioError(
            [
                (
                    f"{key}.rate",
                    f"found a rate of 0 at {Duration(stopped)}, expected rates above 0; use outages",
                )
            ]
        )
    return points


def rate_max(direction: Direction, files: Files, key: str) -> Rate | None:
    """The largest rate the direction ever has."""
    if (drawn := reconfiguration.rate_max(direction)) is not None:
        return drawn
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
    wire: int,
    files: Files,
    key: str,
    moved: Collection[str] = (),
    users: Users = SINGLE_USER,
) -> list[StageSpec]:
    """The direction in the engine's words (``StageSpec``).

    Args:
        direction: the direction with everything merged in.
        rtt: what "1 BDP" counts with.
        wire: bytes of a full packet with all headers.
        files: traces.
        key: the direction's key, for errors.
        moved: ``delay`` and ``loss`` have a stage even if they are none, because hand-overs set them.
        users: whose packets cross it.

    Raises:
        ScenarioError: keys that do not go together, a trace that cannot be used.
    """
    acm.check(direction, key)
    scheduler.check(direction, users, key)
    nr.check(direction, key)
    radio.check(direction, key)
    reconfiguration.check(direction, key)
    before = (direction.loss_place or ("before" if direction.netem else "after")) == "before"
    drawn_loss = reconfiguration.loss_stages(direction)
    loss = drawn_loss or loss_stage(direction, files, key, always="loss" in moved)
    delay = _delay(direction, files, key, always="delay" in moved)
    if direction.netem:
        service: list[StageSpec] = [_netem(direction, rtt, wire, files, key)]
        delay = []
    else:
        service = _transmit(direction, rtt, wire, files, key, users)
    outages = _outages(direction)
    place = direction.outages.place if direction.outages is not None else None
    ahead = place == "before" and bool(direction.netem)
    behind = place == "behind"
    found = [
        *(loss if before else []),
        *(outages if ahead else []),
        *service,
        *([] if ahead or behind else outages),
        *_gaps(direction, files, key),
        *([] if before else loss),
        *delay,
        *reconfiguration.delay_stage(direction),
    ]
    if direction.jitter is not None:
        found.append(
            {"kind": "jitter", "model": _jitter(direction.jitter), "reorder": direction.jitter.reorder}
        )
    if direction.reorder is not None:
        found.append(
            {
                "kind": "reorder",
                "probability": direction.reorder.probability.value,
                "hold_ns": direction.reorder.hold.ns,
            }
        )
    return [*found, *outages] if behind else found


def _transmit(
    direction: Direction, rtt: Duration, wire: int, files: Files, key: str, users: Users
) -> list[StageSpec]:
    rate = first_rate(direction, files, key)
    if rate is None:
        for name in ("queue", "aqm"):
            if getattr(direction, name) is not None:
                raise ScenarioError([(f"{key}.{name}", "goes with a rate or a trace, and there is none")])
        if any(change.rate is not None for change in direction.changes or []):
            raise ScenarioError(
                [(f"{key}.changes", "found a change of rate, and there is no rate to change")]
            )
        return []
    if direction.acm is not None:
        return [
            acm.stage(
                direction, queues.queue_spec(QueueContext(direction, rate, rtt, wire, key, users)), files, key
            )
        ]
    service: ServiceSpec
    drawn = reconfiguration.service(direction)
    if drawn is not None:
        service = drawn
    elif direction.trace is not None:
        trace = files.mahimahi(direction.trace, f"{key}.trace")
        if any(change.rate is not None for change in direction.changes or []):
            raise ScenarioError(
                [(f"{key}.changes", "found a change of rate beside a trace, expected one of them")]
            )
        service = {
            "kind": "trace",
            "slots_ns": list(trace.slots_ns),
            "slot_bytes": MAHIMAHI_BYTES,
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
    queue = queues.queue_spec(QueueContext(direction, rate, rtt, wire, key, users))
    return [_behind(direction, queue, service, rate, files, key)]


def _behind(
    direction: Direction, queue: QueueSpec, service: ServiceSpec, rate: Rate, files: Files, key: str
) -> StageSpec:
    """What stands behind a queue: a wire, or a radio link at the rate."""
    if direction.nr is not None:
        return nr.stage(direction, queue, rate, files, key)
    if direction.link_layer is not None:
        return radio.stage(direction, queue, rate, files, key)
    return {"kind": "transmit", "queue": queue, "service": service}


def _netem(direction: Direction, rtt: Duration, wire: int, files: Files, key: str) -> NetemStageSpec:
    del wire
    rate = direction.rate.constant if direction.rate is not None else None
    if rate is None:
        raise ScenarioError(
            [(f"{key}.netem", 'expected a constant rate beside it, such as rate = "10 Mbit/s"')]
        )
    if direction.aqm is not None:
        raise ScenarioError(
            [(f"{key}.aqm", "does not go with netem = true, whose queue is first in, first out")]
        )
    if direction.delay is not None and direction.delay.constant is None:
        raise ScenarioError([(f"{key}.delay", "found a trace, expected a constant delay with netem = true")])
    if any(change.rate is not None or change.delay is not None for change in direction.changes or []):
        raise ScenarioError(
            [(f"{key}.changes", "found a change of rate or delay, which netem = true does not have")]
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


def _gaps(direction: Direction, files: Files, key: str) -> list[StageSpec]:
    """Outages while the orbit whose leg the direction takes has no way."""
    if direction.delay is None or direction.delay.orbit is None:
        return []
    gaps = files.route_timeline(f"{key}.delay").gaps
    windows = [[begin, end] for begin, end in gaps]
    return [{"kind": "outage", "windows": windows, "repeat_ns": None, "hold": False}] if windows else []


def _outages(direction: Direction) -> list[StageSpec]:
    outages = direction.outages
    if outages is None:
        return []
    return [
        {
            "kind": "outage",
            "windows": [[window.at.ns, window.at.ns + window.length.ns] for window in outages.windows],
            "repeat_ns": outages.repeat.ns if outages.repeat is not None else None,
            "hold": outages.hold,
        }
    ]


def _jitter(jitter: Jitter) -> JitterModel:
    if jitter.uniform is not None:
        return {"kind": "uniform", "most_ns": jitter.uniform.ns}
    if jitter.exponential is not None:
        return {"kind": "exponential", "mean_ns": jitter.exponential.ns}
    if jitter.normal is None:
        raise ScenarioError([("jitter", "found none, expected a distribution")])
    return {"kind": "normal", "mean_ns": jitter.normal.mean.ns, "deviation_ns": jitter.normal.deviation.ns}
