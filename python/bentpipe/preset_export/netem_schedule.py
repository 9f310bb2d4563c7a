"""Changes over time for ``tc``: those of a preset at fixed times, and drawn reconfiguration intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.preset_export import netem_arguments as arguments
from bentpipe.preset_export.intervals import draw_intervals
from bentpipe.preset_export.netem_script import schedule_function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.spec.run_spec import LossModel
    from bentpipe.preset_export.access import Access, AccessDirection

__all__ = ["is_scheduled", "schedule", "shared_interval_ns"]

TOTAL_LOSS: LossModel = {"kind": "bernoulli", "probability": 1.0}
MINUTE_S = 60


def shared_interval_ns(access: Access) -> int | None:
    """Return the duration of the reconfiguration intervals; None without any, or if both directions differ."""
    found = {side.intervals.interval_ns for side in access.directions.values() if side.intervals}
    return found.pop() if len(found) == 1 else None


def is_scheduled(access: Access) -> bool:
    """Return whether settings of the access change over time in a way that ``tc`` can repeat."""
    return shared_interval_ns(access) is not None or any(map(_changes, access.directions.values()))


def schedule(access: Access) -> str:
    """Return the function ``schedule`` of a script, for an access with changes."""
    interval_ns = shared_interval_ns(access)
    events: list[tuple[int, str]] = []
    for side, direction in access.directions.items():
        events += _interval_events(side, direction) if interval_ns else _change_events(side, direction)
    events.sort(key=lambda event: event[0])
    commands: list[str] = []
    now = 0
    for at, command in events:
        commands += _sleep(at - now)
        commands.append(command)
        now = at
    if interval_ns is None:
        return schedule_function(commands, is_repeated=False)
    count = max(len(draw_intervals(direction, side)) for side, direction in access.directions.items())
    commands += _sleep(count * interval_ns - now)
    return schedule_function(commands, _wait(access, interval_ns), is_repeated=True)


def _sleep(duration_ns: int) -> list[str]:
    return [f"sleep {duration_ns / 1e9:.9g}"] if duration_ns > 0 else []


def _wait(access: Access, interval_ns: int) -> str:
    """Return the wait for the next interval of the wall clock; empty if the minute is no multiple of intervals."""
    every_s = interval_ns // 10**9
    if interval_ns % 10**9 or MINUTE_S % every_s:
        return ""
    phase_ns = next(side.intervals.phase_ns for side in access.directions.values() if side.intervals)
    offset = every_s - phase_ns // 10**9 % every_s
    return f'sleep "$(( ({every_s} - ($(date +%s) + {offset}) % {every_s}) % {every_s} ))"'


def _command(
    side: str, direction: AccessDirection, bit_s: int | None, delay_ns: int, loss: LossModel | None
) -> str:
    netem = arguments.netem(delay_ns, direction.jitter, loss)
    return f"change_{side} '{arguments.rate(bit_s)}' {arguments.burst_bytes(bit_s)} '{netem}'"


def _interval_events(side: str, direction: AccessDirection) -> list[tuple[int, str]]:
    """Return instants and commands of drawn intervals: a burst loses everything at the start of one."""
    events: list[tuple[int, str]] = []
    if direction.intervals is None:
        return events
    for index, drawn in enumerate(draw_intervals(direction, side)):
        at = index * direction.intervals.interval_ns
        bit_s = direction.rate_bit_s if drawn.rate_bit_s is None else drawn.rate_bit_s
        delay_ns = direction.delay_ns if drawn.delay_ns is None else drawn.delay_ns
        loss: LossModel | None = direction.loss
        if drawn.loss is not None:
            loss = {"kind": "bernoulli", "probability": drawn.loss}
        if drawn.burst_ns:
            events.append((at, _command(side, direction, bit_s, delay_ns, TOTAL_LOSS)))
        events.append((at + drawn.burst_ns, _command(side, direction, bit_s, delay_ns, loss)))
    return events


def _changes(direction: AccessDirection) -> Sequence[int]:
    """Return the instants at which a direction changes, ns."""
    changes = (direction.rate_changes, direction.delay_changes, direction.loss_changes)
    return sorted({at for table in changes for at, _ in table})


def _change_events(side: str, direction: AccessDirection) -> list[tuple[int, str]]:
    """Return instants and commands of the preset's changes, from the start on."""
    instants = _changes(direction)
    events: list[tuple[int, str]] = []
    for at in [0, *instants] if instants else []:
        bit_s, delay_ns, loss = direction.rate_bit_s, direction.delay_ns, direction.loss
        for when, value in direction.rate_changes:
            bit_s = value if when <= at else bit_s
        for when, value in direction.delay_changes:
            delay_ns = value if when <= at else delay_ns
        for when, share in direction.loss_changes:
            loss = {"kind": "bernoulli", "probability": share} if when <= at else loss
        events.append((at, _command(side, direction, bit_s, delay_ns, loss)))
    return events
