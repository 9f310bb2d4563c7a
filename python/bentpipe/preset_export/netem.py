"""Shell script with Linux's ``tc``: rate and queue on an IFB device, then netem with loss and delay.

This is the order of a preset's stages. With both in one device, packets in propagation would fill the queue (netem
below the rate limiter). In the other order, full queues would drop packets after their propagation only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.preset_export import netem_arguments as arguments
from bentpipe.preset_export.access import MTU
from bentpipe.preset_export.format import (
    Format,
    by_direction,
    comment_header,
    describe_windows,
    omitted_properties,
)
from bentpipe.preset_export.intervals import COUNT
from bentpipe.preset_export.losses import describe_tc
from bentpipe.preset_export.netem_schedule import is_scheduled, schedule, shared_interval_ns
from bentpipe.preset_export.netem_script import dispatch, functions
from bentpipe.preset_export.queues import describe_qdisc, qdisc
from bentpipe.preset_export.radio_link import SIMULATION, mean_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.preset_export.access import Access, AccessDirection

__all__ = ["FORMAT"]


BURST_COMMENT = f"bytes of {arguments.BURST_MS} ms, at least two packets"


def _write(access: Access) -> Mapping[str, str]:
    name = f"{access.preset.name}-netem.sh"
    has_schedule = is_scheduled(access)
    use = [
        f"Use: CLIENT_DEV=eth1 SERVER_DEV=eth2 sh {name} COMMAND",
        "- setup: shape a router or bridge, with these interfaces towards client and server; teardown: undo it",
        *(["- schedule: change the settings over time, until Ctrl-C"] if has_schedule else []),
        "- lab: client, shaped router and server as network namespaces, without interfaces; lab-end: remove them",
        "Packets pass rate and queue (tbf on an IFB device), then loss and delay (netem).",
        "Rates and queues of tbf include Ethernet headers: 14 bytes of each packet, 0.9 % of a full one.",
        "Requires root, iproute2 and the kernel modules ifb, sch_tbf, sch_netem, act_mirred, cls_matchall.",
    ]
    parts = [comment_header(access, use, _describe_limits(access)), "set -eu\n"]
    parts += [_settings(access, side) for side in access.directions]
    parts += [functions("setup"), functions("lab")]
    parts += [schedule(access)] if has_schedule else []
    commands = ["setup", "teardown", "lab", "lab-end", *(["schedule"] if has_schedule else [])]
    return {name: "\n".join([*(part.strip("\n") + "\n" for part in parts), dispatch(commands).lstrip("\n")])}


def _settings(access: Access, side: str) -> str:
    """Return the variables of one direction."""
    direction = access.directions[side]
    prefix, queue, bit_s = side.upper(), direction.queue, mean_rate(access, side)
    words, limit = qdisc(queue)
    size = "" if queue.limit_bytes is None else f"{queue.limit_bytes} B, {queue.packets} packets of {MTU} B"
    netem = arguments.netem(direction.delay_ns, direction.jitter, arguments.constant_loss(direction))
    lines = {
        f"{prefix}_IFB=${{{prefix}_IFB:-ifb-{side}}}": "",
        f"{prefix}_RATE='{arguments.rate(bit_s)}'": "",
        f"{prefix}_BURST={arguments.burst_bytes(bit_s)}": BURST_COMMENT,
        f"{prefix}_QUEUE='{words}'": size,
        f"{prefix}_LIMIT={limit}": "the same, for tbf",
        f"{prefix}_NETEM='{netem}'": "",
        f"{prefix}_FLIGHT={arguments.flight_packets(direction)}": "packets in propagation, more than rate x delay",
    }
    return "\n".join(f"{line}    # {text}" if text else line for line, text in lines.items())


def _describe_limits(access: Access) -> Sequence[str]:
    lines = [
        *omitted_properties(access),
        *by_direction(access, _describe_link),
        *by_direction(access, _describe_loss),
        *by_direction(access, _describe_time),
    ]
    if any(side.intervals for side in access.directions.values()) and shared_interval_ns(access) is None:
        lines.append("reconfiguration intervals that differ by direction: no schedule")
    return lines


def _describe_link(direction: AccessDirection) -> list[str]:
    lines = []
    if direction.link_layer is not None:
        lines.append(f"radio link: its mean rate in {SIMULATION}, and no delays of retransmissions")
    if direction.opportunities is not None:
        lines.append("a trace of delivery opportunities: its mean rate")
    if lacks := describe_qdisc(direction.queue):
        lines.append(lacks)
    return lines


def _describe_loss(direction: AccessDirection) -> list[str]:
    lines = []
    if direction.jitter is not None:
        is_exponential = direction.jitter["kind"] == "exponential"
        lines.append("exponential jitter: its mean" if is_exponential else "jitter: packets may overtake")
    if lacks := describe_tc(direction.loss):
        lines.append(lacks)
    return lines


def _describe_time(direction: AccessDirection) -> list[str]:
    lines = []
    if direction.rate_changes or direction.delay_changes or direction.loss_changes:
        lines.append("changes at fixed times: none after `setup`, once with `schedule`")
    if direction.outages is not None:
        action = "holds" if direction.outages.buffer_packets else "loses"
        lines.append(
            f"outages ({describe_windows(direction.outages)}) in which the preset {action} packets: none"
        )
    intervals = direction.intervals
    if intervals is not None:
        every = f"{intervals.interval_ns / 1e9:g} s"
        lines += [
            f"random reconfiguration intervals of {every}: `setup` has their medians and their mean loss",
            f"intervals of `schedule`: {COUNT} random intervals with bursts of losses, which repeat",
        ]
        if intervals.jitter_ns:
            lines.append(
                "delay that varies within an interval: its median, as netem's jitter reorders packets"
            )
    return lines


FORMAT = Format(_write, _describe_limits)
