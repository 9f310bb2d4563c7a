"""Mahimahi (Netravali et al., USENIX ATC 2015): packet-delivery traces, and a script with its nested shells.

The order of the shells is that of a preset's stages: a packet passes the queue of mm-link, then mm-loss, then mm-delay.
mm-loss therefore stands inside mm-link downwards, and outside of it upwards.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.preset_export.format import (
    Format,
    by_direction,
    comment_header,
    describe_windows,
    omitted_properties,
)
from bentpipe.preset_export.intervals import COUNT, draw_intervals
from bentpipe.preset_export.losses import describe_mean, mean_loss
from bentpipe.preset_export.quantiles import mean_quantile
from bentpipe.preset_export.queues import describe_mahimahi, mahimahi_options
from bentpipe.preset_export.radio_link import SIMULATION, delivery_instants
from bentpipe.scenario.traces import MAHIMAHI_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.preset_export.access import Access, AccessDirection

__all__ = ["FORMAT", "opportunities"]

OPPORTUNITY_BITS = 8 * MAHIMAHI_BYTES
MAX_PERIOD_MS = 60_000
"""Longest period of the trace of a constant rate, in which its number of packets is whole."""
CHANGE_S = 120
"""Duration of a trace with changes at fixed times, after the last of them."""
LAN_BIT_S = 10**9
"""Rate of a direction without a transmitter: mm-link requires a trace."""


def _write(access: Access) -> Mapping[str, str]:
    name = access.preset.name
    script = f"{name}-mahimahi.sh"
    traces = {side: f"{name}-{side}.mahimahi" for side in access.directions}
    use = [
        f"sh {script} [COMMAND...]    the command, or a shell, behind this access",
        "",
        "Requires Mahimahi, and the two traces beside this script.",
        f"One line of a trace carries {MAHIMAHI_BYTES} bytes: a packet of 1500 and the 4 of Mahimahi's tunnel.",
    ]
    down, up = access.down, access.up
    words = [f"exec mm-delay {_delay_ms(access)}"]
    words += [f"mm-loss uplink {share:.6g}" for share in [_loss(up)] if share]
    words += [_bursts("uplink", up)] if _has_bursts(up) else []
    words.append(f'mm-link "$folder/{traces["up"]}" "$folder/{traces["down"]}"')
    words.append(f"  {mahimahi_options('uplink', up.queue)}")
    words.append(f"  {mahimahi_options('downlink', down.queue)} --")
    words += [_bursts("downlink", down)] if _has_bursts(down) else []
    words += [f"mm-loss downlink {share:.6g}" for share in [_loss(down)] if share]
    lines = ["set -eu", 'folder=$(cd "$(dirname "$0")" && pwd)', " \\\n  ".join([*words, '"$@"'])]
    text = comment_header(access, use, _describe_limits(access)) + "\n" + "\n".join(lines) + "\n"
    contents = {script: text}
    for side in access.directions:
        contents[traces[side]] = "".join(f"{instant}\n" for instant in opportunities(access, side))
    return contents


def opportunities(access: Access, side: str) -> Sequence[int]:
    """Return the instants of the packets of one period in whole ms. The last one is the period.

    Args:
        access: the access.
        side: ``down`` or ``up``.
    """
    direction = access.directions[side]
    if direction.link_layer is not None:
        return delivery_instants(access, side)
    trace = direction.opportunities
    if trace is not None:
        return [instant // 10**6 for instant in trace["opportunities_ns"]]
    edges_ms, rates = _rates(direction, side)
    bits = np.concatenate([[0.0], np.cumsum(np.diff(edges_ms) * np.array(rates) / 1000)])
    count = max(1, round(bits[-1] / OPPORTUNITY_BITS))
    wanted = np.arange(1, count + 1) * (bits[-1] / count)
    # Rounding errors must not move a packet by a millisecond.
    instants = np.ceil(np.interp(wanted, bits, edges_ms) - 1e-6).astype(int)
    instants[-1] = round(edges_ms[-1])
    return [int(instant) for instant in instants]


def _rates(direction: AccessDirection, side: str) -> tuple[list[float], list[float]]:
    """Return the edges of the steps of the rate over one period in ms, and the rates between them in bit/s."""
    bit_s = direction.rate_bit_s or LAN_BIT_S
    drawn = draw_intervals(direction, side)
    if direction.intervals is not None and direction.intervals.rate_bit_s:
        step_ms = direction.intervals.interval_ns / 1e6
        steps = [(index * step_ms, float(one.rate_bit_s or bit_s)) for index, one in enumerate(drawn)]
        period_ms = COUNT * step_ms
    elif direction.rate_changes:
        steps = [(0.0, float(bit_s)), *((at / 1e6, float(rate)) for at, rate in direction.rate_changes)]
        period_ms = steps[-1][0] + 1000 * CHANGE_S
    else:
        steps = [(0.0, float(bit_s))]
        period_ms = _period_ms(direction, bit_s)
    return _without_outages(direction, steps, period_ms)


def _period_ms(direction: AccessDirection, bit_s: int) -> float:
    """Return the period of a constant rate: that of its outages, or the shortest with a whole number of packets."""
    if direction.outages is not None and direction.outages.buffer_packets:
        repeat_ns, windows = direction.outages.repeat_ns, direction.outages.windows_ns
        return repeat_ns / 1e6 if repeat_ns else windows[-1][1] / 1e6 + 1000 * CHANGE_S
    packets_per_ms = Fraction(bit_s, 1000 * OPPORTUNITY_BITS).limit_denominator(MAX_PERIOD_MS)
    if packets_per_ms == 0:  # less than a packet in the longest period
        return float(math.ceil(1000 * OPPORTUNITY_BITS / bit_s))
    return float(packets_per_ms.denominator)


def _without_outages(
    direction: AccessDirection, steps: list[tuple[float, float]], period_ms: float
) -> tuple[list[float], list[float]]:
    """Return the steps of the rate with no packets in outages that hold them."""
    windows: list[tuple[float, float]] = []
    outages = direction.outages
    if outages is not None and outages.buffer_packets:
        repeat_ms = outages.repeat_ns / 1e6 if outages.repeat_ns else math.inf
        shifts = range(math.ceil(period_ms / repeat_ms)) if outages.repeat_ns else range(1)
        windows = [
            (
                start / 1e6 + (shift * repeat_ms if shift else 0),
                end / 1e6 + (shift * repeat_ms if shift else 0),
            )
            for shift in shifts
            for start, end in outages.windows_ns
        ]
    inner = {edge for edge, _ in steps} | {edge for window in windows for edge in window}
    edges = sorted({0.0, period_ms} | {edge for edge in inner if 0 < edge < period_ms})
    rates = []
    for edge in edges[:-1]:
        rate = next(rate for start, rate in reversed(steps) if start <= edge)
        rates.append(0.0 if any(start <= edge < end for start, end in windows) else rate)
    return edges, rates


def _delay_ms(access: Access) -> int:
    """Return the delay of both directions: half of the round-trip time in whole ms."""
    return round(access.rtt_ns / 2e6)


def _loss(direction: AccessDirection) -> float:
    """Return the mean probability of single losses."""
    if direction.loss is None and direction.intervals is not None:
        return mean_quantile(direction.intervals.loss)
    return mean_loss(direction.loss)


def _has_bursts(direction: AccessDirection) -> bool:
    return direction.intervals is not None and direction.intervals.burst_probability > 0


def _bursts(link: str, direction: AccessDirection) -> str:
    """Return the shell that loses everything in random periods, with the means of the intervals' bursts."""
    intervals = direction.intervals
    if intervals is None:
        return ""
    off_s = mean_quantile(intervals.burst_ns) / 1e9
    on_s = intervals.interval_ns / 1e9 / intervals.burst_probability - off_s
    return f"mm-onoff {link} {on_s:.6g} {off_s:.6g}"


