"""Journal of a store: a log of its runs for people, and the lock of the only process that may write."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.input_file import InputFileError, check_kind, parse_json, read_input_text
from bentpipe.store.files import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Journal", "host_summary", "real_time"]


class Journal:
    """Journal of a store, open for writing, and the lock of the store."""

    def __init__(self, store: Path) -> None:
        """Open the journal and lock the store.

        Raises:
            OSError: the journal is not writable.
            StoreError: another process has the lock.
        """
        path = store / "journal.jsonl"
        try:
            check_kind(path, path.lstat())
        except FileNotFoundError:
            pass
        except InputFileError as error:
            raise StoreError(f"{path}: {error.strerror}; remove it and rerun the command") from None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        self._file = os.fdopen(os.open(path, flags, 0o666), "a", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise StoreError(f"{store}: another bentpipe is writing to this store") from None

    def note(self, entry: Mapping[str, object]) -> None:
        """Append a line; a full disk loses the line, not the runs."""
        with suppress(OSError):
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Release the lock of the store."""
        with suppress(OSError):  # closing retries a line that a full disk refused
            self._file.close()


def real_time(store: Path) -> list[dict[str, Any]]:
    """Return the journal entries of emulated runs, with ``run`` and, after a failure, ``error``.

    The content of a journal is not guaranteed: each returned entry has the texts ``run`` and ``event`` and the table
    ``real_time``.

    Raises:
        StoreError: the journal is not a regular file.
    """
    try:
        text = read_input_text(store / "journal.jsonl", links=False, encoding="utf-8", errors="replace")
    except InputFileError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from None
    except OSError:
        return []
    entries = []
    for line in text.splitlines():
        try:
            entry = parse_json(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in _ENTRY.items()):
            entries.append(entry)
    return entries


_ENTRY = {"run": str, "event": str, "real_time": dict}


def host_summary(store: Path) -> str:
    """Return one sentence on the emulated runs of a store; empty without such runs."""
    entries = real_time(store)
    if not entries:
        return ""
    latest = {entry["run"]: entry for entry in entries}
    done = [entry for entry in latest.values() if entry["event"] == "run"]
    repeated = sum(_number(entry["real_time"].get("attempts")) > 1 for entry in done)
    packet_lateness = [value for entry in done for value in _lateness(entry["real_time"])]
    invalid = sum(not entry["real_time"].get("valid", True) for entry in done)
    text = f"In emulation: {len(done) - invalid} valid runs"
    text += f", {invalid} invalid runs kept" if invalid else ""
    text += f", {repeated} of them repeated" if repeated else ""
    for event, label in (("failed", "failed"), ("invalid", "invalid (missed deadlines)")):
        count = sum(entry["event"] == event for entry in latest.values())
        text += f", {count} {label}" if count else ""
    process_lateness = [_number(entry["real_time"].get("processes_lateness_p95_ms")) for entry in done]
    if packet_lateness:
        text += f"; the emulator's lateness (p99 of packets) was at most {max(packet_lateness):.2f} ms"
    if packet_lateness and any(process_lateness):
        text += f", that of flow processes (p95) {max(process_lateness):.2f} ms"
    return text + "."


def _lateness(entry: dict[str, Any]) -> list[float]:
    segments = entry.get("links")
    directions = [
        segment.get(side)
        for segment in (segments if isinstance(segments, list) else ())
        if isinstance(segment, dict)
        for side in ("up", "down")
    ]
    values = [direction.get("lateness_p99_ms") for direction in directions if isinstance(direction, dict)]
    return [_number(value) for value in values if value is not None]


def _number(value: object) -> float:
    """Return a finite number as it is; 0 for anything else."""
    return float(value) if isinstance(value, (int, float)) and abs(value) <= sys.float_info.max else 0.0
