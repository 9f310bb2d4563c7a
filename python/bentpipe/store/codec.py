"""The engine's bytes as frames, and frames as the files of a run (docs/manual/engine.md, docs/manual/results.md).

Equal bytes from the engine give equal files: rows are sorted, text is plain text, the writer's settings are fixed.
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
    "summary", "link_summary", "pages", "requests", "calls", "call_delays", "bundles", "routes",
    "reports", "stored", "flows", "internals", "links",
    "proxies", "holds", "users", "user_queues", "tcp", "streams", "events", "packets", "stages",
    "attempts",
)  # fmt: skip
"""Tables of a run, the small ones first."""

_ORDER = (
    "step", "packet", "time_s", "flow", "load", "queued_s", "proxy", "socket", "link", "user", "connection",
    "stream_id", "side", "name", "kind",
)  # fmt: skip
"""Sorting keys, as far as a table has them; rows that agree in all of them stay in the engine's order."""

_WIDTH = {"f64": 8, "i64": 8, "cat": 4}
_NUMPY = {"f64": "<f8", "i64": "<i8", "cat": "<u4"}


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


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What one run measured, as the files that a store keeps of it."""

    files: Mapping[str, bytes]
    sums: Mapping[str, str]
    """The checksum of each file, taken where it was made."""
    packets: int
    events: int

    def to_bytes(self) -> bytes:
        """All of it in one piece, to be sent from where the run was made to where it is kept."""
        entries = [[name, len(content), self.sums[name]] for name, content in self.files.items()]
        header = json.dumps({"files": entries, "packets": self.packets, "events": self.events}).encode()
        return b"".join([len(header).to_bytes(8, "little"), header, *self.files.values()])

    @classmethod
    def from_bytes(cls, data: bytes) -> RunFiles:
        """What :meth:`to_bytes` gave. Raises DecodeError when it is cut short."""
        header, at = _header(data)
        files, sums = {}, {}
        for name, length, expected in header["files"]:
            files[name] = bytes(_part(data, at, {"offset": 0, "bytes": length}))
            sums[name] = expected
            at += length
        return cls(files, sums, header["packets"], header["events"])


def encode(found: Measurements) -> RunFiles:
    """The files of a run that measured ``found``."""
    files = {f"{name}.parquet": parquet(frame) for name, frame in found.tables.items()}
    files |= found.files
    sums = {name: checksum(content) for name, content in files.items()}
    return RunFiles(files, sums, found.packets, found.events)


@functools.cache
def encoder() -> str:
    """What the bytes of a run's files rest on beside the engine: equal here and there, they are equal."""
    import polars as pl

    return f"{checksum(Path(__file__).read_bytes())} polars {pl.__version__}"


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
    """A table, sorted by NumPy: an expression of Polars costs more than all else that is done with a small table."""
    import numpy as np
    import polars as pl

    rows = int(table["rows"])
    arrays: dict[str, NDArray[Any]] = {}
    keys: dict[str, NDArray[Any]] = {}
    words: dict[str, list[str]] = {}
    for column in table["columns"]:
        name, kind = column["name"], column["type"]
        raw = _part(data, start, column)
        if kind not in _WIDTH or len(raw) != rows * _WIDTH[kind]:
            raise DecodeError(
                f"column {table['name']}.{name} of type {kind!r} has {len(raw)} bytes for {rows} rows"
            )
        arrays[name] = np.frombuffer(raw, _NUMPY[kind])
        if kind == "cat":
            words[name] = column["categories"]
        if name in _ORDER:
            keys[name] = _ranks(words[name])[arrays[name]] if kind == "cat" else arrays[name]
    if not rows:
        return _empty_frame(tuple((column["name"], column["type"]) for column in table["columns"]))
    order = _order([keys[key] for key in _ORDER if key in keys]) if rows > 1 else None
    columns: list[pl.Series] = []
    for name, unsorted in arrays.items():
        array = unsorted if order is None else unsorted[order]
        if name in words:
            columns.append(pl.Series(name, words[name], dtype=pl.String)[pl.Series(array)])
        else:
            columns.append(pl.Series(name, array, nan_to_null=True))
    return pl.DataFrame(columns)


@functools.cache
def _empty_frame(columns: tuple[tuple[str, str], ...]) -> pl.DataFrame:
    import polars as pl

    types = {"f64": pl.Float64, "i64": pl.Int64, "cat": pl.String}
    return pl.DataFrame(schema={name: types[kind] for name, kind in columns})


def _ranks(words: list[str]) -> NDArray[Any]:
    """The place of each word in their order."""
    import numpy as np

    places = {word: place for place, word in enumerate(sorted(set(words)))}
    return np.array([places[word] for word in words], dtype=np.uint32)


def _order(keys: list[NDArray[Any]]) -> NDArray[Any] | None:
    """What sorts rows by ``keys``, NaN last and equal rows as they were; None where they are sorted."""
    import numpy as np

    equal: Any = True
    for key in keys:
        before, after = key[:-1], key[1:]
        same = before == after
        rises = before < after
        if key.dtype.kind == "f":
            rises |= np.isnan(after)
            same |= np.isnan(before) & np.isnan(after)
        if not np.all(rises | same | ~np.asarray(equal)):
            return np.lexsort(keys[::-1])
        equal = equal & same
        if not np.any(equal):
            break
    return None


def parquet(frame: pl.DataFrame) -> bytes:
    """The frame as the bytes of a Parquet file; the same for the same frame, threads and repeats."""
    if frame.height:
        return _parquet(frame)
    columns = tuple(frame.schema.items())  # half of a run's tables have no rows, each time the same bytes
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
