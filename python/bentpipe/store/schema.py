"""Tables of a store as frames, for programs that measure in emulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.plan.spec.result_columns import COLUMNS, OPTIONAL_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Row", "table"]

Row = dict[str, Any]
"""Row of a table by column; missing columns are null."""

_TYPES = {"f64": pl.Float64, "i64": pl.Int64, "cat": pl.String}
_SORTED = {
    "flows": ["time_s", "flow", "side"], "links": ["time_s", "link"], "flow_summary": ["flow", "side"],
    "link_summary": ["link"], "streams": ["flow", "connection", "stream_id"],
    "events": ["time_s", "flow", "connection", "side", "kind"], "proxies": ["time_s", "proxy", "socket"],
    "requests": ["load", "queued_s"], "radio_users": ["time_s", "link", "user"],
}  # fmt: skip
"""Sort keys of the rows, as in the tables of the engine."""


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return ``rows`` as the frame of table ``name``, sorted."""
    types = COLUMNS.get(name) or OPTIONAL_COLUMNS[name]
    columns: dict[str, list[Any]] = {column: [] for column in types}
    for row in rows:
        for column, values in columns.items():
            values.append(row.get(column))
    frame = pl.DataFrame(columns, schema={column: _TYPES[type_] for column, type_ in types.items()})
    sort_keys = _SORTED.get(name)
    return frame.sort(sort_keys, nulls_last=True, maintain_order=True) if sort_keys else frame
