"""The tables of a store as frames: what measures in real time fills these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.plan.spec.result_columns import COLUMNS, OPTIONAL_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Row", "table"]

Row = dict[str, Any]
"""Of a table, by column; columns that are not there are null."""

_TYPES = {"f64": pl.Float64, "i64": pl.Int64, "cat": pl.String}
_SORTED = {
    "flows": ["time_s", "flow", "side"], "links": ["time_s", "link"], "summary": ["flow", "side"],
    "link_summary": ["link"], "streams": ["flow", "connection", "stream_id"],
    "events": ["time_s", "flow", "connection", "side", "kind"], "proxies": ["time_s", "proxy", "socket"],
    "requests": ["load", "queued_s"], "users": ["time_s", "link", "user"],
}  # fmt: skip
"""Order of rows, as the engine's tables have it."""


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The table ``name`` of ``rows``, sorted."""
    kinds = COLUMNS.get(name) or OPTIONAL_COLUMNS[name]
    columns: dict[str, list[Any]] = {column: [] for column in kinds}
    for row in rows:
        for column, values in columns.items():
            values.append(row.get(column))
    frame = pl.DataFrame(columns, schema={column: _TYPES[kind] for column, kind in kinds.items()})
    keys = _SORTED.get(name)
    return frame.sort(keys, nulls_last=True, maintain_order=True) if keys else frame
