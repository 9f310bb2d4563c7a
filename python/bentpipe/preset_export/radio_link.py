"""Packets that a radio link delivers, by a simulation with a saturating sender.

Fading, adaptive coding and retransmissions determine this rate. No format of another tool has them.
"""

from __future__ import annotations

import json
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bentpipe.preset_export.access import MTU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.preset_export.access import Access

__all__ = ["SIMULATION", "delivery_instants", "mean_rate"]

DURATION_S = 120
SEED = 1
SIMULATION = f"a simulation of {DURATION_S} s"
"""The simulation in words."""


def mean_rate(access: Access, side: str) -> int | None:
    """Return the mean rate of a direction in bit/s: of a radio link that of its deliveries.

    Args:
        access: the access.
        side: ``down`` or ``up``.
    """
    direction = access.directions[side]
    if direction.link_layer is None:
        return direction.rate_bit_s
    instants = delivery_instants(access, side)
    return round(len(instants) * MTU * 8000 / instants[-1])


def delivery_instants(access: Access, side: str) -> Sequence[int]:
    """Return the instants in whole ms at which a radio link has delivered another full packet."""
    direction = access.directions[side]
    segments = json.dumps(access.preset.segments, sort_keys=True)
    return _simulate(segments, side, direction.rate_bit_s or 0, direction.delay_ns, DURATION_S)


@lru_cache(maxsize=8)
def _simulate(segments: str, side: str, bit_s: int, delay_ns: int, duration_s: int) -> Sequence[int]:
    """Simulate datagrams at the rate of the link, and return the instants of their bytes in full packets."""
    # The engine and polars are slow to import.
    import polars as pl

    from bentpipe.api.run import run

    scenario: dict[str, Any] = {
        "title": "saturated radio link",
        "duration": f"{duration_s} s",
        "seeds": [SEED],
        "path": {"segment": json.loads(segments)},
        "trace": {"packets": True},
        "flow": [{"name": "probe", "transport": "udp", "direction": side, "load": {"cbr": f"{bit_s} bit/s"}}],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the link is saturated on purpose
        packets = run(scenario).packets
    received = packets.filter(pl.col("received_s").is_not_null()).sort("received_s")
    full = received["bytes"].cum_sum() // MTU
    last = received.with_columns(full=full).filter(pl.col("full") > pl.col("full").shift(1, fill_value=0))
    after_ms = ((last["received_s"] * 1000 - delay_ns / 1e6).ceil()).cast(pl.Int64)
    return [max(0, instant) for instant in after_ms.to_list()]
