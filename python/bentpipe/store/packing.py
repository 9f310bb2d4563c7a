"""Packing a store: finished runs that have directories of their own are put together (:mod:`bentpipe.store.pack`)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.store.files import FULL, DiskError, remove_folders, remove_leftover
from bentpipe.store.index import StoreIndex, in_packs
from bentpipe.store.journal import Journal
from bentpipe.store.pack import Chosen, chosen, write
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Packed", "pack"]


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing a store did."""

    runs: int
    packs: int
    left: Chosen
    """What there is to say of runs that stay as they are."""


def pack(path: Path, each: Callable[[int, int], None] | None = None) -> Packed:
    """Packs the finished runs of a store; what has traces, or is large by itself, stays as it is.

    Ended at any moment, it leaves a store that has every run, and the same call goes on.

    Args:
        path: a store that nobody writes to.
        each: told after each pack how many runs are done, of how many.

    Raises:
        StoreError: no store, one that somebody writes to, or a run is damaged.
        DiskError: the disk is full or refuses; nothing is lost.
    """
    Store(path)
    try:
        journal = Journal(path)
        with contextlib.closing(journal):
            store = Store(path)
            for left in path.glob(".part-*"):
                remove_leftover(left)
            _finish(path, store.kept())
            kept = store.kept()
            found = chosen(kept, [run["id"] for run in store.planned])
            total, done = sum(map(len, found.packs)), 0
            for runs in found.packs:
                write(kept, runs)
                remove_folders(path, [f"runs/{run}" for run in runs])
                done += len(runs)
                journal.note({"event": "packed", "runs": len(runs)})
                if each is not None:
                    each(done, total)
    except OSError as error:
        what = "the disk is full" if error.errno in FULL else str(error.strerror or error)
        raise DiskError(f"{path}: {what}; no run is lost, and the same command goes on from there") from error
    return Packed(total, len(found.packs), found)


def _finish(path: Path, kept: StoreIndex) -> None:
    """Removes directories of runs that are in packs too: an earlier packing was cut short. Raises StoreError."""
    runs = in_packs(path)
    there = {pack.name: pack for pack in runs.values()}
    kept.check((pack, file) for pack in there.values() for file in pack.files)
    both = runs.keys() & set(os.listdir(path / "runs"))  # noqa: PTH208 - names alone
    remove_folders(path, [f"runs/{run}" for run in sorted(both)])
