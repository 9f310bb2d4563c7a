"""Stores of a folder: title, number of finished runs and time of the last run of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bentpipe.store.files import StoreError
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ListedStore", "is_store", "list_stores"]

_WRITTEN = ("journal.jsonl", "plan.json")
"""Files that an execution of runs writes."""

MAX_DEPTH = 2
"""Levels below the folder that are searched."""


@dataclass(frozen=True)
class ListedStore:
    """A store of a folder."""

    path: Path
    title: str
    finished: int
    planned: int
    changed: datetime
    """Local time of the last change."""


def is_store(folder: Path) -> bool:
    """Return whether a folder is a store."""
    return (folder / "plan.json").is_file()


def list_stores(folder: Path) -> list[ListedStore]:
    """Return the readable stores below a folder, the latest first."""
    found = []
    for path in _search(folder, MAX_DEPTH):
        try:
            store = Store(path)
        except StoreError:
            continue
        # A store without its journal is still readable.
        times = [file.stat().st_mtime for name in _WRITTEN if (file := path / name).exists()]
        changed = datetime.fromtimestamp(max(times)).astimezone()
        found.append(ListedStore(path, store.title, store.index.height, len(store.planned), changed))
    return sorted(found, key=lambda one: one.changed, reverse=True)


def _search(folder: Path, depth: int) -> list[Path]:
    """Return the directories of stores below ``folder``, sorted by name."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.is_symlink():
            continue
        if is_store(path):
            found.append(path)
        elif depth > 1:
            found += _search(path, depth - 1)
    return found
