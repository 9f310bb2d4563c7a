"""Tables of ``bentpipe show``: metrics of a store as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.metrics.format import (
    TOO_FEW_SEEDS,
    TextTable,
    format_metric_mean,
    mean_of,
    seed_mean,
    short_labels,
)
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.metrics.registry import METRICS, OVER_SEEDS, Scope, in_flow_tables, select
from bentpipe.scenario.sweep_columns import LABELS, column_headings, label_contains

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.metrics.call_quality import RatingConfig
    from bentpipe.metrics.registry import Metric
    from bentpipe.store.reader import Store

__all__ = ["Summary", "bundle_rows", "call_rows", "page_rows", "summary_rows", "user_numbers", "user_tables"]

_PAGE_HEADINGS = {
    name: f"{METRICS[name].short_title} median {METRICS[name].unit}"
    for name in ("connect_s", "ttr_s", "plt_s")
}

_COLUMNS = tuple(
    (
        metric,
        metric.group_title if metric.scope == Scope.GROUP and metric.group_title else metric.heading_alone,
    )
    for metric in in_flow_tables(is_report=False)
)
"""Metric and heading of each column."""


class Summary(NamedTuple):
    """First table of ``show``."""

    title: str
    rows: list[dict[str, Any]]
    notes: list[str]
    """Reasons of unknown metrics, one sentence each."""


def summary_rows(
    directory: Path | Store, *, numbers: bool = False, metrics: pl.DataFrame | None = None
) -> Summary:
    """Return one row for each cell, flow and direction.

    Args:
        directory: store, or its directory.
        numbers: return every metric of the tables of ``show`` unrounded, one for each row.
        metrics: result of :func:`bentpipe.metrics.groups.group_metrics`, if it is known.

    Raises:
        bentpipe.StoreError: ``directory`` is not a store, or has no finished run.
    """
    from bentpipe.metrics.compute import aggregate_seeds
    from bentpipe.metrics.fairness import unknown_convergence
    from bentpipe.metrics.groups import OVER_FLOWS, group_metrics
    from bentpipe.metrics.store_metrics import cell_metrics, store_metrics
    from bentpipe.metrics.transfers import has_one_transfer, transfers
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    metrics = group_metrics(store) if metrics is None else metrics
    group_names = [name for name in ("flows", *OVER_FLOWS) if name in metrics.columns]
    cells = aggregate_seeds(metrics, store.columns, [*OVER_SEEDS, *group_names])
    notes = unknown_convergence(metrics)
    if numbers:
        complete = cell_metrics(store_metrics(store, metrics), store.columns)
        return Summary(store.title, store.shown(complete).to_dicts(), notes)
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    by = [*store.columns, "flow", "direction"]
    known = set(cells["metric"].to_list())
    # The median of one transfer is its completion time.
    alone = (
        {"completion_p50_s": METRICS["completion_s"].heading} if has_one_transfer(transfers(store)) else {}
    )
    present = [
        (metric, alone.get(metric.name, heading)) for metric, heading in _COLUMNS if metric.name in known
    ]
    others = ["flow", "direction", "controller", "seeds", *(heading for _, heading in present)]
    headings = _key_headings(store.columns, others) | {"flow": "flow", "direction": "direction"}
    labels = _value_labels(store)
    runs = {cell[:-1]: cell[-1] for cell in metrics.group_by(by, maintain_order=True).len().iter_rows()}
    for entry in cells.iter_rows(named=True):
        key = tuple(entry[name] for name in by)
        if key not in rows:
            rows[key] = {headings[name]: labels.get(entry[name], entry[name]) for name in by}
            rows[key] |= {"controller": entry["congestion"], "seeds": runs[key]}
            rows[key] |= {heading: None for _, heading in present}
        for metric, heading in present:
            if metric.name == entry["metric"]:
                rows[key][heading] = format_metric_mean(metric, _mean_or_median(metric, entry), runs[key])
    finished = f"{store.index.height} of {len(store.planned)} runs"
    texts = [str(row[name]) for row in rows.values() for _, name in present]
    is_marked = any(text.endswith(TOO_FEW_SEEDS) for text in texts)
    mark = f"; {TOO_FEW_SEEDS}: too few seeds, the interval exceeds the mean" if is_marked else ""
    if any(f"{TOO_FEW_SEEDS} (" in text for text in texts):
        mark += f"; {TOO_FEW_SEEDS} (n of m): of the n runs with a value only"
    is_clipped = any(" [" in text for text in texts)
    ends = "; [low, high]: its ends within the range of the metric" if is_clipped else ""
    title = f"{store.title} ({finished}; ±: half of the 95 % confidence interval{ends}{mark})"
    shown = _drop_redundant_columns(list(rows.values()))
    return Summary(title, _drop(shown, _keys_in_labels(store), headings), notes)


def page_rows(directory: Path | Store) -> list[dict[str, Any]]:
    """Return one row for each cell, flow, page load and protocol, with medians over the finished loads of all seeds.

    The list is empty for a store without page loads.

    Raises:
        bentpipe.StoreError: ``directory`` is not a store, or has no finished run.
    """
    import polars as pl

    from bentpipe.metrics.store_metrics import page_loads
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    pages = page_loads(store)
    if pages is None:
        return []
    by = [*store.columns, "flow", "load", "protocol"]
    loads = store.index.join(pages, on="run", how="inner", maintain_order="left_right")
    cells = loads.group_by(by, maintain_order=True).agg(
        pl.format("{} of {}", pl.col("loads_finished").sum().cast(pl.Int64), pl.len()).alias("finished"),
        *(pl.col(name).median() for name in _PAGE_HEADINGS),
    )
    names = ["flow", "load", "protocol"]
    headings = _key_headings(store.columns, [*names, "finished", *_PAGE_HEADINGS.values()])
    headings |= {name: name for name in names}
    labels = _value_labels(store)
    rows = []
    for entry in cells.iter_rows(named=True):
        row = {headings[name]: labels.get(entry[name], entry[name]) for name in by}
        row["finished"] = entry["finished"]
        for name, heading in _PAGE_HEADINGS.items():
            row[heading] = None if entry[name] is None else format_significant(entry[name])
        rows.append(row)
    return _drop(rows, _keys_in_labels(store), headings)


_MULTI_CALL_METRICS = ("mos_min", "mos_good_ratio", "blocked_ratio")
_CALL_METRICS = tuple(metric.name for metric in select(Scope.CALL) if metric.name not in _MULTI_CALL_METRICS)


def call_rows(
    directory: Path | Store, config: RatingConfig | None = None, *, numbers: bool = False
) -> list[dict[str, Any]]:
    """Return one row for each cell, datagram flow (or group) and direction, with means over calls and seeds.

    The list is empty for a store without datagram flows.

    Args:
        directory: store, or its directory.
        config: codec and play-out of the ratings.
        numbers: return every call of every run unrounded.

    Raises:
        bentpipe.StoreError: ``directory`` is not a store, or has no finished run.
        ScenarioError: as :func:`bentpipe.metrics.call_quality.rate_calls`.
    """
    from bentpipe.metrics.call_quality import RatingConfig as Default
    from bentpipe.metrics.call_quality import aggregate_cells, blocked_calls, rate_calls
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    ratings = rate_calls(store, config or Default())
    if numbers or not ratings.height:
        return store.shown(ratings).to_dicts() if ratings.height else []
    cells = aggregate_cells(ratings, list(store.columns), blocked_calls(store))
    many = cells["calls"].max() != 1
    names = (*_CALL_METRICS, *(_MULTI_CALL_METRICS if many else ()))
    present = [METRICS[name] for name in names if cells[name].null_count() < cells.height]
    names_of_flow = ["flow", "direction", "source"]
    others = [*names_of_flow, "seeds", "calls", *(metric.heading for metric in present)]
    headings = _key_headings(store.columns, others) | {name: name for name in names_of_flow}
    labels = _value_labels(store)
    rows = []
    for entry in cells.iter_rows(named=True):
        by = (*store.columns, *names_of_flow)
        row = {headings[name]: labels.get(entry[name], entry[name]) for name in by}
        row |= {"seeds": entry["seeds"]} | ({"calls": entry["calls"]} if many else {})
        row |= {metric.heading: _format_mean(entry, metric) for metric in present}
        rows.append(row)
    return _drop(rows, _keys_in_labels(store), headings)


def bundle_rows(directory: Path | Store, *, numbers: bool = False) -> list[dict[str, Any]]:
    """Return one row for each cell and client of bundle nodes, with means over seeds.

    The list is empty for a store without bundle clients.

    Args:
        directory: store, or its directory.
        numbers: return every run unrounded.

    Raises:
        bentpipe.StoreError: ``directory`` is not a store, or has no finished run.
    """
    from bentpipe.metrics.bundles import OVER_SEEDS as NAMES
    from bentpipe.metrics.bundles import aggregate_seeds, bundle_metrics
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    metrics = bundle_metrics(store)
    if not metrics.height:
        return []
    if numbers:
        return store.shown(store.index.join(metrics, on="run", how="inner")).to_dicts()
    headings = _key_headings(store.columns, ["flow", "seeds", *(METRICS[name].heading for name in NAMES)])
    headings |= {"flow": "flow"}
    labels = _value_labels(store)
    rows = []
    for entry in aggregate_seeds(store, metrics).iter_rows(named=True):
        row = {headings[name]: labels.get(entry[name], entry[name]) for name in (*store.columns, "flow")}
        row["seeds"] = entry["seeds"]
        row |= {METRICS[name].heading: _format_mean(entry, METRICS[name]) for name in NAMES}
        rows.append(row)
    return _drop(rows, _keys_in_labels(store), headings)


def user_numbers(directory: Path | Store) -> list[dict[str, Any]]:
    """Return the unrounded metrics of every user of every run; empty without per-user data.

    Raises:
        bentpipe.StoreError: ``directory`` is not a store, or has no finished run.
    """
    from bentpipe.metrics.users import user_metrics
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    users = user_metrics(store)
    return store.shown(users).to_dicts() if users.height else []


def user_tables(directory: Path | Store) -> list[TextTable]:
    """Return the tables of goodput and packet outcomes of users, with means over seeds.

    Each table has one row for each cell, table of flows and direction. The first title has the keys of the sweep with a
    single value. The list is empty without per-user data.

    Raises:
        bentpipe.StoreError: ``directory`` is not a store, or has no finished run.
    """
    from bentpipe.metrics.users import (
        GOODPUT_METRICS,
        SERVICE_METRICS,
        aggregate_cells,
        aggregate_users,
        user_metrics,
    )
    from bentpipe.store.reader import open_store

    store = open_store(directory)
    users = user_metrics(store)
    if not users.height:
        return []
    cells = aggregate_cells(aggregate_users(users, list(store.columns)), list(store.columns))
    labels = _value_labels(store)
    constant = [key for key in store.columns if cells[key].n_unique() == 1]
    constants = "".join(
        f", {key.rsplit('.', maxsplit=1)[-1]} {labels.get(cells[key][0], cells[key][0])}" for key in constant
    )
    names = [name for name in ("flow", "direction") if cells[name].n_unique() > 1]
    labelled = _keys_in_labels(store)
    varying = [key for key in store.columns if key not in constant and key not in labelled]
    titles = (
        f"Per-user statistics (over the users of each run; means over seeds{constants})",
        "Packet outcomes",
    )
    tables = []
    for title, metrics in zip(titles, (GOODPUT_METRICS, SERVICE_METRICS), strict=True):
        present = [METRICS[name] for name in metrics if cells[name].null_count() < cells.height]
        if not present:
            continue
        headings = _key_headings(varying, [*names, "users", "seeds", *(metric.heading for metric in present)])
        headings |= {name: name for name in names}
        rows = []
        for entry in cells.iter_rows(named=True):
            row = {headings[name]: labels.get(entry[name], entry[name]) for name in (*varying, *names)}
            row |= {"users": entry["users"], "seeds": entry["seeds"]}
            row |= {metric.heading: _format_mean(entry, metric) for metric in present}
            rows.append(row)
        tables.append(TextTable(title, rows))
    return tables


def _mean_or_median(metric: Metric, entry: dict[str, Any]) -> ConfidenceInterval:
    """Return the mean of a row of ``aggregate_seeds``, or the median of a skewed metric."""
    if metric.is_skewed:
        return ConfidenceInterval(entry["median"], None, None, entry["n"])
    return seed_mean(entry)


def _format_mean(entry: dict[str, Any], metric: Metric) -> str | None:
    mean = mean_of(entry, metric.name)
    return None if mean is None else format_metric_mean(metric, mean, entry["seeds"])


def _key_headings(keys: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Return the headings of the sweep's keys: the last part of each key, unless ambiguous."""
    return column_headings({key: key.rsplit(".", maxsplit=1)[-1] for key in keys}, others)


