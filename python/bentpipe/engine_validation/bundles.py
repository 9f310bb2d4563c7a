"""Delivered bundles of dtnperf clients, and their delivery times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["delivered"]

FIRST_SERVICE = 3000
"""Service number of the first client; others follow (crates/bundle/src/bpa/delivery.rs)."""

_ID = ["run", "source", "created_ms", "sequence"]


def delivered(store: Store) -> pl.DataFrame:
    """Return one row for each run and client with its delivered bundles and median delivery time.

    Returns:
        Columns ``run``, ``flow`` (name of the flow of the client), ``delivered_bundles`` and ``delivery_p50_s``
        (from generation to delivery).
    """
    schema = {
        "run": pl.String,
        "flow": pl.String,
        "delivered_bundles": pl.Float64,
        "delivery_p50_s": pl.Float64,
    }
    rows = store.rows("bundles")
    if not rows.height:
        return pl.DataFrame(schema=schema)
    whole = rows.filter(pl.col("offset_bytes").is_null(), pl.col("kind") == "data")
    generated, arrivals = (
        whole.filter(pl.col("event") == event).select(*_ID, pl.col("time_s").alias(event)).unique(_ID)
        for event in ("generated", "delivered")
    )
    bundles = generated.join(arrivals, on=_ID, how="left").with_columns(
        number=pl.col("source").str.extract(r"[.-](\d+)$").cast(pl.Int64)
    )
    metrics = bundles.group_by("run", "number").agg(
        delivered_bundles=pl.col("delivered").count().cast(pl.Float64),
        delivery_p50_s=(pl.col("delivered") - pl.col("generated")).median(),
    )
    names = [
        (run, number + base, client["name"])
        for run, spec in store.specs(store.index["run"].to_list()).items()
        if (dtn := spec.get("dtn")) is not None
        for number, client in enumerate(dtn.get("perf", ()))
        for base in (0, FIRST_SERVICE)  # named endpoints are `client-0` and following
    ]
    clients = pl.DataFrame(
        names, schema={"run": pl.String, "number": pl.Int64, "flow": pl.String}, orient="row"
    )
    return metrics.join(clients, on=["run", "number"], how="inner").select(*schema)
