"""Congestion window and RTT of flows that proxies split: those of the split connection with the longest RTT.

Every section between splitting proxies has separate connections. The counters of a flow are those of its first
connection, which is short behind a gateway. The satellite connection is the one with the largest min RTT.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.metrics.intervals import format_significant

__all__ = ["caption", "samples"]

_RECEIVERS = {"up": "server", "down": "client"}
_BY = ["run", "flow", "direction"]


def samples(context: FigureContext, columns: Sequence[str]) -> pl.DataFrame:
    """Return ``run, flow, direction, time_s`` and ``columns`` of the sender with the longest RTT, of the drawn runs."""
    senders = _sender_samples(context, ["time_s", *columns])
    longest = _connections(context).filter(pl.col("longest")).select(*_BY, "connection")
    return senders.join(longest, on=[*_BY, "connection"], how="inner", maintain_order="left").drop(
        "connection"
    )


def caption(context: FigureContext) -> str:
    """Return a sentence about the split connections, their min RTT and the drawn one; empty without a split flow."""
    connections = _connections(context).drop_nulls("min_ms")
    split = connections.filter(pl.len().over(_BY) > 1)
    if not split.height:
        return ""
    medians = split.group_by("direction", "connection", maintain_order=True).agg(pl.col("min_ms").median())
    parts = []
    for (direction,), group in medians.group_by("direction", maintain_order=True):
        rows = group.sort("min_ms", descending=True, maintain_order=True).rows(named=True)
        names = [f"{row['connection']} ({format_significant(row['min_ms'], 3)} ms)" for row in rows]
        parts.append(f"{names[0]}" + (f"; other senders: {', '.join(names[1:])}" if names[1:] else ""))
        parts[-1] += "" if medians["direction"].n_unique() == 1 else f" ({direction})"
    return (
        "Proxies split the path. The figure shows the split connection with the largest minimum RTT; "
        f"its sender is {', '.join(parts)}."
    )


def _connections(context: FigureContext) -> pl.DataFrame:
    """Return the sender of each split connection and its min RTT.

    Columns: ``run, flow, direction, connection, min_ms, longest``.
    """
    connections = (
        _sender_samples(context, ["min_rtt_ms"])
        .group_by(*_BY, "connection", maintain_order=True)
        .agg(min_ms=pl.col("min_rtt_ms").min())
    )
    # A sender without an RTT sample is drawn only if it is the only one.
    place = pl.col("min_ms").fill_null(-1.0).arg_max().over(_BY)
    return connections.with_columns(longest=pl.int_range(pl.len()).over(_BY) == place)


def _sender_samples(context: FigureContext, columns: Sequence[str]) -> pl.DataFrame:
    """Return samples of all senders of a flow: its sending host, and the proxies' sockets towards the receiver."""
    runs = context.time_runs["run"]
    directions = context.directions
    hosts = context.store.rows("flows", ["flow", "side", *columns], runs).join(
        directions.select("flow", "direction", pl.col("sender").alias("side")),
        on=["flow", "side"], how="inner", maintain_order="left",
    )  # fmt: skip
    order = [*_BY, "connection", *columns]
    hosts = hosts.with_columns(connection=pl.format("the {}", "side")).select(order)
    proxies = context.store.rows("proxies", ["flow", "proxy", "socket", *columns], runs)
    if proxies.width == 1 or not proxies.height:
        return hosts
    receiver = pl.col("direction").replace_strict(_RECEIVERS, return_dtype=pl.String)
    sockets = directions.select("flow", "direction", socket=pl.format("{}_side", receiver))
    proxies = proxies.join(sockets, on=["flow", "socket"], how="inner", maintain_order="left")
    proxies = proxies.with_columns(connection=pl.format("{} towards the {}", "proxy", receiver))
    return pl.concat([hosts, proxies.select(order)], how="vertical_relaxed")
