"""What each run comes to, in the thesis's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.scenario.columns import column
from bentpipe.studies.tauran_2018.cells import SEGMENT

if TYPE_CHECKING:
    from bentpipe.studies.parts import Measured

__all__ = ["Runs"]

LINK = "mobile.down"
_ATTEMPTS = [f"decoded_after_{n}_packets" for n in range(4)]


class Runs:
    """The runs of one part, a row each, by cell and seed. Events and spurious retransmissions are % of packets sent."""

    def __init__(self, measured: Measured, part: str) -> None:
        self.frame = _per_run(measured, part)

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        """One measure of a cell, a value a seed; empty when it has not run."""
        frame = self.frame
        if not frame.height:
            return ()
        for key, value in cell.items():
            if (name := _column(frame, key)) is not None:
                frame = frame.filter(pl.col(name) == value)
        return tuple(frame.sort("seed")[measure].drop_nulls().to_list())


def _column(frame: pl.DataFrame, key: str) -> str | None:
    return next((name for name in (column(key), f"sweep.{key}", key) if name in frame.columns), None)


def _per_run(measured: Measured, part: str) -> pl.DataFrame:
    reading = measured.reading(part)
    if reading is None:
        return pl.DataFrame()
    last = pl.col("time_s") == pl.col("time_s").max().over("run")
    users = reading.rows("users").filter(last & (pl.col("link") == LINK))
    links = reading.rows("links").filter(last & (pl.col("link") == LINK))
    summary = reading.rows("summary")
    server, client = (summary.filter(pl.col("side") == side) for side in ("server", "client"))
    decoded, coded = pl.sum_horizontal(_ATTEMPTS), pl.col("coded_bits")
    link = users.select(
        "run", "time_s",
        success=100 * decoded / (decoded + pl.col("dropped_link_packets")),
        bits=coded / (decoded + pl.col("dropped_link_packets")),
        use_mbps=coded / pl.col("time_s") / 1e6,
        air=100 * pl.col("air_s") / pl.col("time_s"),
    )  # fmt: skip
    data = pl.col("sent_packets") - pl.col("ack_packets")
    sender = server.select(
        "run",
        sent=data,
        controls=pl.col("ack_packets"),
        rto=100 * pl.col("timeouts") / data,
        dupack=100 * pl.col("congestion_events") / data,
        retransmissions=pl.col("retransmitted_bytes") / SEGMENT,
        timeouts=pl.col("timeouts"),
        undone=pl.col("undone"),
    )
    receiver = client.select("run", "received_bytes", "received_in_order_bytes")
    overflow = links.select("run", "delivered_packets", overflow=pl.col("dropped_overflow_packets"))
    frame = link.join(sender, on="run").join(receiver, on="run").join(overflow, on="run")
    # The path copies nothing: a segment that arrives although its bytes are there was sent again without need.
    arrived = pl.col("delivered_packets") - pl.col("controls") - 1  # one is the SYN-ACK
    frame = frame.with_columns(
        goodput_kbps=pl.col("received_in_order_bytes") * 8 / pl.col("time_s") / 1e3,
        spurious=100 * (arrived - (pl.col("received_bytes") / SEGMENT).ceil()) / pl.col("sent"),
    )
    return reading.shown(reading.index.join(frame, on="run", how="inner", maintain_order="left"))
