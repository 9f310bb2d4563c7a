"""Tables of metrics for SQL and exports, computed from the tables of a store when they are read.

An import of this module loads no library.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from bentpipe.store.reader import Store

__all__ = ["computed_tables"]


def computed_tables(store: Store) -> Mapping[str, Callable[[], pl.DataFrame]]:
    """Return the functions that compute ``metrics``, ``cells`` and ``user_metrics``, by name.

    ``metrics`` has one row per run, flow (or group of flows) and direction, and one per page load and bundle client
    (wide form). ``cells`` has one row for each of its metrics, over seeds (long form). ``user_metrics`` has one row per
    run, user and direction, and no columns without per-user data.
    """
    return {name: partial(_shown, store, compute) for name, compute in _COMPUTE.items()}


def _metrics(store: Store) -> pl.DataFrame:
    from bentpipe.metrics.store_metrics import store_metrics

    return store_metrics(store)


def _cells(store: Store) -> pl.DataFrame:
    from bentpipe.metrics.store_metrics import cell_metrics

    return cell_metrics(_metrics(store), store.columns)


def _user_metrics(store: Store) -> pl.DataFrame:
    from bentpipe.metrics.users import user_metrics

    return user_metrics(store)


_COMPUTE = {"metrics": _metrics, "cells": _cells, "user_metrics": _user_metrics}


def _shown(store: Store, compute: Callable[[Store], pl.DataFrame]) -> pl.DataFrame:
    frame = compute(store)
    return store.shown(frame) if frame.width else frame
