"""Conversion of a store: finished runs with their own directories go into packs (:mod:`bentpipe.store.pack`)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.store.files import FULL, DiskError, remove_folders, remove_leftover
from bentpipe.store.index import StoreIndex, packed_runs
from bentpipe.store.journal import Journal
from bentpipe.store.pack import PackAssignment, assign_packs, write
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["MAX_UNPACKED", "Packed", "pack", "pack_large"]

MAX_UNPACKED = 5_000
"""Number of run directories above which a store takes seconds to open (docs/decisions/0087)."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Result of packing a store."""

    runs: int
    packs: int
    left: PackAssignment
    """Counts of runs that stay as they are."""


def pack(path: Path, each: Callable[[int, int], None] | None = None) -> Packed:
    """Pack the finished runs of a store; runs with traces and large runs stay as they are.

    After an interruption the store has every run, and the same call resumes.

    Args:
        path: store without a writer.
        each: callback after each pack: runs done, runs in total.

    Raises:
        StoreError: no store, a store with a writer, or a damaged run.
        DiskError: the disk is full or refuses; nothing is lost.
    """
    Store(path)
    try:
        journal = Journal(path)
        with contextlib.closing(journal):
            store = Store(path)
            for leftover in path.glob(".part-*"):
                remove_leftover(leftover)
            _remove_duplicates(path, store.load_index())
            index = store.load_index()
            choice = assign_packs(index, [run["id"] for run in store.planned])
            total, done = sum(map(len, choice.packs)), 0
            for runs in choice.packs:
                write(index, runs)
                remove_folders(path, [f"runs/{run}" for run in runs])
                done += len(runs)
                journal.note({"event": "packed", "runs": len(runs)})
                if each is not None:
                    each(done, total)
    except OSError as error:
        reason = "the disk is full" if error.errno in FULL else str(error.strerror or error)
        raise DiskError(f"{path}: {reason}; no run is lost; rerun the command to resume") from error
    return Packed(total, len(choice.packs), choice)


def pack_large(path: Path) -> Packed | None:
    """Pack the store if it has more than :data:`MAX_UNPACKED` run directories. Raises as :func:`pack`."""
    unpacked = sum(1 for _ in os.scandir(path / "runs"))
    return pack(path) if unpacked > MAX_UNPACKED else None


def _remove_duplicates(path: Path, index: StoreIndex) -> None:
    """Remove the directories of runs that are in packs too, after an interrupted packing; raise StoreError."""
    runs = packed_runs(path)
    packs_by_name = {pack.name: pack for pack in runs.values()}
    index.check((pack, file) for pack in packs_by_name.values() for file in pack.files)
    duplicates = runs.keys() & set(os.listdir(path / "runs"))  # noqa: PTH208 - names alone
    remove_folders(path, [f"runs/{run}" for run in sorted(duplicates)])
