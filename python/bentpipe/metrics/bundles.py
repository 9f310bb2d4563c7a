"""What clients of dtnperf had: how many bundles, and goodput as two testbeds count it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.intervals import mean_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.store.reader import Store

__all__ = ["COUNTS", "OVER_SEEDS", "bundle_metrics", "over_seeds"]

COUNTS = ("generated_bundles", "delivered_bundles", "acknowledged_bundles", "deleted_bundles")
OVER_SEEDS = (*COUNTS, "acknowledged_bit_s", "generated_bit_s", "bundle_delay_p50_s")
"""Metrics of :func:`bundle_metrics` that are aggregated over seeds."""


def bundle_metrics(store: Store) -> pl.DataFrame:
    """One row per run and client: ``run, flow, client`` (its endpoint) and ``OVER_SEEDS``.

    ``acknowledged_bit_s`` is dtnperf's goodput: acknowledged payload over the time from the first bundle to the last
    acknowledgement; null where a client is paced by its rate. ``generated_bit_s`` is that of Andreotti (2025): payload
    of generated bundles over the time for which the client was to send, or, of one that sends so much, until the last
    one was acknowledged or delivered. ``deleted_bundles`` are those of which a copy expired, found no room or was given
    up. Empty for a store without them.
    """
    rows = store.rows("bundles")
    if rows.width <= 1 or not rows.height:
        return pl.DataFrame()
    whole = pl.col("offset_bytes").is_null() | pl.col("offset_bytes").is_nan()
    data = rows.filter((pl.col("kind") == "data") & whole)
    specs = store.specs(store.runs["run"].to_list())
    found = [
        {
            "run": run,
            "flow": perf["name"],
            "client": client,
            **_client(own.filter(pl.col("source") == client), perf),
        }
        for (run,), own in data.group_by("run", maintain_order=True)
        for client, perf in _clients(specs[str(run)]).items()
    ]
    return pl.DataFrame(found, infer_schema_length=None)


def _clients(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What each client was to do, by its endpoint (services 3000 and up)."""
    eids = {node["name"]: node["eid"] for node in spec["dtn"]["nodes"]}
    found = {}
    for number, perf in enumerate(spec["dtn"].get("perf", [])):
        own = eids[perf["client"]]
        name = f"{own}dtnperf/client-{number}" if own.startswith("dtn:") else f"{own[:-1]}{3000 + number}"
        found[name] = perf
    return found


def _client(own: pl.DataFrame, perf: Mapping[str, Any]) -> dict[str, float | int | None]:
    key = ["created_ms", "sequence"]
    of = {
        name: own.filter(pl.col("event") == name)
        for name in ("generated", "delivered", "acknowledged", "deleted")
    }
    gone = of["deleted"].filter(pl.col("reason") != "it is known here").select(key).n_unique()
    times = {name: frame["time_s"].to_list() for name, frame in of.items()}
    sizes = {name: frame["payload_bytes"].to_list() for name, frame in of.items()}
    start = perf["start_ns"] / 1e9
    until = max([*times["acknowledged"], *times["delivered"]], default=None)
    sends = perf["amount"]["duration_ns"] / 1e9 if perf["amount"]["kind"] == "time" else None
    over = sends if sends is not None else (until - start if until is not None else None)
    known = max(times["acknowledged"], default=0.0) - min(times["generated"], default=0.0)
    ways = of["generated"].join(of["delivered"], on=key, suffix="_there")
    return {
        **{name: len(times[name.removesuffix("_bundles")]) for name in COUNTS if name != "deleted_bundles"},
        "deleted_bundles": gone,
        "acknowledged_bit_s": sum(sizes["acknowledged"]) * 8 / known if times["acknowledged"] else None,
        "generated_bit_s": sum(sizes["generated"]) * 8 / over if over else None,
        "bundle_delay_p50_s": ways.select((pl.col("time_s_there") - pl.col("time_s")).quantile(0.5, "linear")).item(),
    }  # fmt: skip


def over_seeds(store: Store, metrics: pl.DataFrame) -> pl.DataFrame:
    """``metrics`` over seeds: the sweep's columns, ``flow``, ``seeds``, and each of ``OVER_SEEDS`` as
    :func:`bentpipe.metrics.intervals.mean_columns`."""
    by = [*store.columns, "flow"]
    cells = store.index.join(metrics, on="run", how="inner", maintain_order="left_right")
    rows = []
    for cell, own in cells.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, cell, strict=True)) | {"seeds": own.height}
        for name in OVER_SEEDS:
            row |= mean_columns(name, own[name].drop_nulls().cast(pl.Float64).to_list())
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
