"""Data packets of traced flows: sequence number, flight and delay of each packet, and its loss.

A flow with several connections has those of its largest one, and a flow that proxies split those of the section with
the longest delay.
"""

from __future__ import annotations

import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.packet_rows import clients
from bentpipe.figures.packet_sequence import nodes_in_order

__all__ = ["data_packets", "flight"]

_BY = ["run", "flow", "direction"]
_COLUMNS = (
    "packet", "flow", "connection", "transport", "from_node", "to_node", "sent_s", "received_s", "dropped",
    "payload_bytes", "sequence", "retransmission",
)  # fmt: skip


def data_packets(context: FigureContext) -> pl.DataFrame:
    """Return the data packets of the drawn runs in the order of sending; empty without traced packets.

    Columns: ``run, flow, direction, transport, from_node, to_node, sent_s, received_s, dropped, payload_bytes,
    retransmission, bytes, wait_ms, split``. ``bytes`` is the sequence number of TCP, else the payload sent so far.
    ``wait_ms`` is the delay above the smallest one, and ``split`` whether proxies split the flow. Flows that load pages
    are left out, because their figures are those of page loads.
    """
    packets = context.store.rows("packets", _COLUMNS, context.time_runs["run"])
    if packets.width == 1 or not packets.height:
        return pl.DataFrame()
    if context.pages.height:
        packets = packets.join(context.pages.select("run", "flow").unique(), on=["run", "flow"], how="anti")
    packets = packets.filter((pl.col("payload_bytes") > 0) & pl.col("sent_s").is_not_null())
    packets = _add_direction(packets)
    directions = context.directions.select("flow", "direction")
    packets = packets.join(directions, on=["flow", "direction"], how="semi", maintain_order="left")
    if not packets.height:
        return pl.DataFrame()
    delay = pl.col("received_s") - pl.col("sent_s")
    section = [*_BY, "connection", "transport", "from_node", "to_node"]
    sections = packets.group_by(section, maintain_order=True).agg(
        pl.col("payload_bytes").sum().alias("carried"), delay.median().alias("median_s")
    )
    # The largest connection has the section with the longest delay.
    connection = [*_BY, "connection", "transport"]
    chosen = (
        sections.with_columns(pl.col("carried").max().over(connection), split=pl.len().over(connection) > 1)
        .sort("carried", "median_s", descending=True, nulls_last=True, maintain_order=True)
        .unique(_BY, keep="first", maintain_order=True)
        .select(*section, "split")
    )
    packets = packets.join(chosen, on=section, how="inner", maintain_order="left").sort(
        "run", "sent_s", "packet", maintain_order=True
    )
    sent = pl.col("payload_bytes").cast(pl.Float64).cum_sum().over(_BY)
    return packets.with_columns(
        bytes=pl.when(pl.col("transport") == "tcp").then(pl.col("sequence")).otherwise(sent),
        wait_ms=1e3 * (delay - delay.min().over(_BY)),
    )


def flight(packets: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes on the path after every departure and arrival: ``run, flow, direction, time_s, y``.

    Payload counts from its departure to its arrival. A lost packet does not count.
    """
    arrived = packets.filter(pl.col("received_s").is_not_null())
    size = pl.col("payload_bytes").cast(pl.Float64)
    steps = pl.concat(
        [
            arrived.select(*_BY, time_s="sent_s", step=size),
            arrived.select(*_BY, time_s="received_s", step=-size),
        ]
    ).sort("time_s", maintain_order=True)
    return steps.with_columns(y=pl.col("step").cum_sum().over(_BY)).drop("step")


def _add_direction(packets: pl.DataFrame) -> pl.DataFrame:
    """Add the direction of each packet: ``up`` leads away from the client."""
    parts = []
    for (run, flow, client), rows in (
        packets.join(clients(packets), on=["run", "flow"], how="left", maintain_order="left")
        .select("run", "flow", "client", "from_node", "to_node")
        .unique(maintain_order=True)
        .group_by("run", "flow", "client", maintain_order=True)
    ):
        sections = list(rows.select("from_node", "to_node").iter_rows())
        place = {node: index for index, node in enumerate(nodes_in_order(sections, str(client)))}
        parts += [
            (run, flow, first, second, "up" if place[first] < place[second] else "down")
            for first, second in sections
        ]
    schema = dict.fromkeys(("run", "flow", "from_node", "to_node", "direction"), pl.String)
    ways = pl.DataFrame(parts, schema=schema, orient="row")
    return packets.join(ways, on=["run", "flow", "from_node", "to_node"], how="left", maintain_order="left")
