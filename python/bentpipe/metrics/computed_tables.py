"""Tables of metrics for SQL and exports, computed from the tables of a store when they are read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bentpipe.metrics.compute import aggregate_seeds
from bentpipe.metrics.groups import group_metrics
from bentpipe.metrics.registry import OVER_SEEDS, Scope, select
from bentpipe.metrics.users import user_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from bentpipe.store.reader import Store

__all__ = ["computed_tables"]


def computed_tables(store: Store) -> Mapping[str, Callable[[], pl.DataFrame]]:
    """Return the functions that compute ``metrics``, ``cells`` and ``user_metrics``, by name.

    ``metrics`` has one row per run, flow (or group of flows) and direction (wide form). ``cells`` has one row per cell,
    flow, direction and metric, over seeds (long form). ``user_metrics`` has one row per run, user and direction, and no
    columns without per-user data.
    """
    return {
        "metrics": partial(_shown, store, group_metrics),
        "cells": partial(_shown, store, _cells),
        "user_metrics": partial(_shown, store, user_metrics),
    }


def _cells(store: Store) -> pl.DataFrame:
    metrics = group_metrics(store)
    of_groups = [metric.name for metric in select(Scope.GROUP) if metric.name in metrics.columns]
    return aggregate_seeds(metrics, store.columns, [*OVER_SEEDS, *of_groups])


def _shown(store: Store, compute: Callable[[Store], pl.DataFrame]) -> pl.DataFrame:
    frame = compute(store)
    return store.shown(frame) if frame.width else frame
