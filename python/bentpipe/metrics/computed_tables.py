"""Tables of metrics for SQL and exports, computed from the tables of a store when they are read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bentpipe.metrics.groups import group_metrics
from bentpipe.metrics.users import user_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from bentpipe.store.reader import Store

__all__ = ["computed_tables"]


def computed_tables(store: Store) -> Mapping[str, Callable[[], pl.DataFrame]]:
    """Return the functions that compute ``metrics`` and ``user_metrics``, by name.

    ``metrics`` has one row per run, flow (or group of flows) and direction, ``user_metrics`` one row per run, user and
    direction; the latter has no columns without per-user data.
    """
    return {
        "metrics": partial(_shown, store, group_metrics),
        "user_metrics": partial(_shown, store, user_metrics),
    }


def _shown(store: Store, compute: Callable[[Store], pl.DataFrame]) -> pl.DataFrame:
    frame = compute(store)
    return store.shown(frame) if frame.width else frame
