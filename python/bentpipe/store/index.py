"""Index of the finished runs of a store: location, files and checksums.

A finished run is a directory ``runs/ID``, or a part of a pack ``packs/NAME``. Either has ``SHA256SUMS``
(``sha256sum -c SHA256SUMS`` checks it by hand): its files, each with a checksum.

A run in both places is read from its own directory, so no run is read twice when packing is interrupted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bentpipe.scenario.input_file import InputFileError, read_input
from bentpipe.store.files import SUMS, StoreError, changed, checksum, read_listing

__all__ = [
    "LIST",
    "DamagedPack",
    "RunDirectory",
    "StoreIndex",
    "StoredFile",
    "build_index",
    "listed_runs",
    "pack_name",
    "packed_runs",
    "packs",
]

LIST = "RUNS"
"""File of a pack with its runs in the order of rows, each with the checksum of its former ``SHA256SUMS``."""


@dataclass(frozen=True)
class RunDirectory:
    """Directory of a store with one finished run, or a pack of several."""

    name: str
    """Path in the store: ``runs/ID`` or ``packs/NAME``."""
    files: Mapping[str, str]
    """Checksums by file name."""
    packed: Mapping[str, str] | None = None
    """Checksums by run of a pack; None: not a pack."""


@dataclass(frozen=True)
class StoredFile:
    """File with rows of some runs."""

    path: Path
    folder: RunDirectory
    runs: Sequence[str]
    """Requested runs; a pack may have others."""

    @property
    def packed(self) -> bool:
        """Whether the column ``run`` assigns the rows to runs."""
        return self.folder.packed is not None

    @property
    def is_empty(self) -> bool:
        """Whether the file is a table without rows and columns: one column alone takes 300 bytes."""
        return not self.packed and self.path.stat().st_size < 256

    @property
    def is_complete(self) -> bool:
        """Whether the file has the requested runs only."""
        return self.folder.packed is None or len(self.folder.packed) == len(self.runs)


@dataclass(frozen=True)
class StoreIndex:
    """Finished runs of a store at one moment."""

    store: Path
    folders: Mapping[str, RunDirectory]
    """Directory of each run, in the order of the plan."""
    faults: Mapping[str, str]
    """Damage by run, or by name for a pack of unknown runs: not a directory, or incomplete."""

    def raise_if_damaged(self) -> None:
        """Raise StoreError with the damaged runs, if there are any."""
        if self.faults:
            raise _damage_error(list(self.faults.values()))

    def table(self, name: str, runs: Iterable[str] | None = None) -> list[StoredFile]:
        """Return the verified files of a table that ``runs`` (None: all) have.

        Raises:
            StoreError: a file is damaged.
        """
        return self.files_named(f"{name}.parquet", runs)

    def files_named(self, name: str, runs: Iterable[str] | None = None) -> list[StoredFile]:
        """Return the verified files with a given name, as :meth:`table`."""
        directories = self._group_runs if runs is None else _group_runs(self.folders, runs)
        files = [
            StoredFile(self.store / folder.name / name, folder, requested)
            for folder, requested in directories
            if name in folder.files
        ]
        self.check((file.folder, name) for file in files)
        return files

    @cached_property
    def _group_runs(self) -> list[tuple[RunDirectory, list[str]]]:
        return _group_runs(self.folders, self.folders)

    def check(self, files: Iterable[tuple[RunDirectory, str]]) -> None:
        """Verify files.

        Raises:
            StoreError: files are damaged; the message names them.
        """
        wrong = changed([(self.store / folder.name / name, folder.files[name]) for folder, name in files])
        if wrong:
            raise _damage_error(list(wrong.values()))

    def find_damage(self) -> dict[str, str]:
        """Read every file and return the damage of each damaged run, by its id."""
        origins = {}
        for folder in {folder.name: folder for folder in self.folders.values()}.values():
            for file, expected in folder.files.items():
                origins[self.store / folder.name / file] = (folder.name, expected)
        damage: dict[str, str] = {}
        for path, reason in changed([(path, expected) for path, (_, expected) in origins.items()]).items():
            damage.setdefault(origins[path][0], reason)
        result = {run: damage[folder.name] for run, folder in self.folders.items() if folder.name in damage}
        return {**result, **self.faults}


def _group_runs(
    folders: Mapping[str, RunDirectory], runs: Iterable[str]
) -> list[tuple[RunDirectory, list[str]]]:
    """Return the directories of ``runs``, each with its requested runs."""
    by_name: dict[str, tuple[RunDirectory, list[str]]] = {}
    for run in runs:
        folder = folders.get(run)
        if folder is not None:
            by_name.setdefault(folder.name, (folder, []))[1].append(run)
    return list(by_name.values())


def _damage_error(reasons: list[str]) -> StoreError:
    reasons = list(dict.fromkeys(reasons))
    rest = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    fix = "rerun the command of the store to repeat the damaged runs"
    return StoreError(f"{'; '.join(reasons[:3])}{rest}; {fix}")


def build_index(store: Path, runs: Sequence[str]) -> StoreIndex:
    """Return the index of those of ``runs`` that are in the store.

    Args:
        store: directory of the store.
        runs: ids of the planned runs.
    """
    folders: dict[str, RunDirectory] = {}
    faults: dict[str, str] = {}
    pack_damage: dict[str, str] = {}
    for name, pack in packs(store).items():
        if isinstance(pack, RunDirectory):
            folders |= dict.fromkeys(pack.packed or (), pack)
        else:
            pack_damage |= dict.fromkeys(pack.runs or (f"packs/{name}",), pack.reason)
    existing = _names(store / "runs", runs)
    for run in runs if existing else ():
        if run not in existing:
            continue
        contents = _read_run_directory(store, run)
        if contents is None:
            continue
        if not isinstance(contents, str):
            folders[run] = RunDirectory(f"runs/{run}", contents)
        elif run not in folders:
            faults[run] = contents
    folders = {run: folders[run] for run in runs if run in folders}
    if pack_damage:
        planned_runs = set(runs)
        faults |= {
            run: reason
            for run, reason in pack_damage.items()
            if run not in folders and (run in planned_runs or "/" in run)
        }
    return StoreIndex(store, folders, faults)


def _names(folder: Path, otherwise: Iterable[str]) -> set[str]:
    """Return the names in a folder; ``otherwise`` for an unreadable folder, whose later access reports the reason."""
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names alone, of thousands of runs
    except FileNotFoundError:
        return set()
    except OSError:
        return set(otherwise)


def _members(place: Path) -> set[str]:
    """Return the names in a folder of a store. Raise OSError for a link or a missing folder."""
    if place.is_symlink():
        raise InputFileError("it is a link, expected a folder", place)
    return set(os.listdir(place))  # noqa: PTH208


def _read_run_directory(store: Path, run: str) -> dict[str, str] | str | None:
    """Return the files of a run directory, or a description of its damage; None: no such directory."""
    directory = store / "runs" / run
    try:
        names = _members(directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{directory} cannot be read: {error.strerror}"
    if SUMS not in names:
        if not any(map(_is_run_file, names)):
            return f"{directory} is damaged: it has no files of the run"
        return f"{directory / SUMS} is missing"
    return _read_sums(directory, names)


def _read_sums(place: Path, names: set[str]) -> dict[str, str] | str:
    """Return the files of a directory by its ``SHA256SUMS``, or a description of the damage."""
    try:
        sums = read_listing(read_input(place / SUMS, links=False).decode())
    except OSError as error:
        return f"{place / SUMS} cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        sums = None
    if sums is None:
        return f"{place / SUMS} is damaged: it is not a list of checksums"
    if missing := sums.keys() - names:
        return f"{place / min(missing)} is missing"
    if unlisted := {name for name in names if name.endswith(".parquet")} - sums.keys():
        return f"{place / SUMS} is damaged: it does not have {min(unlisted)}"
    return sums


def _is_run_file(name: str) -> bool:
    return name.endswith(".parquet") or name == "spec.json"


@dataclass(frozen=True)
class DamagedPack:
    """Incomplete pack."""

    reason: str
    runs: tuple[str, ...]
    """Runs of the pack, if its list is trustworthy."""


def packs(store: Path) -> dict[str, RunDirectory | DamagedPack]:
    """Return the packs of a store by name, damaged ones included."""
    names = sorted(name for name in _names(store / "packs", ()) if not name.startswith("."))
    return {name: _read_pack(store, name) for name in names}


def packed_runs(store: Path) -> dict[str, RunDirectory]:
    """Return the runs in intact packs."""
    return {
        run: pack
        for pack in packs(store).values()
        if isinstance(pack, RunDirectory)
        for run in pack.packed or ()
    }


def pack_name(runs: bytes) -> str:
    """Return the name of a pack with this list of runs."""
    return checksum(runs)[:16]


def _read_pack(store: Path, name: str) -> RunDirectory | DamagedPack:
    directory = store / "packs" / name
    try:
        names = _members(directory)
        runs = listed_runs(directory) if LIST in names else {}
    except OSError as error:
        return DamagedPack(f"{directory} cannot be read: {error.strerror}", ())
    if SUMS not in names:
        return DamagedPack(f"{directory / SUMS} is missing", tuple(runs or ()))
    sums = _read_sums(directory, names)
    if isinstance(sums, str):
        return DamagedPack(sums, tuple(runs or ()))
    if LIST not in names:
        return DamagedPack(f"{directory / LIST} is missing", ())
    if runs is None:
        return DamagedPack(f"{directory / LIST} is damaged: checksum mismatch", ())
    if LIST not in sums:
        return DamagedPack(f"{directory / SUMS} is damaged: it does not have {LIST}", tuple(runs))
    return RunDirectory(f"packs/{name}", sums, runs)


def listed_runs(pack: Path) -> dict[str, str] | None:
    """Return the runs of a pack with their checksums; None: the list is damaged. Raise OSError."""
    written = read_input(pack / LIST, links=False)
    if pack_name(written) != pack.name:
        return None
    text = written.decode(errors="replace")
    runs = {run: checksum for checksum, run in _RUN.findall(text)}
    return runs if sum(len(run) + 67 for run in runs) == len(text) else None


_RUN = re.compile(r"([0-9a-f]{64})  ([\w-]+)\n")
"""Line of the list: checksum and run. The name must not lead out of the store, since it becomes a directory."""