def _describe_limits(access: Access) -> Sequence[str]:
    lines = omitted_properties(access)
    exact_ms = [direction.delay_ns / 1e6 for direction in access.directions.values()]
    rounded = _delay_ms(access)
    if exact_ms != [rounded, rounded]:
        lines.append(
            f"delays of {exact_ms[0]:g} ms down and {exact_ms[1]:g} ms up: {rounded} ms in both directions"
        )
    lines.append("times of packets: rounded up to whole ms")
    return [
        *lines,
        *by_direction(access, _describe_link),
        *by_direction(access, _describe_losses),
        *by_direction(access, _describe_time),
    ]


def _describe_link(direction: AccessDirection) -> list[str]:
    lines = []
    if direction.link_layer is not None:
        lines.append(f"radio link: the packets that it delivered in {SIMULATION}")
    if direction.rate_bit_s is None:
        lines.append(f"no limit of the rate: {LAN_BIT_S / 1e9:g} Gbit/s")
    if lacks := describe_mahimahi(direction.queue):
        lines.append(lacks)
    return lines


def _describe_losses(direction: AccessDirection) -> list[str]:
    lines = []
    if direction.jitter is not None:
        lines.append("jitter: none")
    if lacks := describe_mean(direction.loss):
        lines.append(lacks)
    return lines


def _describe_time(direction: AccessDirection) -> list[str]:
    lines = []
    if direction.rate_changes:
        lines.append(
            f"changes of the rate at fixed times: in the trace, which repeats {CHANGE_S} s after the last"
        )
    if direction.delay_changes or direction.loss_changes:
        lines.append("changes of delay or loss at fixed times: none")
    outages = direction.outages
    if outages is not None and not outages.buffer_packets:
        lines.append(f"outages ({describe_windows(outages)}) in which the preset loses packets: none")
    if outages is not None and outages.buffer_packets:
        lines.append(
            f"outages ({describe_windows(outages)}): gaps of the trace, from the start of mm-link on"
        )
    intervals = direction.intervals
    if intervals is not None:
        every = f"{intervals.interval_ns / 1e9:g} s"
        if intervals.rate_bit_s:
            lines.append(
                f"random rates of reconfiguration intervals of {every}: {COUNT} random rates, which repeat"
            )
        if intervals.delay_ns or intervals.jitter_ns:
            lines.append("random delays of the intervals: their median")
        if intervals.loss:
            lines.append("random losses of the intervals: their mean")
        if intervals.burst_probability:
            lines.append("bursts of losses: exponential periods of mm-onoff, independent in each direction")
    return lines


FORMAT = Format(_write, _describe_limits)
