"""Whose window and round-trip time a figure draws where proxies split a flow: the sender's on the longest leg.

Between splitting proxies every leg has connections of its own. A flow's own counters are those of its first leg, which
behind a gateway is short; the satellite's is the one whose least round-trip time is the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.metrics.intervals import format_significant

__all__ = ["caption", "samples"]

_TOWARDS = {"up": "server", "down": "client"}
_BY = ["run", "flow", "direction"]


def samples(material: FigureContext, columns: Sequence[str]) -> pl.DataFrame:
    """``run, flow, direction, time_s`` and ``columns`` of the sender on the longest leg, of the runs that are drawn."""
    found = _senders(material, ["time_s", *columns])
    legs = _legs(material).filter(pl.col("longest")).select(*_BY, "leg")
    return found.join(legs, on=[*_BY, "leg"], how="inner", maintain_order="left").drop("leg")


def caption(material: FigureContext) -> str:
    """The legs with their least round-trip times, and which one is drawn; nothing where no proxy splits a flow."""
    legs = _legs(material).drop_nulls("least_ms")
    ways = legs.filter(pl.len().over(_BY) > 1)
    if not ways.height:
        return ""
    said = ways.group_by("direction", "leg", maintain_order=True).agg(pl.col("least_ms").median())
    parts = []
    for (direction,), group in said.group_by("direction", maintain_order=True):
        order = group.sort("least_ms", descending=True, maintain_order=True).rows(named=True)
        names = [f"{one['leg']} ({format_significant(one['least_ms'], 3)} ms)" for one in order]
        parts.append(f"{names[0]}" + (f"; not those of {', '.join(names[1:])}" if names[1:] else ""))
        parts[-1] += "" if said["direction"].n_unique() == 1 else f" ({direction})"
    return f"Proxies split the way; drawn is the leg with the longest round trip, sent by {', '.join(parts)}."


def _legs(material: FigureContext) -> pl.DataFrame:
    """``run, flow, direction, leg, least_ms, longest``: who sends on each leg, and its least RTT."""
    least = (
        _senders(material, ["min_rtt_ms"])
        .group_by(*_BY, "leg", maintain_order=True)
        .agg(least_ms=pl.col("min_rtt_ms").min())
    )
    # A sender that never learned its round trip is drawn where it is alone.
    place = pl.col("least_ms").fill_null(-1.0).arg_max().over(_BY)
    return least.with_columns(longest=pl.int_range(pl.len()).over(_BY) == place)


def _senders(material: FigureContext, columns: Sequence[str]) -> pl.DataFrame:
    """Samples of all who send data of a flow: its own end, and the proxies' sockets towards the other end."""
    runs = material.time_runs["run"]
    ways = material.ways
    own = material.store.rows("flows", ["flow", "side", *columns], runs).join(
        ways.select("flow", "direction", pl.col("sender").alias("side")),
        on=["flow", "side"], how="inner", maintain_order="left",
    )  # fmt: skip
    order = [*_BY, "leg", *columns]
    own = own.with_columns(leg=pl.format("the {}", "side")).select(order)
    between = material.store.rows("proxies", ["flow", "proxy", "socket", *columns], runs)
    if between.width == 1 or not between.height:
        return own
    towards = pl.col("direction").replace_strict(_TOWARDS, return_dtype=pl.String)
    onward = ways.select("flow", "direction", socket=pl.format("{}_side", towards))
    between = between.join(onward, on=["flow", "socket"], how="inner", maintain_order="left")
    between = between.with_columns(leg=pl.format("{} towards the {}", "proxy", towards))
    return pl.concat([own, between.select(order)], how="vertical_relaxed")
