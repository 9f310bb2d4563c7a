"""Logs of a link, of whatever format (``formats``): a file becomes delays or rates over time."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING

from bentpipe.fit import iperf3, log_formats
from bentpipe.fit.log_formats import KINDS, Log, wrong
from bentpipe.scenario.input_file import MOST_DATA_BYTES, InputFileError, read_input

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.fit.log_formats import Kind, Lines

__all__ = ["KINDS", "Log", "read"]

MOST_LINES = 5_000_000
FALLING = 0.01
"""A column of numbers is a list of instants, one of which may be wrong, if fewer than this share of them fall."""


def _unpacked(raw: bytes, path: Path) -> bytes:
    """Return what gzip packed. Raise OSError, EOFError, zlib.error: it is cut off, damaged, or too large."""
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
        found = packed.read(MOST_DATA_BYTES + 1)
    if len(found) > MOST_DATA_BYTES:
        raise InputFileError(f"it is larger than {MOST_DATA_BYTES:,} bytes, unpacked", path)
    return found


def read(path: Path, kind: Kind | None = None) -> Log:
    """Reads a log, of ``kind`` or of the one that it looks like; gzip is unpacked.

    Raises:
        ScenarioError: no such file, no known format, or what is wrong with it, by its line.
    """
    raw = b""
    try:
        raw = read_input(path, pipes=True)
        if raw[:2] == b"\x1f\x8b":
            raw = _unpacked(raw, path)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise wrong(path, raw.count(b"\n", 0, error.start) + 1, "it is not text in UTF-8") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise wrong(path, None, getattr(error, "strerror", None) or str(error)) from None
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise wrong(path, None, "it is empty")
    if len(lines) > MOST_LINES:
        raise wrong(path, None, f"it has {len(lines)} lines, expected at most {MOST_LINES}")
    kind = kind or _looks_like(path, lines)
    log = Log(path, kind)
    if kind == "iperf3":
        iperf3.read(text, log)
    else:
        {
            "ping": log_formats.ping,
            "csv": log_formats.csv,
            "mahimahi": log_formats.mahimahi,
            "leoreplayer": log_formats.leoreplayer,
        }[kind](lines, log)
    return log


def _looks_like(path: Path, lines: Lines) -> Kind:
    first = lines[0][1]
    if first.startswith("{"):
        return "iperf3"
    if any(line.startswith("PING ") or "icmp_seq=" in line for _, line in lines[:20]):
        return "ping"
    if "," in first:
        return "csv"
    if log_formats.number(first) is None:
        known = ", ".join(KINDS)
        raise wrong(path, lines[0][0], f'found "{first[:60]}", expected a log of a known kind: {known}')
    before, falls = 0.0, 0
    for _, line in lines:
        value = log_formats.number(line)
        if value is None:
            continue  # whoever reads it says so
        falls += value < before
        before = value
    return "leoreplayer" if falls > FALLING * len(lines) else "mahimahi"
