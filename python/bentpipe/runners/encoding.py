"""Measurements in the engine's bytes (docs/manual/engine.md), for runners that do not call the engine."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Columns", "encode"]

Columns = dict[str, list[Any]]
"""A table: a list a column. None is null."""

KINDS = {"i64": "q", "f64": "d", "cat": "I"}


def encode(engine: str, tables: Mapping[str, tuple[Mapping[str, str], Columns]], packets: int) -> bytes:
    """Tables as :func:`bentpipe.results.decode` reads them.

    Args:
        engine: its version.
        tables: by name, the kinds of the columns (``i64``, ``f64`` or ``cat``) and their values. A whole number that is
            not known makes its column ``f64``, in which null is a NaN.
        packets: that the run moved.
    """
    data = bytearray()
    described = []
    for name, (kinds, columns) in tables.items():
        parts = [_column(column, kind, columns[column], data) for column, kind in kinds.items()]
        rows = len(next(iter(columns.values()))) if columns else 0
        described.append({"name": name, "rows": rows, "columns": parts})
    head = {"engine": engine, "tables": described, "files": [], "packets": packets, "events": 0}
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def _column(name: str, kind: str, values: Sequence[Any], data: bytearray) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "offset": len(data)}
    if kind == "cat":
        words = list(dict.fromkeys(values))
        index = {word: number for number, word in enumerate(words)}
        values = [index[value] for value in values]
        described["categories"] = words
    elif kind == "i64" and any(value is None for value in values):
        kind = "f64"
    if kind == "f64":
        values = [math.nan if value is None else float(value) for value in values]
    packed = struct.pack(f"<{len(values)}{KINDS[kind]}", *values)
    data += packed
    return described | {"type": kind, "bytes": len(packed)}
