"""Convert bytes of the engine to frames, and frames to files of a run (docs/reference/engine.md and results.md).

Equal bytes from the engine give equal files: rows are sorted, text is plain, and the settings of the writer are fixed.
"""

from __future__ import annotations

import functools
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.store.files import checksum

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from numpy.typing import NDArray

__all__ = ["TABLES", "DecodeError", "Measurements", "RunFiles", "decode", "encode", "encoder", "parquet"]

TABLES = (
    "flow_summary", "link_summary", "pages", "requests", "calls", "call_delays", "bundles", "bundle_routes",
    "bundle_status_reports", "bundle_store", "flows", "controller_state", "links",
    "proxies", "node_buffers", "radio_users", "user_queues", "tcp_counters", "streams", "events", "packets",
    "packet_steps", "radio_attempts",
)  # fmt: skip
"""Tables of a run, small ones first."""

_ORDER = (
    "step", "packet", "time_s", "flow", "load", "queued_s", "proxy", "socket", "link", "user", "connection",
    "stream_id", "side", "name", "kind",
)  # fmt: skip
"""Sort keys, where a table has them; rows with equal keys keep the order of the engine."""

_WIDTH = {"f64": 8, "i64": 8, "cat": 4}
_NUMPY = {"f64": "<f8", "i64": "<i8", "cat": "<u4"}


class DecodeError(ValueError):
    """Invalid bytes in place of an engine's result."""


@dataclass(frozen=True)
class Measurements:
    """Measurements of one run."""

    engine: str
    """Version of the engine."""
    tables: Mapping[str, pl.DataFrame]
    files: Mapping[str, bytes]
    """Traces by file name."""
    packets: int
    """Packets of both directions."""
    events: int
    """Events of the simulation."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Measurements of one run as the files of a store."""

    files: Mapping[str, bytes]
    sums: Mapping[str, str]
    """Checksum of each file, computed where the file was encoded."""
    packets: int
    events: int

    def to_bytes(self) -> bytes:
        """Serialise the files, to send them from the worker to the writer of the store."""
        entries = [[name, len(content), self.sums[name]] for name, content in self.files.items()]
        header = json.dumps({"files": entries, "packets": self.packets, "events": self.events}).encode()
        return b"".join([len(header).to_bytes(8, "little"), header, *self.files.values()])

    @classmethod
    def from_bytes(cls, data: bytes) -> RunFiles:
        """Deserialise the result of :meth:`to_bytes`.

        Raises:
            DecodeError: the data is truncated.
        """
        header, offset = _header(data)
        files, sums = {}, {}
        for name, length, expected in header["files"]:
            files[name] = bytes(_part(data, offset, {"offset": 0, "bytes": length}))
            sums[name] = expected
            offset += length
        return cls(files, sums, header["packets"], header["events"])


def encode(measurements: Measurements) -> RunFiles:
    """Encode measurements as the files of a run."""
    files = {f"{name}.parquet": parquet(frame) for name, frame in measurements.tables.items()}
    files |= measurements.files
    sums = {name: checksum(content) for name, content in files.items()}
    return RunFiles(files, sums, measurements.packets, measurements.events)


@functools.cache
def encoder() -> str:
    """Return the versions, beside the engine's, that determine the bytes of a run's files."""
    import polars as pl

    return f"{checksum(Path(__file__).read_bytes())} polars {pl.__version__}"


def decode(data: bytes) -> Measurements:
    """Decode the measurements in ``data``.

    Raises:
        DecodeError: the data is truncated, or a column has an unknown type.
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
        raise DecodeError(f"measurements are truncated: {len(data)} bytes")
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
        raise DecodeError(f"measurements are truncated: {len(data)} bytes, {end} expected")
    return memoryview(data)[begin:end]


def _frame(data: bytes, start: int, table: Mapping[str, Any]) -> pl.DataFrame:
    """Return a table, sorted with NumPy: on small tables a Polars expression costs more than all other work."""
    import numpy as np
    import polars as pl

    rows = int(table["rows"])
    arrays: dict[str, NDArray[Any]] = {}
    keys: dict[str, NDArray[Any]] = {}
    categories: dict[str, list[str]] = {}
    for column in table["columns"]:
        name, kind = column["name"], column["type"]
        raw = _part(data, start, column)
        if kind not in _WIDTH or len(raw) != rows * _WIDTH[kind]:
            raise DecodeError(
                f"column {table['name']}.{name} of type {kind!r} has {len(raw)} bytes for {rows} rows"
            )
        arrays[name] = np.frombuffer(raw, _NUMPY[kind])
        if kind == "cat":
            categories[name] = column["categories"]
        if name in _ORDER:
            keys[name] = _ranks(categories[name])[arrays[name]] if kind == "cat" else arrays[name]
    if not rows:
        return _empty_frame(tuple((column["name"], column["type"]) for column in table["columns"]))
    order = _order([keys[key] for key in _ORDER if key in keys]) if rows > 1 else None
    columns: list[pl.Series] = []
    for name, values in arrays.items():
        array = values if order is None else values[order]
        if name in categories:
            columns.append(pl.Series(name, categories[name], dtype=pl.String)[pl.Series(array)])
        else:
            columns.append(pl.Series(name, array, nan_to_null=True))
    return pl.DataFrame(columns)


@functools.cache
def _empty_frame(columns: tuple[tuple[str, str], ...]) -> pl.DataFrame:
    import polars as pl

    types = {"f64": pl.Float64, "i64": pl.Int64, "cat": pl.String}
    return pl.DataFrame(schema={name: types[kind] for name, kind in columns})


def _ranks(texts: list[str]) -> NDArray[Any]:
    """Return the rank of each text in sorted order."""
    import numpy as np

    ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([ranks[text] for text in texts], dtype=np.uint32)


def _order(keys: list[NDArray[Any]]) -> NDArray[Any] | None:
    """Return the permutation that sorts rows by ``keys``, NaN last and stable; None: rows are sorted already."""
    import numpy as np

    is_tied: Any = True
    for key in keys:
        previous, following = key[:-1], key[1:]
        is_equal = previous == following
        is_ascending = previous < following
        if key.dtype.kind == "f":
            is_ascending |= np.isnan(following)
            is_equal |= np.isnan(previous) & np.isnan(following)
        if not np.all(is_ascending | is_equal | ~np.asarray(is_tied)):
            return np.lexsort(keys[::-1])
        is_tied = is_tied & is_equal
        if not np.any(is_tied):
            break
    return None


def parquet(frame: pl.DataFrame) -> bytes:
    """Return the frame as the bytes of a Parquet file; equal frames give equal bytes, whatever the threads."""
    if frame.height:
        return _parquet(frame)
    columns = tuple(frame.schema.items())  # half of the tables of a run are empty, with equal bytes each time
    if columns not in _empty:
        _empty[columns] = _parquet(frame)
    return _empty[columns]


_empty: dict[tuple[tuple[str, pl.DataType], ...], bytes] = {}


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, compression="zstd", compression_level=3, statistics=True, row_group_size=1 << 20
    )
    return buffer.getvalue()
