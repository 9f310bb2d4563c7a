"""Arguments of ``tc`` for one direction: rate, queue, delay, jitter and loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bentpipe.preset_export.losses import tc_arguments
from bentpipe.preset_export.quantiles import mean_quantile

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import JitterModel, LossModel
    from bentpipe.preset_export.access import AccessDirection

__all__ = ["burst_bytes", "constant_loss", "flight_packets", "netem", "rate"]

BURST_MS = 2
"""Duration of the bucket of tbf at its rate: a timer that is late by less loses no rate."""
MIN_BURST_BYTES = 3200
"""Smallest bucket of tbf: two full frames of Ethernet."""
SMALLEST_PACKET_BYTES = 64
"""Smallest packet, for the limit of netem."""
EXTRA_PACKETS = 1000
"""Packets of netem's limit beyond rate times delay, for bursts at timers."""
LAN_BIT_S = 10**9
"""Rate of a direction without a transmitter, for the limit of netem."""


def rate(bit_s: int | None) -> str:
    """Return the rate of tbf; empty without a transmitter."""
    return "" if bit_s is None else f"{bit_s}bit"


def burst_bytes(bit_s: int | None) -> int:
    """Return the bucket of tbf in bytes."""
    return max(MIN_BURST_BYTES, math.ceil((bit_s or 0) * BURST_MS / 8000))


def flight_packets(direction: AccessDirection) -> int:
    """Return the limit of netem: the largest rate times the largest delay, in the smallest packets."""
    longest = max([direction.delay_ns, *(delay for _, delay in direction.delay_changes)])
    fastest = max([direction.rate_bit_s or LAN_BIT_S, *(bit_s for _, bit_s in direction.rate_changes)])
    table = direction.intervals
    if table is not None:
        longest = max([longest, *table.delay_ns]) + max(table.jitter_ns, default=0)
        fastest = max([fastest, *table.rate_bit_s])
    return math.ceil(fastest * longest / 8e9 / SMALLEST_PACKET_BYTES) + EXTRA_PACKETS


def constant_loss(direction: AccessDirection) -> LossModel | None:
    """Return the loss of a direction without changes; with intervals the mean of their single losses."""
    if direction.loss is not None or direction.intervals is None or not direction.intervals.loss:
        return direction.loss
    return {"kind": "bernoulli", "probability": mean_quantile(direction.intervals.loss)}


def netem(delay_ns: int, jitter: JitterModel | None, loss: LossModel | None) -> str:
    """Return the arguments of netem but its limit."""
    return " ".join([_delay(delay_ns, jitter), *tc_arguments(loss)])


def _delay(delay_ns: int, jitter: JitterModel | None) -> str:
    if jitter is None:
        return f"delay {_microseconds(delay_ns)}"
    if jitter["kind"] == "uniform":  # netem's jitter is symmetric
        half = jitter["max_ns"] // 2
        return f"delay {_microseconds(delay_ns + half)} {_microseconds(half)}"
    mean = _microseconds(delay_ns + jitter["mean_ns"])
    if jitter["kind"] == "normal":
        return f"delay {mean} {_microseconds(jitter['deviation_ns'])} distribution normal"
    return f"delay {mean}"


def _microseconds(value_ns: int) -> str:
    return f"{value_ns / 1000:.15g}us"
