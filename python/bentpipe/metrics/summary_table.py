"""``bentpipe show``: a store's metrics as the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.metrics.format import TextTable, format_metric_mean, mean_of, over_seeds, short_labels
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.scenario.sweep_columns import column_headings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.metrics.call_quality import RatingConfig
    from bentpipe.metrics.registry import Metric
    from bentpipe.store.reader import Store

__all__ = ["Summary", "bundle_rows", "call_rows", "page_rows", "summary_rows", "user_numbers", "user_tables"]

_OF_PAGES = {
    name: f"{METRICS[name].short_title} median {METRICS[name].unit}"
    for name in ("connect_s", "ttr_s", "plt_s")
}

_SHOWN = tuple(
    (metric, metric.group_title if name.startswith("goodput_p") else metric.heading_alone)
    for name in (
        "flows", "goodput_bit_s", "goodput_p5_bit_s", "goodput_p95_bit_s", "jain", "convergence_s",
        "completion_p50_s", "handshake_s", "retransmission_ratio", "largest_cwnd_bytes", "queueing_p95_ms",
    )
    for metric in (METRICS[name],)
)  # fmt: skip
"""Metric and heading."""


class Summary(NamedTuple):
    """The first tables of ``show``."""

    title: str
    rows: list[dict[str, Any]]
    notes: list[str]
    """Why metrics are unknown, a sentence each."""


def summary_rows(directory: Path | Store, *, numbers: bool = False) -> Summary:
    """One row a cell, flow and direction; ``numbers`` gives all metrics unrounded, one a row.

    Raises:
        bentpipe.StoreError: not a store, or no finished run.
    """
    from bentpipe.metrics.compute import OVER_SEEDS, aggregate_seeds
    from bentpipe.metrics.fairness import unknown_convergence
    from bentpipe.metrics.groups import OVER_FLOWS, group_metrics
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    metrics = group_metrics(store)
    of_groups = [name for name in ("flows", *OVER_FLOWS) if name in metrics.columns]
    cells = aggregate_seeds(metrics, store.columns, [*OVER_SEEDS, *of_groups])
    notes = unknown_convergence(metrics)
    if numbers:
        return Summary(store.title, store.shown(cells).to_dicts(), notes)
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    by = [*store.columns, "flow", "direction"]
    known = set(cells["metric"].to_list())
    present = [(metric, heading) for metric, heading in _SHOWN if metric.name in known]
    others = ["flow", "direction", "controller", "seeds", *(heading for _, heading in present)]
    called = _called(store.columns, others) | {"flow": "flow", "direction": "direction"}
    words = short_labels(
        value for key in store.columns for value in store.index[key].unique() if value is not None
    )
    runs = {cell[:-1]: cell[-1] for cell in metrics.group_by(by, maintain_order=True).len().iter_rows()}
    for entry in cells.iter_rows(named=True):
        key = tuple(entry[name] for name in by)
        if key not in rows:
            rows[key] = {called[name]: words.get(entry[name], entry[name]) for name in by}
            rows[key] |= {"controller": entry["congestion"], "seeds": runs[key]}
            rows[key] |= {heading: None for _, heading in present}
        for metric, heading in present:
            if metric.name == entry["metric"]:
                rows[key][heading] = format_metric_mean(metric, _shown_of(metric, entry), runs[key])
    finished = f"{store.index.height} of {len(store.planned)} runs"
    title = f"{store.title} ({finished}; ± is half of the 95 % interval of the mean)"
    return Summary(title, _without_repetition(list(rows.values())), notes)


def page_rows(directory: Path | Store) -> list[dict[str, Any]]:
    """Loads of pages: one row a cell, flow, load and protocol, with medians over the seeds' finished loads.

    Empty for a store without loads.

    Raises:
        bentpipe.StoreError: not a store, or no finished run.
    """
    import polars as pl

    from bentpipe.metrics.groups import as_groups
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    pages = store.rows("pages")
    if not pages.height:
        return []
    by = [*store.columns, "flow", "load", "protocol"]
    pages = as_groups(pages, store.rows("summary"))
    pages = pages.with_columns(connect_s=pl.col("connect_end_s") - pl.col("connect_start_s"))
    loads = store.index.join(pages, on="run", how="inner", maintain_order="left_right")
    done = pl.col("finished") == 1
    found = loads.group_by(by, maintain_order=True).agg(
        pl.format("{} of {}", done.sum(), pl.len()).alias("finished"),
        *(pl.col(name).filter(done).median() for name in _OF_PAGES),
    )
    own = ["flow", "load", "protocol"]
    called = _called(store.columns, [*own, "finished", *_OF_PAGES.values()]) | {name: name for name in own}
    words = short_labels(
        value for key in store.columns for value in store.index[key].unique() if value is not None
    )
    rows = []
    for entry in found.iter_rows(named=True):
        row = {called[name]: words.get(entry[name], entry[name]) for name in by}
        row["finished"] = entry["finished"]
        for name, heading in _OF_PAGES.items():
            row[heading] = None if entry[name] is None else format_significant(entry[name])
        rows.append(row)
    return rows


_OF_CALLS = ("delay_ms", "jitter_ms", "lost_ratio", "late_ratio", "mouth_to_ear_ms", "rating", "mos")
_OF_MANY_CALLS = ("mos_least", "good_ratio", "refused_ratio")


def call_rows(
    directory: Path | Store, how: RatingConfig | None = None, *, numbers: bool = False
) -> list[dict[str, Any]]:
    """Calls and other sources of datagrams as they are judged: one row a cell, flow (or group) and direction,
    with means over calls and seeds; ``numbers`` gives every call of every run unrounded.

    Empty for a store without them.

    Raises:
        bentpipe.StoreError: not a store, or no finished run.
        ScenarioError: as :func:`bentpipe.metrics.call_quality.rating`.
    """
    from bentpipe.metrics.call_quality import RatingConfig as Default
    from bentpipe.metrics.call_quality import aggregate_cells, blocked_calls, rate_calls
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    judged = rate_calls(store, how or Default())
    if numbers or not judged.height:
        return store.shown(judged).to_dicts() if judged.height else []
    cells = aggregate_cells(judged, list(store.columns), blocked_calls(store))
    many = cells["calls"].max() != 1
    names = (*_OF_CALLS, *(_OF_MANY_CALLS if many else ()))
    present = [METRICS[name] for name in names if cells[name].null_count() < cells.height]
    own = ["flow", "direction", "source"]
    others = [*own, "seeds", "calls", *(metric.heading for metric in present)]
    called = _called(store.columns, others) | {name: name for name in own}
    words = short_labels(
        value for key in store.columns for value in store.index[key].unique() if value is not None
    )
    rows = []
    for entry in cells.iter_rows(named=True):
        row = {called[name]: words.get(entry[name], entry[name]) for name in (*store.columns, *own)}
        row |= {"seeds": entry["seeds"]} | ({"calls": entry["calls"]} if many else {})
        row |= {metric.heading: _mean(entry, metric) for metric in present}
        rows.append(row)
    return rows


def bundle_rows(directory: Path | Store, *, numbers: bool = False) -> list[dict[str, Any]]:
    """Clients of bundle nodes: one row a cell and client, with means over seeds; ``numbers`` gives every run unrounded.

    Empty for a store without them.

    Raises:
        bentpipe.StoreError: not a store, or no finished run.
    """
    from bentpipe.metrics.bundles import OVER_SEEDS, bundle_metrics, over_seeds
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    found = bundle_metrics(store)
    if numbers or not found.height:
        return store.shown(store.index.join(found, on="run", how="inner")).to_dicts() if found.height else []
    called = _called(store.columns, ["flow", "seeds", *(METRICS[name].heading for name in OVER_SEEDS)])
    called |= {"flow": "flow"}
    words = short_labels(
        value for key in store.columns for value in store.index[key].unique() if value is not None
    )
    rows = []
    for entry in over_seeds(store, found).iter_rows(named=True):
        row = {called[name]: words.get(entry[name], entry[name]) for name in (*store.columns, "flow")}
        row["seeds"] = entry["seeds"]
        row |= {METRICS[name].heading: _mean(entry, METRICS[name]) for name in OVER_SEEDS}
        rows.append(row)
    return rows


def user_numbers(directory: Path | Store) -> list[dict[str, Any]]:
    """What every user of every run had of a link that several share, unrounded; empty where users are not told apart.

    Raises:
        bentpipe.StoreError: not a store, or no finished run.
    """
    from bentpipe.metrics.users import user_metrics
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    users = user_metrics(store)
    return store.shown(users).to_dicts() if users.height else []


def user_tables(directory: Path | Store) -> list[TextTable]:
    """What users had that share a link, and what became of their packets: one row a cell, table of flows and direction,
    with means over seeds. Keys of the sweep that have one value stand in the first title.

    Empty for a store whose users are not told apart.

    Raises:
        bentpipe.StoreError: not a store, or no finished run.
    """
    from bentpipe.metrics.users import GOODPUT_METRICS, SERVICE_METRICS, over_cells, over_users, user_metrics
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    users = user_metrics(store)
    if not users.height:
        return []
    cells = over_cells(over_users(users, list(store.columns)), list(store.columns))
    words = short_labels(
        value for key in store.columns for value in store.index[key].unique() if value is not None
    )
    same = [key for key in store.columns if cells[key].n_unique() == 1]
    everywhere = "".join(
        f", {key.rsplit('.', maxsplit=1)[-1]} {words.get(cells[key][0], cells[key][0])}" for key in same
    )
    own = [name for name in ("flow", "direction") if cells[name].n_unique() > 1]
    told = [key for key in store.columns if key not in same]
    titles = (
        f"Users that share a link (over the users of each run; means over seeds{everywhere})",
        "What became of their packets",
    )
    tables = []
    for title, metrics in zip(titles, (GOODPUT_METRICS, SERVICE_METRICS), strict=True):
        present = [METRICS[name] for name in metrics if cells[name].null_count() < cells.height]
        if not present:
            continue
        called = _called(told, [*own, "users", "seeds", *(metric.heading for metric in present)])
        called |= {name: name for name in own}
        rows = []
        for entry in cells.iter_rows(named=True):
            row = {called[name]: words.get(entry[name], entry[name]) for name in (*told, *own)}
            row |= {"users": entry["users"], "seeds": entry["seeds"]}
            row |= {metric.heading: _mean(entry, metric) for metric in present}
            rows.append(row)
        tables.append(TextTable(title, rows))
    return tables


def _shown_of(metric: Metric, entry: dict[str, Any]) -> ConfidenceInterval:
    """Return the mean of a row of ``aggregate_seeds``, or the median where that is shown."""
    if metric.skewed:
        return ConfidenceInterval(entry["median"], None, None, entry["n"])
    return over_seeds(entry)


def _mean(entry: dict[str, Any], metric: Metric) -> str | None:
    found = mean_of(entry, metric.name)
    return None if found is None else format_metric_mean(metric, found, entry["seeds"])


def _called(keys: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Headings of the sweep's keys: the last word, where that says enough."""
    return column_headings({key: key.rsplit(".", maxsplit=1)[-1] for key in keys}, others)


def _without_repetition(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leaves out columns that say the same in every row, or what another column says."""
    if not rows:
        return rows
    dull = {name for name in ("flow", "direction", "controller") if len({row[name] for row in rows}) == 1}
    others = [name for name in rows[0] if name not in ("flow", "direction", "controller")]
    if any(all(row[name] == row["controller"] for row in rows) for name in others):
        dull.add("controller")
    if len(dull) == 3 and len(rows) == 1:
        dull = set()
    return [{name: value for name, value in row.items() if name not in dull} for row in rows]
