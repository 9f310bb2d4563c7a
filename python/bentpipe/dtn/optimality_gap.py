"""How far runs were from the best that a plan allows: what was delivered by when against what could have been."""

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

_CAME = ("generated", "received", "part", "reassembled")
_WENT = ("delivered", "forwarded", "deleted", "cut", "joined")
_BUNDLE = ("source", "created_ms", "sequence")

COLUMNS = (
    "generated_bundles", "delivered_bundles", "delivered_bytes", "best_bytes", "delay_mean_s", "best_delay_mean_s",
    "behind_p50_s", "behind_max_s", "last_s", "best_last_s", "sent_bytes", "peak_bytes",
)  # fmt: skip
"""Numbers of :func:`distances`."""


def distances(store: Store, plan: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """One row per run and destination of bundles: ``run, to, above_bytes, peak_node, peaks`` and :data:`COLUMNS`.

    The best is that of the bundles that were generated, when they were (payload alone), by the run's own contact plan
    or ``plan`` (in the engine's words): ``best_bytes`` by the run's end; ``behind_..._s`` how much earlier what a
    delivery completed could have been there; ``best_delay_mean_s`` with bundles in the order of their generation.
    ``sent_bytes`` left all transmitters of links; ``peak_bytes`` is the most payload that a node beside the destination
    had stored, ``peaks`` that of each. Runs without a plan have no row.

    Raises:
        ScenarioError: ``plan`` does not know a node.
    """
    rows = store.rows("bundles")
    if rows.width <= 1 or not rows.height:
        return pl.DataFrame()
    whole = pl.col("offset_bytes").is_null() | pl.col("offset_bytes").is_nan()
    sent = _sent(store)
    specs = store.specs(store.runs["run"].to_list())
    found = []
    for (run,), own in rows.group_by("run", maintain_order=True):
        spec: Any = specs[str(run)]
        used = spec["dtn"]["plan"] if plan is None else plan
        if not used["contacts"]:
            continue
        eids = {node["eid"].rstrip("0123456789"): node["name"] for node in spec["dtn"]["nodes"]}
        data = own.filter((pl.col("kind") == "data") & whole).with_columns(
            to=pl.col("destination")
            .cast(pl.String)
            .replace_strict(
                {
                    eid: _node(eid, eids)
                    for eid in own["destination"].cast(pl.String).unique(maintain_order=True)
                }
            )
        )
        stores = {
            node["name"]: node["store_bytes"]
            for node in spec["dtn"]["nodes"]
            if node["store_bytes"] is not None
        }
        peaks = _peaks(own)
        for (to,), of in data.group_by("to", maintain_order=True):
            row = _row(of, str(to), used, stores, spec["duration_ns"] / 1e9)
            other = {node: most for node, most in peaks.items() if node != to}
            most = max(other, key=lambda node: other[node], default=None)
            found.append(
                {
                    "run": run, "to": to, **row, "sent_bytes": sent.get(str(run)),
                    "peak_bytes": None if most is None else other[most], "peak_node": most,
                    "peaks": [{"node": node, "bytes": held} for node, held in other.items()],
                }
            )  # fmt: skip
    return pl.DataFrame(found, infer_schema_length=None)


def _node(eid: str, eids: Mapping[str, str]) -> str:
    for begin, name in eids.items():
        if eid.startswith(begin):
            return name
    return eid


def _row(
    of: pl.DataFrame, to: str, plan: Mapping[str, Any], stores: Mapping[str, int], end: float
) -> dict[str, Any]:
    generated = of.filter(pl.col("event") == "generated").sort("time_s", maintain_order=True)
    delivered = of.filter(pl.col("event") == "delivered").sort("time_s", maintain_order=True)
    created, sizes = generated["time_s"].to_list(), generated["payload_bytes"].to_list()
    supplies = [
        (str(node), round(at * 1e9), int(size))
        for node, at, size in zip(generated["node"].to_list(), created, sizes, strict=True)
    ]
    made = curve(plan, supplies, to, {node: most for node, most in stores.items() if node != to})
    there, held = delivered["time_s"].to_list(), delivered["payload_bytes"].cum_sum().to_list()
    behind = [
        at - least for at, bytes_ in zip(there, held, strict=True) if (least := made.arrival(bytes_)) is not None
    ]  # fmt: skip
    ways = generated.join(delivered, on=list(_BUNDLE), suffix="_there")
    bests = [at - begin for at, begin in zip(made.arrivals_s, created, strict=True) if at is not None]
    total = held[-1] if held else 0
    return {
        "above_bytes": made.above_bytes,
        "generated_bundles": len(created),
        "delivered_bundles": len(there),
        "delivered_bytes": float(total),
        "best_bytes": made.delivered(end),
        "delay_mean_s": ways.select((pl.col("time_s_there") - pl.col("time_s")).mean()).item(),
        "best_delay_mean_s": sum(bests) / len(bests) if bests else None,
        "behind_p50_s": pl.Series(behind, dtype=pl.Float64).median(),
        "behind_max_s": max(behind, default=None),
        "last_s": max(there, default=None),
        "best_last_s": made.arrival(total) if total else None,
    }


def _sent(store: Store) -> dict[str, float]:
    """Bytes that left transmitters, by run."""
    rows = store.rows("links")
    if rows.width <= 1 or not rows.height:
        return {}
    last = rows.group_by("run", "link", maintain_order=True).agg(pl.col("sent_bytes").max())
    summed = last.group_by("run", maintain_order=True).agg(pl.col("sent_bytes").sum().cast(pl.Float64))
    return dict(zip(summed["run"].cast(pl.String).to_list(), summed["sent_bytes"].to_list(), strict=True))


def _peaks(own: pl.DataFrame) -> dict[str, float]:
    """The most payload that each node had stored, of bundles of every kind."""
    here: dict[str, dict[tuple[Any, ...], float]] = {}
    held: dict[str, float] = {}
    most: dict[str, float] = {}
    key = ["node", "event", *_BUNDLE, "offset_bytes", "payload_bytes"]
    for node, event, *bundle, size in own.select(key).iter_rows():
        mine = here.setdefault(node, {})
        which = tuple(None if isinstance(one, float) and one != one else one for one in bundle)
        if event in _CAME and which not in mine:
            mine[which] = size
            held[node] = held.get(node, 0.0) + size
            most[node] = max(most.get(node, 0.0), held[node])
        elif event in _WENT and which in mine:
            held[node] -= mine.pop(which)
    return most


def summarise(directory: Path | Store, file: Path | None = None) -> CommandOutput:
    """:func:`distances` of a store over seeds, for people, and of each run as data.

    Args:
        directory: the store.
        file: a plan of which the best is, instead of each run's own.

    Raises:
        ScenarioError: the store has no bundle nodes with a plan; what is wrong with the plan.
    """
    from bentpipe.store.reader import open_store

    plan = None
    if file is not None:
        from bentpipe.dtn.contact_plan import read

        plan = read(file).spec
    store = open_store(directory)
    found = distances(store, plan)
    if not found.height:
        raise ScenarioError(
            [("", "has no bundle nodes with a contact plan, and no other is given")], str(store.path)
        )
    joined = store.index.join(found, on="run", how="inner", maintain_order="left_right")
    by = [*store.columns, "to"]
    means = joined.group_by(by, maintain_order=True).agg(
        pl.len().alias("seeds"), *(pl.col(name).cast(pl.Float64).mean() for name in COLUMNS)
    )
    called = _told_apart(store, means)
    rows = [
        {
            **{name: row[key] for key, name in called.items()}, "to": row["to"],
            "delivered": f"{row['delivered_bundles']:.6g} of {row['generated_bundles']:.6g}",
            "of the best, %": _share(row["delivered_bytes"], row["best_bytes"]),
            "mean way, s": row["delay_mean_s"], "at best, s": row["best_delay_mean_s"],
            "behind: median, s": row["behind_p50_s"], "most, s": row["behind_max_s"],
            "last, s": row["last_s"], "could be, s": row["best_last_s"],
            "on the air, MB": None if row["sent_bytes"] is None else row["sent_bytes"] / 1e6,
            "peak of a store, MB": None if row["peak_bytes"] is None else row["peak_bytes"] / 1e6,
        }
        for row in means.iter_rows(named=True)
    ]  # fmt: skip
    lines: list[str | TextTable] = [
        TextTable("Bundles against the best that the plan allows (means over seeds)", rows)
    ]
    if joined["above_bytes"].null_count():
        lines.append(
            "A plan has too many instants: nothing is earlier than its best, which cannot all be had."
        )
    return CommandOutput({"runs": store.shown(joined).to_dicts()}, tuple(lines))


def _told_apart(store: Store, means: pl.DataFrame) -> dict[str, str]:
    """The sweep's columns that are printed, and what they are called: none that follows from those before it."""
    names = store.shown(means.select(store.columns)).columns
    found: dict[str, str] = {}
    for key, name in zip(store.columns, names, strict=True):
        cells = means.select(*found, key).unique().height
        if cells > max(means.select(list(found)).unique().height if found else 0, 1):
            found[key] = name
    return found


def _share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None
