"""Metrics of dtnperf clients: bundle counts, delay, and goodput by two definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.intervals import mean_columns
from bentpipe.metrics.registry import Scope, select

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.store.reader import Store

__all__ = ["COUNTS", "OVER_SEEDS", "aggregate_seeds", "bundle_metrics"]

COUNTS = ("generated_bundles", "delivered_bundles", "acknowledged_bundles", "deleted_bundles")
OVER_SEEDS = tuple(metric.name for metric in select(Scope.BUNDLE_CLIENT))
"""Metrics of :func:`bundle_metrics` that :func:`aggregate_seeds` aggregates."""


def bundle_metrics(store: Store) -> pl.DataFrame:
    """Return one row per run and client: ``run, flow, client`` (endpoint ID) and ``OVER_SEEDS``.

    ``acknowledged_bit_s`` is dtnperf's goodput: acknowledged payload over the time from the first generated bundle to
    the last acknowledgement. It is null without an acknowledgement (clients in rate mode have none).
    ``generated_bit_s`` is the goodput of Andreotti (2025): payload of generated bundles over the configured sending
    time. For a client with a fixed amount of data, that time ends with the last acknowledgement or delivery.
    ``deleted_bundles`` counts bundles of which a node deleted a copy (lifetime expired, storage full or delivery
    abandoned). The frame is empty without bundle clients.
    """
    rows = store.rows("bundles")
    if rows.width <= 1 or not rows.height:
        return pl.DataFrame()
    whole = pl.col("offset_bytes").is_null() | pl.col("offset_bytes").is_nan()
    data = rows.filter((pl.col("kind") == "data") & whole)
    specs = store.specs(store.runs["run"].to_list())
    clients = [
        {
            "run": run,
            "flow": perf["name"],
            "client": client,
            **_client_metrics(events.filter(pl.col("source") == client), perf),
        }
        for (run,), events in data.group_by("run", maintain_order=True)
        for client, perf in _clients(specs[str(run)]).items()
    ]
    return pl.DataFrame(clients, infer_schema_length=None)


def _clients(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the ``perf`` table of each client by its endpoint ID (services 3000 and up)."""
    eids = {node["name"]: node["eid"] for node in spec["dtn"]["nodes"]}
    clients = {}
    for number, perf in enumerate(spec["dtn"].get("perf", [])):
        eid = eids[perf["client"]]
        name = f"{eid}dtnperf/client-{number}" if eid.startswith("dtn:") else f"{eid[:-1]}{3000 + number}"
        clients[name] = perf
    return clients


def _client_metrics(events: pl.DataFrame, perf: Mapping[str, Any]) -> dict[str, float | int | None]:
    key = ["created_ms", "sequence"]
    by_event = {
        name: events.filter(pl.col("event") == name)
        for name in ("generated", "delivered", "acknowledged", "deleted")
    }
    deleted = by_event["deleted"].filter(pl.col("reason") != "it is known here").select(key).n_unique()
    times = {name: frame["time_s"].to_list() for name, frame in by_event.items()}
    sizes = {name: frame["payload_bytes"].to_list() for name, frame in by_event.items()}
    start = perf["start_ns"] / 1e9
    end = max([*times["acknowledged"], *times["delivered"]], default=None)
    configured = perf["amount"]["duration_ns"] / 1e9 if perf["amount"]["kind"] == "time" else None
    duration = configured if configured is not None else (end - start if end is not None else None)
    acknowledged = max(times["acknowledged"], default=0.0) - min(times["generated"], default=0.0)
    delivered = by_event["generated"].join(by_event["delivered"], on=key, suffix="_delivered")
    delay = pl.col("time_s_delivered") - pl.col("time_s")
    return {
        **{name: len(times[name.removesuffix("_bundles")]) for name in COUNTS if name != "deleted_bundles"},
        "deleted_bundles": deleted,
        "acknowledged_bit_s": sum(sizes["acknowledged"]) * 8 / acknowledged if times["acknowledged"] else None,
        "generated_bit_s": sum(sizes["generated"]) * 8 / duration if duration else None,
        "bundle_delay_p50_s": delivered.select(delay.quantile(0.5, "linear")).item(),
    }  # fmt: skip


def aggregate_seeds(store: Store, metrics: pl.DataFrame) -> pl.DataFrame:
    """Aggregate ``metrics`` over seeds.

    The result has the sweep's columns, ``flow``, ``seeds``, and each of ``OVER_SEEDS`` as
    :func:`bentpipe.metrics.intervals.mean_columns`.
    """
    by = [*store.columns, "flow"]
    cells = store.index.join(metrics, on="run", how="inner", maintain_order="left_right")
    rows = []
    for cell, group in cells.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, cell, strict=True)) | {"seeds": group.height}
        for name in OVER_SEEDS:
            row |= mean_columns(name, group[name].drop_nulls().cast(pl.Float64).to_list())
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
