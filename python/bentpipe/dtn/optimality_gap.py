"""Optimality gap: deliveries of runs over time, compared with the delivery bound of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.dtn.delivery_bound import curve
from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bentpipe.store.reader import Store

__all__ = ["COLUMNS", "distances", "summarise"]

_ARRIVALS = ("generated", "received", "fragment_created", "reassembled")
_DEPARTURES = ("delivered", "forwarded", "deleted", "fragmented", "fragment_merged")
_BUNDLE_KEY = ("source", "created_ms", "sequence")

COLUMNS = (
    "generated_bundles", "delivered_bundles", "delivered_bytes", "best_bytes", "delay_mean_s", "best_delay_mean_s",
    "behind_p50_s", "behind_max_s", "last_s", "best_last_s", "sent_bytes", "peak_bytes",
)  # fmt: skip
"""Numeric columns of :func:`distances`."""


def distances(store: Store, plan: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Return one row per run and destination: ``run, to, above_bytes, peak_node, peaks`` and :data:`COLUMNS`.

    The bound is for the payload of the generated bundles at their instants, by the contact plan of the run or ``plan``.
    ``best_bytes`` is the bound at the end of the run, ``behind_..._s`` the possible lead of each completed delivery.
    ``best_delay_mean_s`` has the bundles in the order of their generation. ``sent_bytes`` left all transmitters of
    links.
    ``peak_bytes`` is the maximum payload in the store of a node other than the destination, ``peaks`` that of each
    node.
    Runs without a plan have no row.

    Args:
        store: store to read.
        plan: plan as the engine reads it; None: that of each run.

    Raises:
        ScenarioError: ``plan`` does not have a node.
    """
    bundle_rows = store.rows("bundles")
    if bundle_rows.width <= 1 or not bundle_rows.height:
        return pl.DataFrame()
    is_whole = pl.col("offset_bytes").is_null() | pl.col("offset_bytes").is_nan()
    sent = _sent_bytes(store)
    specs = store.specs(store.runs["run"].to_list())
    rows = []
    for (run,), run_rows in bundle_rows.group_by("run", maintain_order=True):
        spec: Any = specs[str(run)]
        run_plan = spec["dtn"]["plan"] if plan is None else plan
        if not run_plan["contacts"]:
            continue
        eids = {node["eid"].rstrip("0123456789"): node["name"] for node in spec["dtn"]["nodes"]}
        data_rows = run_rows.filter((pl.col("kind") == "data") & is_whole).with_columns(
            to=pl.col("destination")
            .cast(pl.String)
            .replace_strict(
                {
                    eid: _node_of(eid, eids)
                    for eid in run_rows["destination"].cast(pl.String).unique(maintain_order=True)
                }
            )
        )
        stores = {
            node["name"]: node["store_bytes"]
            for node in spec["dtn"]["nodes"]
            if node["store_bytes"] is not None
        }
        peaks = _peaks(run_rows)
        for (to,), destination_rows in data_rows.group_by("to", maintain_order=True):
            result = _gap(destination_rows, str(to), run_plan, stores, spec["duration_ns"] / 1e9)
            peaks_elsewhere = {node: peak_node for node, peak_node in peaks.items() if node != to}
            peak_node = max(peaks_elsewhere, key=lambda node: peaks_elsewhere[node], default=None)
            rows.append(
                {
                    "run": run, "to": to, **result, "sent_bytes": sent.get(str(run)),
                    "peak_bytes": None if peak_node is None else peaks_elsewhere[peak_node], "peak_node": peak_node,
                    "peaks": [{"node": node, "bytes": size} for node, size in peaks_elsewhere.items()],
                }
            )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def _node_of(eid: str, eids: Mapping[str, str]) -> str:
    for prefix, name in eids.items():
        if eid.startswith(prefix):
            return name
    return eid


def _gap(
    rows: pl.DataFrame, to: str, plan: Mapping[str, Any], stores: Mapping[str, int], end: float
) -> dict[str, Any]:
    generated = rows.filter(pl.col("event") == "generated").sort("time_s", maintain_order=True)
    delivered = rows.filter(pl.col("event") == "delivered").sort("time_s", maintain_order=True)
    created, sizes = generated["time_s"].to_list(), generated["payload_bytes"].to_list()
    supplies = [
        (str(node), round(time * 1e9), int(size))
        for node, time, size in zip(generated["node"].to_list(), created, sizes, strict=True)
    ]
    bound = curve(plan, supplies, to, {node: capacity for node, capacity in stores.items() if node != to})
    arrivals, cumulative = delivered["time_s"].to_list(), delivered["payload_bytes"].cum_sum().to_list()
    lags = [
        time - earliest for time, bytes_ in zip(arrivals, cumulative, strict=True)
        if (earliest := bound.arrival(bytes_)) is not None
    ]  # fmt: skip
    matched = generated.join(delivered, on=list(_BUNDLE_KEY), suffix="_there")
    delays = [time - start for time, start in zip(bound.arrivals_s, created, strict=True) if time is not None]
    total = cumulative[-1] if cumulative else 0
    return {
        "above_bytes": bound.above_bytes,
        "generated_bundles": len(created),
        "delivered_bundles": len(arrivals),
        "delivered_bytes": float(total),
        "best_bytes": bound.delivered(end),
        "delay_mean_s": matched.select((pl.col("time_s_there") - pl.col("time_s")).mean()).item(),
        "best_delay_mean_s": sum(delays) / len(delays) if delays else None,
        "behind_p50_s": pl.Series(lags, dtype=pl.Float64).median(),
        "behind_max_s": max(lags, default=None),
        "last_s": max(arrivals, default=None),
        "best_last_s": bound.arrival(total) if total else None,
    }


