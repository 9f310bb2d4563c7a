"""Metrics of the packets of a direction, from the table ``packets`` (``[trace] packets = true``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["LINK_LOSS", "packet_metrics"]

LINK_LOSS = ("loss", "retry_limit")
"""Causes of a drop that are no queue's: the loss model, and the retry limit of a link layer."""


def packet_metrics(store: Store, sender: str) -> pl.DataFrame:
    """Return one row for each run: ``run, delay_p95_ms, residual_loss_ratio``.

    Packets in flight at the end of a run count nowhere. The quantile interpolates linearly.

    Args:
        store: a store with the table ``packets``.
        sender: node that sends the packets.
    """
    rows = store.rows(
        "packets", ["from_node", "sent_s", "received_s", "dropped"], where=pl.col("from_node") == sender
    )
    if "sent_s" not in rows.columns:
        return pl.DataFrame(
            schema={"run": pl.String, "delay_p95_ms": pl.Float64, "residual_loss_ratio": pl.Float64}
        )
    cause = pl.col("dropped").fill_null("").str.split(": ").list.last()
    lost = cause.is_in(LINK_LOSS).sum()
    received = pl.col("received_s").is_not_null().sum()
    delay_ms = 1e3 * (pl.col("received_s") - pl.col("sent_s"))
    finished = received + lost
    return rows.group_by("run", maintain_order=True).agg(
        delay_p95_ms=delay_ms.quantile(0.95, "linear"),
        residual_loss_ratio=pl.when(finished > 0).then(lost / finished),
    )
