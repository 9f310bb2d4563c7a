"""Repair of damaged packs: intact runs get directories of their own again.

A damaged file of a pack does not show which of its runs are damaged. Each run has a checksum of its own, over its
former files: rows that give these files again are intact. The command that created the store repeats all other runs,
also those that another version of Polars would encode differently.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import polars as pl

from bentpipe.scenario.input_file import read_input
from bentpipe.store.files import (
    SUMS,
    changed,
    checksum,
    listing,
    read_listing,
    remove_folders,
    write_directory_atomic,
)
from bentpipe.store.index import LIST, DamagedPack, RunDirectory, listed_runs, packs
from bentpipe.store.pack import extract_runs

__all__ = ["repair_packs"]


def repair_packs(store: Path, note: Callable[[Mapping[str, object]], None]) -> dict[str, str]:
    """Take damaged packs apart; only the process with the lock of the store may do so.

    An interruption loses nothing: the pack is removed last.

    Args:
        store: directory of the store.
        note: writes an entry to the journal.

    Returns:
        Damage of each lost run; for packs of unknown runs, by their name.

    Raises:
        OSError: the disk is full or refuses.
    """
    lost: dict[str, str] = {}
    for name, pack in packs(store).items():
        folder = f"packs/{name}"
        existing = set(os.listdir(store / "runs"))  # noqa: PTH208 - names alone
        reason = pack.reason if isinstance(pack, DamagedPack) else _first_damage(store, pack)
        if not reason:
            continue
        saved = 0
        lost_runs = set(pack.runs if isinstance(pack, DamagedPack) else pack.packed or ())
        for run, files in _intact_runs(store, folder):
            lost_runs.discard(run)
            if run not in existing:
                sums = {file: checksum(content) for file, content in files.items()}
                write_directory_atomic(store, f"runs/{run}", {**files, SUMS: listing(sums)})
            saved += 1
        remove_folders(store, [folder])
        note(
            {
                "event": "pack taken apart",
                "pack": name,
                "error": reason,
                "saved": saved,
                "lost": len(lost_runs),
            }
        )
        lost |= dict.fromkeys(sorted(lost_runs - existing), reason)
        if not lost_runs and not saved:
            lost[folder] = reason
    return lost


def _first_damage(store: Path, pack: RunDirectory) -> str:
    """Return the damage of the first damaged file of a pack; empty: intact."""
    place = store / pack.name
    return next(
        iter(changed([(place / name, checksum) for name, checksum in pack.files.items()]).values()), ""
    )


def _intact_runs(store: Path, folder: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the intact runs of a damaged pack, with their files."""
    directory = store / folder
    files = [file.name for file in directory.glob("*.parquet")]
    if directory.is_symlink() or changed([(directory / name, None) for name in files]):
        return  # no writer of a store creates links or pipes
    try:
        listed_sums = read_listing(read_input(directory / SUMS, links=False).decode()) or {}
    except (OSError, UnicodeDecodeError):
        listed_sums = {}
    sums = {name: checksum for name, checksum in listed_sums.items() if name != LIST}
    is_intact = sums.keys() == set(files) and not changed([(directory / name, sums[name]) for name in files])
    runs = None if is_intact or not (directory / LIST).is_file() else listed_runs(directory)
    if not is_intact and not runs:
        return
    try:
        for run, files_of_run in extract_runs(directory, files, runs):
            new_sums = {name: checksum(content) for name, content in files_of_run.items()}
            if runs is None or checksum(listing(new_sums)) == runs[run]:
                yield run, files_of_run
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 - whatever a reader makes of damage
        return
