"""Metrics of a comparison that only calls, users or bundle clients have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from bentpipe.metrics.bundles import bundle_metrics
from bentpipe.metrics.call_quality import rate_calls
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.registry import Scope, compared
from bentpipe.metrics.users import aggregate_users, has_shared_link, user_metrics
from bentpipe.store.reader import Store

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True)
class Kind:
    """Metrics of calls, users or bundle clients, with one row per run, flow and direction.

    A group counts as one flow by the mean over its flows: they share a path and are not independent samples.
    """

    scope: Scope
    frame: Callable[[Store], pl.DataFrame]
    """Function that returns ``run, flow, direction`` and the metrics of a store; no rows without any."""


def _call_metrics(store: Store) -> pl.DataFrame:
    return _average_groups(store, rate_calls(store), [metric.name for metric in compared(Scope.CALL)])


def _user_metrics(store: Store) -> pl.DataFrame:
    if not has_shared_link(store):
        return pl.DataFrame()
    return aggregate_users(user_metrics(store), list(store.columns))


def _bundle_metrics(store: Store) -> pl.DataFrame:
    metrics = bundle_metrics(store)
    return metrics.with_columns(direction=pl.lit("")) if metrics.height else metrics


def _average_groups(store: Store, frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Return the means over the flows of each group."""
    grouped = as_groups(frame, store.rows("flow_summary")) if frame.height else frame
    return grouped.group_by("run", "flow", "direction", maintain_order=True).agg(pl.col(*metrics).mean())


KINDS = (
    Kind(Scope.CALL, _call_metrics),
    Kind(Scope.USERS, _user_metrics),
    Kind(Scope.BUNDLE_CLIENT, _bundle_metrics),
)
"""All kinds of metrics besides those of flows, runs, streams and pages."""