def _value_labels(store: Store) -> dict[str, str]:
    """Return the short labels of the sweep's values."""
    return short_labels(
        value for key in store.columns for value in store.index[key].unique() if value is not None
    )


MAX_TIED_KEYS = 3
"""Largest number of keys of a tied axis with a column each besides its label."""


def _keys_in_labels(store: Store) -> set[str]:
    """Return the keys of the sweep that the label of a tied axis stands for.

    It contains their value in every run, or determines more than :data:`MAX_TIED_KEYS` of them.
    """
    keys = [key for key in store.columns if not key.startswith(LABELS)]
    labelled = set()
    for axis in store.columns:
        if axis.startswith(LABELS):
            labels = store.index[axis].to_list()
            contained = {
                key
                for key in keys
                if all(
                    value is None or (label is not None and label_contains(label, value))
                    for label, value in zip(labels, store.index[key].to_list(), strict=True)
                )
            }
            tied = {key for key in keys if _determines(labels, store.index[key].to_list())} - contained
            labelled |= contained | (tied if len(tied) > MAX_TIED_KEYS else set())
    return labelled


def _determines(labels: Sequence[str | None], values: Sequence[object]) -> bool:
    """Return whether several labels determine a value."""
    pairs = set(zip(labels, values, strict=True))
    return len(set(labels)) == len(pairs) > 1


def _drop(rows: list[dict[str, Any]], keys: set[str], headings: dict[str, str]) -> list[dict[str, Any]]:
    """Return ``rows`` without the columns of ``keys``."""
    dropped = {headings[key] for key in keys}
    return [{name: value for name, value in row.items() if name not in dropped} for row in rows]


def _drop_redundant_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop columns that are constant or equal to another column."""
    if not rows:
        return rows
    redundant = {
        name for name in ("flow", "direction", "controller") if len({row[name] for row in rows}) == 1
    }
    others = [name for name in rows[0] if name not in ("flow", "direction", "controller")]
    if any(all(row[name] == row["controller"] for row in rows) for name in others):
        redundant.add("controller")
    if len(redundant) == 3 and len(rows) == 1:
        is_swept = any(rows[0][name] == rows[0]["controller"] for name in others)
        redundant = {"controller"} if is_swept else set()
    return [{name: value for name, value in row.items() if name not in redundant} for row in rows]
