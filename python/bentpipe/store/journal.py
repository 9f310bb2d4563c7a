"""A store's journal: what the machine did, for people; whoever has it open is the only one that writes to the store."""

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
    """The journal of a store, open for writing, and the hold on the store that goes with it."""

    def __init__(self, store: Path) -> None:
        """Takes hold of the store.

        Raises:
            OSError: the journal cannot be written.
            StoreError: another process has it.
        """
        path = store / "journal.jsonl"
        try:
            check_kind(path, path.lstat())
        except FileNotFoundError:
            pass
        except InputFileError as error:
            raise StoreError(
                f"{path}: {error.strerror}; remove it, and the same command makes a new one"
            ) from None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        self._file = os.fdopen(os.open(path, flags, 0o666), "a", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise StoreError(f"{store}: another bentpipe is writing to this store") from None

    def note(self, entry: Mapping[str, object]) -> None:
        """Appends a line; a full disk loses the line, not the runs."""
        with suppress(OSError):
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Lets go of the store."""
        with suppress(OSError):  # a line that a full disk did not take is tried again here
            self._file.close()


def real_time(store: Path) -> list[dict[str, Any]]:
    """Entries of the journal of runs in real time, with ``run`` and, where it failed, ``error``.

    Nothing promises what is in a journal: each entry has the texts ``run`` and ``event`` and the table ``real_time``.

    Raises:
        StoreError: the journal is no regular file.
    """
    try:
        text = read_input_text(store / "journal.jsonl", links=False, encoding="utf-8", errors="replace")
    except InputFileError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from None
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            entry = parse_json(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in _ENTRY.items()):
            found.append(entry)
    return found


_ENTRY = {"run": str, "event": str, "real_time": dict}


def host_summary(store: Path) -> str:
    """One sentence on the runs of a store that were made in real time; empty without one."""
    entries = real_time(store)
    if not entries:
        return ""
    latest = {entry["run"]: entry for entry in entries}
    good = [entry for entry in latest.values() if entry["event"] == "run"]
    again = sum(_number(entry["real_time"].get("attempts")) > 1 for entry in good)
    late = [value for entry in good for value in _lateness(entry["real_time"])]
    kept = sum(not entry["real_time"].get("valid", True) for entry in good)
    said = f"In real time: {len(good) - kept} valid runs"
    said += f", {kept} kept although the emulator was too late for them" if kept else ""
    said += f", {again} of them tried again" if again else ""
    for word, words in (("failed", "failed"), ("late", "for which the machine was too late")):
        count = sum(entry["event"] == word for entry in latest.values())
        said += f", {count} {words}" if count else ""
    slow = [_number(entry["real_time"].get("processes_late_p95_ms")) for entry in good]
    if late and not any(slow):
        said += f"; the emulator's lateness (99th percentile of packets) was at worst {max(late):.2f} ms"
    elif late:
        said += f"; the emulator's lateness (99th percentile of packets) was at worst {max(late):.2f} ms"
        said += f", that of the processes of a flow (95th) {max(slow):.2f} ms"
    return said + "."


def _lateness(facts: dict[str, Any]) -> list[float]:
    segments = facts.get("segments")
    ways = [
        segment.get(direction)
        for segment in (segments if isinstance(segments, list) else ())
        if isinstance(segment, dict)
        for direction in ("up", "down")
    ]
    told = [way.get("late_p99_ms") for way in ways if isinstance(way, dict)]
    return [_number(one) for one in told if one is not None]


def _number(value: object) -> float:
    """Return a finite number as it is; 0 for anything else."""
    return float(value) if isinstance(value, (int, float)) and abs(value) <= sys.float_info.max else 0.0
