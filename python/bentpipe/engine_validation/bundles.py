"""Of clients of dtnperf: how many of their bundles were delivered, and how long these took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["delivered"]

FIRST = 3000
"""Service of the first client; others follow (crates/bundle/src/bpa/delivery.rs)."""

_ID = ["run", "source", "created_ms", "sequence"]


def delivered(store: Store) -> pl.DataFrame:
    """``delivered_bundles`` of those that a client generated, and ``delivery_p50_s``, from one to the other: a row a
    run and client, by the name of its flow."""
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
    made, came = (
        whole.filter(pl.col("event") == event).select(*_ID, pl.col("time_s").alias(event)).unique(_ID)
        for event in ("generated", "delivered")
    )
    both = made.join(came, on=_ID, how="left").with_columns(
        number=pl.col("source").str.extract(r"[.-](\d+)$").cast(pl.Int64)
    )
    counted = both.group_by("run", "number").agg(
        delivered_bundles=pl.col("delivered").count().cast(pl.Float64),
        delivery_p50_s=(pl.col("delivered") - pl.col("generated")).median(),
    )
    names = [
        (run, number + at, client["name"])
        for run, spec in store.specs(store.index["run"].to_list()).items()
        if (dtn := spec.get("dtn")) is not None
        for number, client in enumerate(dtn.get("perf", ()))
        for at in (0, FIRST)  # `client-0` where endpoints have names
    ]
    which = pl.DataFrame(
        names, schema={"run": pl.String, "number": pl.Int64, "flow": pl.String}, orient="row"
    )
    return counted.join(which, on=["run", "number"], how="inner").select(*schema)
