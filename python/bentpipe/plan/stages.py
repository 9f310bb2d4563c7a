"""One direction of a link as a list of stages, in the order in which a packet meets them.

``[loss before] -> queue and transmitter (or netem's) -> outages -> [loss after] -> delay -> jitter ->
reordering``. Loss "after" (the default) falls on the link: a lost packet has used the link's time. Loss
"before" (the default with ``netem = true``) is netem's order: a lost packet never enters the queue. Outages
may be said to be before netem, whose delay is its own, or behind all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plan import acm, nr, radio, schedulers, slots
from bentpipe.plan.losses import loss_stage
from bentpipe.plan.schedulers import ALONE, Users
from bentpipe.scenario.problems import ScenarioError
from bentpipe.scenario.traces import MAHIMAHI_BYTES
from bentpipe.scenario.units import Duration, QueueSize, Rate, UnitError

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.plan.files import Files
    from bentpipe.plan.spec import (
        DelayChange,
        JitterModel,
        NetemStageSpec,
        QueueLimit,
        QueueSpec,
        ServiceSpec,
        StageSpec,
    )
    from bentpipe.scenario.path import Direction, Jitter

__all__ = [
    "AFTER",
    "DRAWN",
    "ORDERED",
    "QUEUED",
    "base_delay_ns",
    "first_rate",
    "least_delay_ns",
    "limit_of",
    "most_rate",
    "queue_bytes",
    "stages",
]

AFTER = ("delay", "delay_trace", "slot_delay", "jitter", "reorder", "outage")
"""Kinds of stages behind the transmitter that packets are in flight in."""
QUEUED = ("transmit", "radio", "nr", "acm")
"""Kinds of stages that packets wait in for their turn."""
ORDERED = ("delay", "delay_trace", "slot_delay", "jitter")
"""Those of them that may keep who is in flight in order, or let it be overtaken."""
DRAWN = ("slot_delay", "jitter", "reorder")
"""Those of them that draw at random, whatever their settings are."""

ETHERNET_BYTES = 1500
"""A packet where a bound in packets is made of one in bytes (the convention of netem's users)."""
NETEM_LIMIT = 1000  # tc-netem(8)
CODEL_LIMIT = 1000  # tc-codel(8)
FQ_CODEL_LIMIT = 10_240  # RFC 8290 section 5.2.3
MOST_PACKETS = 2**32 - 1  # what tc takes for a limit


def base_delay_ns(direction: Direction, files: Files, key: str) -> int:
    """One-way delay at the start of the run: what "1 BDP" counts with."""
    delay, drawn = direction.delay, slots.median_ns(direction)
    if delay is None or delay.constant is not None:
        return _constant_ns(direction) + drawn
    return drawn + files.delays(delay, key)[0][1]


def least_delay_ns(direction: Direction, files: Files, key: str) -> int:
    """The smallest one-way delay that the direction ever has by itself."""
    delay, drawn = direction.delay, slots.least_ns(direction)
    if delay is not None and delay.constant is None:
        return drawn + min(value for _, value in files.delays(delay, key))
    changed = [change.delay.ns for change in direction.changes or [] if change.delay is not None]
    return drawn + min([_constant_ns(direction), *changed])


def _constant_ns(direction: Direction) -> int:
    delay = direction.delay
    return 0 if delay is None or delay.constant is None else delay.constant.ns


def limit_of(
    direction: Direction, queue: QueueSize, rate: Rate, rtt: Duration, wire: int, key: str
) -> QueueLimit | None:
    """Another bound of the direction's queue, in the engine's words, at this rate and round trip."""
    whole = direction.model_copy(update={"queue": queue})
    if direction.netem or (direction.aqm is not None and direction.aqm.name == "fq-codel"):
        return {"packets": _packets(whole, rate, rtt, key)}
    return _limit(whole, rate, rtt, wire, key)


def first_rate(direction: Direction, files: Files, key: str) -> Rate | None:
    """Rate at the start of the run (a Mahimahi trace's mean, the median of slots, the fastest that follows a
    channel); None without a transmitter."""
    if (drawn := slots.median_rate(direction)) is not None:
        return drawn
    if direction.trace is not None:
        return Rate(files.mahimahi(direction.trace, f"{key}.trace").bit_s)
    if direction.acm is not None:
        return acm.fastest(direction.acm, f"{key}.acm")
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


def most_rate(direction: Direction, files: Files, key: str) -> Rate | None:
    """The largest rate the direction ever has."""
    if (drawn := slots.most_rate(direction)) is not None:
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


def queue_bytes(direction: Direction, rtt: Duration, wire: int, files: Files, key: str) -> int | None:
    """The queue's bound in bytes (packets taken as full ones); None without a bound or a transmitter."""
    rate = first_rate(direction, files, key)
    if rate is None:
        return None
    queue = direction.queue or _default_queue(direction)
    if queue.kind == "none":
        return None
    if queue.kind == "packets":
        return int(queue.amount) * wire
    return max(_bytes_at(queue, rate, rtt, key) or 0, wire)


def _bytes_at(queue: QueueSize, rate: Rate, rtt: Duration, key: str) -> int | None:
    try:
        return queue.bytes_at(rate, rtt)
    except UnitError as error:
        raise ScenarioError([(f"{key}.queue", str(error))]) from None


def _default_queue(direction: Direction) -> QueueSize:
    if direction.netem:
        return QueueSize.parse(f"{NETEM_LIMIT} packets")
    if direction.aqm is not None and direction.aqm.name == "codel":
        return QueueSize.parse(f"{CODEL_LIMIT} packets")
    if direction.aqm is not None and direction.aqm.name == "fq-codel":
        return QueueSize.parse(f"{FQ_CODEL_LIMIT} packets")
    return QueueSize.parse("1 BDP")


def stages(
    direction: Direction,
    rtt: Duration,
    wire: int,
    files: Files,
    key: str,
    moved: Collection[str] = (),
    users: Users = ALONE,
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
    schedulers.check(direction, users, key)
    nr.check(direction, key)
    radio.check(direction, key)
    slots.check(direction, key)
    before = (direction.loss_place or ("before" if direction.netem else "after")) == "before"
    drawn_loss = slots.loss_stages(direction)
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
        *slots.delay_stage(direction),
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
        return [acm.stage(direction, _queue(direction, rate, rtt, wire, key, users), files, key)]
    service: ServiceSpec
    drawn = slots.service(direction)
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
    queue = _queue(direction, rate, rtt, wire, key, users)
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


def _limit(direction: Direction, rate: Rate, rtt: Duration, wire: int, key: str) -> QueueLimit | None:
    queue = direction.queue or _default_queue(direction)
    if queue.kind == "none":
        return None
    if queue.kind == "packets":
        return {"packets": int(queue.amount)}
    size = _bytes_at(queue, rate, rtt, key) or 0
    if queue.kind == "bytes" and size < wire:
        raise ScenarioError(
            [(f"{key}.queue", f"found {queue}, expected room for at least one full packet of {wire} B")]
        )
    return {"bytes": max(size, wire)}


def _packets(direction: Direction, rate: Rate, rtt: Duration, key: str) -> int:
    """The bound in packets of 1500 bytes, rounded to the nearest (416.67 is netem's 417)."""
    limit = _limit(direction, rate, rtt, ETHERNET_BYTES, key)
    if limit is None:
        return MOST_PACKETS
    if "packets" in limit:
        return limit["packets"]
    return max(1, (2 * limit["bytes"] + ETHERNET_BYTES) // (2 * ETHERNET_BYTES))


def _queue(direction: Direction, rate: Rate, rtt: Duration, wire: int, key: str, users: Users) -> QueueSpec:
    aqm, scheduler = direction.aqm, direction.scheduler
    if scheduler is not None and scheduler.per_user:
        limit = _limit(direction, rate, rtt, wire, key)
        return schedulers.queue(scheduler, limit, users, f"{key}.scheduler")
    if aqm is None or aqm.name == "drop-tail":
        return {"kind": "drop_tail", "limit": _limit(direction, rate, rtt, wire, key)}
    if aqm.name == "drop-head":
        return {"kind": "drop_head", "limit": _limit(direction, rate, rtt, wire, key)}
    if aqm.name == "codel":
        limit = _limit(direction, rate, rtt, wire, key)
        return {
            "kind": "codel",
            "limit": limit,
            "target_ns": aqm.target.ns,
            "interval_ns": aqm.interval.ns,
            "ecn": bool(aqm.ecn),
        }
    return {
        "kind": "fq_codel",
        "limit_packets": _packets(direction, rate, rtt, key),
        "flows": aqm.queues,
        "quantum_bytes": aqm.quantum.bytes,
        "target_ns": aqm.target.ns,
        "interval_ns": aqm.interval.ns,
        "ecn": True if aqm.ecn is None else aqm.ecn,
    }


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
        "limit_packets": _packets(direction, rate, rtt, key),
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
    gaps = files.followed(f"{key}.delay").gaps
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
