"""Packs that are damaged: what is still as it was written becomes directories of its own again.

A file of a pack that is not as it was written says nothing of which of its runs are damaged. Each run has a checksum of
its own, of the files that it had: rows that give these files again are as they were written. What is not, or cannot be
told (another Polars may write other bytes), is made again by the command that made the store.
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
from bentpipe.store.pack import taken_out

__all__ = ["repair_packs"]


def repair_packs(store: Path, note: Callable[[Mapping[str, object]], None]) -> dict[str, str]:
    """Takes damaged packs apart; only whoever holds the store may do so.

    A kill in the middle of it loses nothing: a pack goes last.

    Returns:
        What was wrong with each run that is lost; of a pack whose runs nobody knows any more, by its name.

    Raises:
        OSError: the disk is full or refuses.
    """
    lost: dict[str, str] = {}
    for name, pack in packs(store).items():
        folder = f"packs/{name}"
        loose = set(os.listdir(store / "runs"))  # noqa: PTH208 - names alone
        said = pack.said if isinstance(pack, DamagedPack) else _wrong(store, pack)
        if not said:
            continue
        saved = 0
        known = set(pack.runs if isinstance(pack, DamagedPack) else pack.packed or ())
        for run, files in _as_written(store, folder):
            known.discard(run)
            if run not in loose:
                sums = {file: checksum(content) for file, content in files.items()}
                write_directory_atomic(store, f"runs/{run}", {**files, SUMS: listing(sums)})
            saved += 1
        remove_folders(store, [folder])
        note({"event": "pack taken apart", "pack": name, "error": said, "saved": saved, "lost": len(known)})
        lost |= dict.fromkeys(sorted(known - loose), said)
        if not known and not saved:
            lost[folder] = said
    return lost


def _wrong(store: Path, pack: RunDirectory) -> str:
    """What is wrong with the first file of a pack that is not as it was written."""
    place = store / pack.name
    return next(
        iter(changed([(place / name, checksum) for name, checksum in pack.files.items()]).values()), ""
    )


def _as_written(store: Path, folder: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The runs of a damaged pack that are as they were written, with their files."""
    place = store / folder
    files = [file.name for file in place.glob("*.parquet")]
    if place.is_symlink() or changed([(place / name, None) for name in files]):
        return  # a link or a pipe among them: nothing that was written
    try:
        listed = read_listing(read_input(place / SUMS, links=False).decode()) or {}
    except (OSError, UnicodeDecodeError):
        listed = {}
    sums = {name: checksum for name, checksum in listed.items() if name != LIST}
    whole = sums.keys() == set(files) and not changed([(place / name, sums[name]) for name in files])
    runs = None if whole or not (place / LIST).is_file() else listed_runs(place)
    if not whole and not runs:
        return
    try:
        for run, found in taken_out(place, files, runs):
            made = {name: checksum(content) for name, content in found.items()}
            if runs is None or checksum(listing(made)) == runs[run]:
                yield run, found
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 - whatever a reader makes of damage
        return