def _sent_bytes(store: Store) -> dict[str, float]:
    """Return the bytes that left transmitters, by run."""
    rows = store.rows("links")
    if rows.width <= 1 or not rows.height:
        return {}
    last_samples = rows.group_by("run", "link", maintain_order=True).agg(pl.col("sent_bytes").max())
    totals = last_samples.group_by("run", maintain_order=True).agg(
        pl.col("sent_bytes").sum().cast(pl.Float64)
    )
    return dict(zip(totals["run"].cast(pl.String).to_list(), totals["sent_bytes"].to_list(), strict=True))


def _peaks(rows: pl.DataFrame) -> dict[str, float]:
    """Return the maximum payload that each node stored, of bundles of every kind."""
    stored: dict[str, dict[tuple[Any, ...], float]] = {}
    used: dict[str, float] = {}
    peaks: dict[str, float] = {}
    key = ["node", "event", *_BUNDLE_KEY, "offset_bytes", "payload_bytes"]
    for node, event, *fields, size in rows.select(key).iter_rows():
        node_bundles = stored.setdefault(node, {})
        bundle = tuple(None if isinstance(field, float) and field != field else field for field in fields)
        if event in _ARRIVALS and bundle not in node_bundles:
            node_bundles[bundle] = size
            used[node] = used.get(node, 0.0) + size
            peaks[node] = max(peaks.get(node, 0.0), used[node])
        elif event in _DEPARTURES and bundle in node_bundles:
            used[node] -= node_bundles.pop(bundle)
    return peaks


def summarise(directory: Path | Store, file: Path | None = None) -> CommandOutput:
    """Return :func:`distances` of a store: means over seeds as text, each run as data.

    Args:
        directory: store, or its directory.
        file: plan of the bound; None: that of each run.

    Raises:
        ScenarioError: no bundle nodes with a plan in the store, or an invalid plan.
    """
    from bentpipe.store.reader import open_store

    plan = None
    if file is not None:
        from bentpipe.dtn.contact_plan import read

        plan = read(file).spec
    store = open_store(directory)
    gaps = distances(store, plan)
    if not gaps.height:
        text = "no bundle nodes with a contact plan in this store; give a contact plan with --plan FILE"
        raise ScenarioError([("", text)], str(getattr(directory, "path", directory)))
    joined = store.index.join(gaps, on="run", how="inner", maintain_order="left_right")
    keys = [*store.columns, "to"]
    means = joined.group_by(keys, maintain_order=True).agg(
        pl.len().alias("seeds"), *(pl.col(name).cast(pl.Float64).mean() for name in COLUMNS)
    )
    names = _distinct_columns(store, means)
    rows = [
        {
            **{name: row[key] for key, name in names.items()}, "to": row["to"],
            "delivered": f"{row['delivered_bundles']:.6g} of {row['generated_bundles']:.6g}",
            "of the delivery bound, %": _percent(row["delivered_bytes"], row["best_bytes"]),
            "mean delay, s": row["delay_mean_s"], "lower bound of the mean delay, s": row["best_delay_mean_s"],
            "excess delay: median, s": row["behind_p50_s"], "max, s": row["behind_max_s"],
            "last delivery, s": row["last_s"], "lower bound of the last delivery, s": row["best_last_s"],
            "transmitted, MB": None if row["sent_bytes"] is None else row["sent_bytes"] / 1e6,
            "peak store size, MB": None if row["peak_bytes"] is None else row["peak_bytes"] / 1e6,
        }
        for row in means.iter_rows(named=True)
    ]  # fmt: skip
    shown: list[str | TextTable] = [
        TextTable("Delivered bundles and delivery bound of the contact plan (means over seeds)", rows)
    ]
    if joined["above_bytes"].null_count():
        shown.append(
            "A plan has too many instants for an exact bound: no delivery can be earlier, but not "
            "all of these are possible."
        )
    return CommandOutput({"runs": store.shown(joined).to_dicts()}, tuple(shown))


def _distinct_columns(store: Store, means: pl.DataFrame) -> dict[str, str]:
    """Return the printed sweep columns with their names; columns that follow from earlier ones are left out."""
    titles = store.shown(means.select(store.columns)).columns
    result: dict[str, str] = {}
    for key, title in zip(store.columns, titles, strict=True):
        cells = means.select(*result, key).unique().height
        if cells > max(means.select(list(result)).unique().height if result else 0, 1):
            result[key] = title
    return result


def _percent(part: float, total: float) -> float | None:
    return 100 * part / total if total else None
