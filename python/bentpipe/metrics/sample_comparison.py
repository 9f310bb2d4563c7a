"""Metrics of calls, users of a shared link and clients of bundle nodes, for the comparison of stores.

A kind has one row a run, flow and direction. Flows of a group are one, by their mean: they share a path and are no
independent samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.bundles import bundle_metrics
from bentpipe.metrics.call_quality import rate_calls
from bentpipe.metrics.compare import OF_BUNDLES, OF_CALLS, OF_USERS
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.users import has_shared_link, over_users, user_metrics

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True)
class Kind:
    """Something that two stores may both have."""

    metrics: Mapping[str, int]
    frame: Callable[[Store], pl.DataFrame]
    """``run, flow, direction`` and the metrics; without rows where a store has none."""


def _calls(store: Store) -> pl.DataFrame:
    return _together(store, rate_calls(store), OF_CALLS)


def _users(store: Store) -> pl.DataFrame:
    return over_users(user_metrics(store), list(store.columns)) if has_shared_link(store) else pl.DataFrame()


def _bundles(store: Store) -> pl.DataFrame:
    found = bundle_metrics(store)
    return found.with_columns(direction=pl.lit("")) if found.height else found


def _together(store: Store, frame: pl.DataFrame, metrics: Mapping[str, int]) -> pl.DataFrame:
    """Flows of a group as one."""
    grouped = as_groups(frame, store.rows("summary")) if frame.height else frame
    return grouped.group_by("run", "flow", "direction", maintain_order=True).agg(pl.col(*metrics).mean())


KINDS = (
    Kind(OF_CALLS, _calls),
    Kind(OF_USERS, _users),
    Kind(OF_BUNDLES, _bundles),
)
