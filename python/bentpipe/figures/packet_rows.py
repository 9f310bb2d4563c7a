"""Packets of page loads: the load of each packet, the client's node, received bytes over time."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bentpipe.figures.page_load_samples import PageLoads
from bentpipe.store.reader import Store

_CONNECTION = ["run", "flow", "connection"]


def of_loads(store: Store, runs: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """Return the packets of ``runs`` with the ``load`` of their connection; empty without packet traces.

    A connection belongs to the first load that sent a request over it; packets of other connections are excluded.
    The table of packets numbers the connections of each transport separately. ``connection`` of the result is the
    number in the table of requests.
    """
    names = list(dict.fromkeys(["packet", "flow", "connection", "transport", *columns]))
    packets = store.rows("packets", names, runs)
    requests = store.rows("requests", ["flow", "load", "connection", "protocol"], runs)
    if packets.width == 1 or requests.width == 1 or not packets.height:
        return pl.DataFrame()
    # With both transports in a flow, requests number QUIC connections even and TCP connections odd.
    # HTTP/3 flows also have TCP for hosts without TLS.
    plain = requests.filter(pl.col("protocol") == "http/1.1").select("run", "flow", plain=pl.lit(1)).unique()
    both = store.rows("pages", ["flow", "http"], runs).join(
        plain, on=["run", "flow"], how="left"
    ).filter(
        (pl.col("http") == "alt-svc") | ((pl.col("http") == "3") & (pl.col("plain") == 1))
    )  # fmt: skip
    packets = packets.join(
        both.select("run", "flow", both=pl.lit(1)).unique(), on=["run", "flow"], how="left", maintain_order="left"
    ).with_columns(
        connection=pl.when(pl.col("both") == 1)
        .then(2 * pl.col("connection") + (pl.col("transport") == "tcp").cast(pl.Int64))
        .otherwise(pl.col("connection"))
    ).select("run", *names)  # fmt: skip
    first = requests.group_by(_CONNECTION, maintain_order=True).agg(pl.col("load").min())
    return packets.join(first, on=_CONNECTION, how="inner", maintain_order="left")


def clients(packets: pl.DataFrame) -> pl.DataFrame:
    """Return the client's node of every flow, which sent its first packet: ``run, flow, client``."""
    return (
        packets.sort("run", "packet", maintain_order=True)
        .group_by("run", "flow", maintain_order=True)
        .agg(pl.col("from_node").first().alias("client"))
    )


def received(loads: PageLoads, runs: Sequence[str]) -> pl.DataFrame:
    """Return received bytes of the largest connection of every load: ``run, flow, load, transport, time_s, bytes``.

    ``time_s`` counts from the load's connectStart. For TCP, bytes are the highest received sequence number. For QUIC,
    whose numbers are encrypted, they are the sum of the IP packet sizes (Thomas 2018, appendix B), not yet scaled.
    """
    columns = ["transport", "from_node", "to_node", "received_s", "bytes", "sequence"]
    packets = of_loads(loads.context.store, runs, columns)
    if not packets.height:
        return packets
    arrived = (
        packets.join(clients(packets), on=["run", "flow"], how="left")
        .filter((pl.col("to_node") == pl.col("client")) & pl.col("received_s").is_not_null())
        .sort("run", "flow", "received_s", "packet", maintain_order=True)
    )
    by = [*_CONNECTION]
    progress = arrived.with_columns(
        progress=pl.when(pl.col("transport") == "tcp")
        .then(pl.col("sequence").cum_max().over(by))
        .otherwise(pl.col("bytes").cast(pl.Float64).cum_sum().over(by))
    )
    # The largest connection of a load; of two equal ones, the earlier.
    last = progress.group_by("run", "flow", "load", "connection", maintain_order=True).agg(
        pl.col("progress").max()
    )
    largest = (
        last.sort(
            "run", "flow", "load", "progress", "connection", descending=[False, False, False, True, False]
        )
        .unique(["run", "flow", "load"], keep="first", maintain_order=True)
        .select("run", "flow", "load", "connection")
    )
    starts = loads.rows.select("run", "flow", "load", "connect_start_s")
    return (
        progress.join(largest, on=["run", "flow", "load", "connection"], how="inner", maintain_order="left")
        .join(starts, on=["run", "flow", "load"], how="inner", maintain_order="left")
        .select(
            "run", "flow", "load", "transport", (pl.col("received_s") - pl.col("connect_start_s")).alias("time_s"),
            pl.col("progress").alias("bytes"),
        )
    )  # fmt: skip


def equivalent(curves: pl.DataFrame, unit: Sequence[str]) -> pl.DataFrame:
    """Scale the bytes of QUIC to TCP sequence numbers.

    In every unit, the largest QUIC connection then ends where the largest TCP connection ends (Thomas 2018, appendix
    B). A unit with only one transport stays unchanged.

    Args:
        curves: :func:`received`.
        unit: columns of a unit, which has the loads of one comparison.
    """
    ends = curves.group_by([*unit, "transport"], maintain_order=True).agg(pl.col("bytes").max())
    largest = ends.pivot("transport", index=list(unit), values="bytes")
    if not {"tcp", "quic"} <= set(largest.columns):
        return curves
    factors = largest.select(*unit, (pl.col("tcp") / pl.col("quic")).fill_null(1.0).alias("factor"))
    scaled = (
        pl.when(pl.col("transport") == "quic").then(pl.col("bytes") * pl.col("factor")).otherwise("bytes")
    )
    return (
        curves.join(factors, on=list(unit), how="left", maintain_order="left", nulls_equal=True)
        .with_columns(scaled.alias("bytes"))
        .drop("factor")
    )
