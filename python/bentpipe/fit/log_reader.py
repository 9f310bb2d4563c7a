"""Log files: delays or rates over time, from any known format (``log_formats``)."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING

from bentpipe.fit import iperf3, log_formats
from bentpipe.fit.log_formats import KINDS, Log, log_error
from bentpipe.scenario.input_file import MOST_DATA_BYTES, InputFileError, read_input

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.fit.log_formats import Kind, Lines

__all__ = ["KINDS", "Log", "read"]

MAX_LINES = 5_000_000
FALLING = 0.01
"""Maximum ratio of falling numbers in a list of instants, some of which may be wrong."""


def _unpack(raw: bytes, path: Path) -> bytes:
    """Return the content of a gzip file.

    Raises:
        OSError: the file is damaged or too large.
        EOFError: the file is truncated.
        zlib.error: the file is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        found = file.read(MOST_DATA_BYTES + 1)
    if len(found) > MOST_DATA_BYTES:
        raise InputFileError(f"it is larger than {MOST_DATA_BYTES:,} bytes, unpacked", path)
    return found


def read(path: Path, kind: Kind | None = None) -> Log:
    """Read a log of ``kind``, or of the detected kind; unpack gzip.

    Raises:
        ScenarioError: no such file, unknown format, or invalid content (with its line).
    """
    raw = b""
    try:
        raw = read_input(path, pipes=True)
        if raw[:2] == b"\x1f\x8b":
            raw = _unpack(raw, path)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise log_error(path, raw.count(b"\n", 0, error.start) + 1, "it is not text in UTF-8") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise log_error(path, None, getattr(error, "strerror", None) or str(error)) from None
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise log_error(path, None, "it is empty")
    if len(lines) > MAX_LINES:
        raise log_error(path, None, f"it has {len(lines)} lines, expected at most {MAX_LINES}")
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
        raise log_error(path, lines[0][0], f'found "{first[:60]}", expected a log of a known kind: {known}')
    before, falls = 0.0, 0
    for _, line in lines:
        value = log_formats.number(line)
        if value is None:
            continue  # the reader of the format reports it
        falls += value < before
        before = value
    return "leoreplayer" if falls > FALLING * len(lines) else "mahimahi"
