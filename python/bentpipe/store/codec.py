"""The engine's bytes as frames, and frames as the files of a run (docs/manual/engine.md, docs/manual/results.md).

Equal bytes from the engine give equal files: rows are sorted, text is plain text, the writer's settings are fixed.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

__all__ = ["TABLES", "DecodeError", "Measurements", "decode", "parquet"]

TABLES = (
    "summary", "link_summary", "pages", "requests", "flows", "internals", "links", "proxies", "holds", "streams",
    "events", "packets", "stages",
)  # fmt: skip
"""Tables of a run, the small ones first."""

_ORDER = (
    "step", "packet", "time_s", "flow", "load", "queued_s", "proxy", "socket", "link", "connection", "stream_id",
    "side", "name", "kind",
)  # fmt: skip
"""Sorting keys, as far as a table has them; rows that agree in all of them stay in the engine's order."""

_WIDTH = {"f64": 8, "i64": 8, "cat": 4}


class DecodeError(ValueError):
    """Bytes that are not what an engine returns."""


@dataclass(frozen=True)
class Measurements:
    """What one run measured."""

    engine: str
    """Version of the engine."""
    tables: Mapping[str, pl.DataFrame]
    files: Mapping[str, bytes]
    """Traces by file name."""
    packets: int
    """Packets of both directions that the run moved."""
    events: int
    """Events of the simulation."""


def decode(data: bytes) -> Measurements:
    """The measurements in ``data``.

    Raises:
        DecodeError: cut short, or a column of a type that is not known.
    """
    header, start = _header(data)
    tables = {table["name"]: _frame(data, start, table) for table in header["tables"]}
    files = {}
    for entry in header["files"]:
        if "/" in entry["name"] or entry["name"].startswith("."):
            raise DecodeError(f"the engine names a file {entry['name']!r}, which is not a plain name")
        files[entry["name"]] = bytes(_part(data, start, entry))
    return Measurements(header["engine"], tables, files, int(header["packets"]), int(header["events"]))


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or len(data) < 8 + length:
        raise DecodeError(f"measurements are cut short: {len(data)} bytes")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise DecodeError(f"measurements have no readable header: {error}") from None
    if not isinstance(header, dict):
        raise DecodeError("measurements have no readable header")
    return header, 8 + length


def _part(data: bytes, start: int, entry: Mapping[str, Any]) -> memoryview:
    begin = start + int(entry["offset"])
    end = begin + int(entry["bytes"])
    if end > len(data):
        raise DecodeError(f"measurements are cut short: {len(data)} bytes, {end} expected")
    return memoryview(data)[begin:end]


def _frame(data: bytes, start: int, table: Mapping[str, Any]) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    rows = int(table["rows"])
    columns: list[pl.Series] = []
    for column in table["columns"]:
        name, kind = column["name"], column["type"]
        raw = _part(data, start, column)
        if kind not in _WIDTH or len(raw) != rows * _WIDTH[kind]:
            raise DecodeError(
                f"column {table['name']}.{name} of type {kind!r} has {len(raw)} bytes for {rows} rows"
            )
        if kind == "f64":
            series = pl.Series(name, np.frombuffer(raw, "<f8").astype(np.float64)).fill_nan(None)
        elif kind == "i64":
            series = pl.Series(name, np.frombuffer(raw, "<i8").astype(np.int64))
        else:
            words = pl.Series(name, column["categories"], dtype=pl.String)
            series = words.gather(np.frombuffer(raw, "<u4").astype(np.uint32)).alias(name)
        columns.append(series)
    frame = pl.DataFrame(columns)
    keys = [key for key in _ORDER if key in frame.columns]
    return frame.sort(keys, nulls_last=True, maintain_order=True) if keys else frame


def parquet(frame: pl.DataFrame) -> bytes:
    """The frame as the bytes of a Parquet file; the same for the same frame, threads and repeats."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, compression="zstd", compression_level=3, statistics=True, row_group_size=1 << 20
    )
    return buffer.getvalue()
