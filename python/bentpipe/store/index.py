"""What a store has on the disk: which finished runs, where each is, what they consist of.

A finished run is a directory of its own, ``runs/ID``, or lies in a pack with others, ``packs/NAME``. Either
holds ``SHA256SUMS`` (``sha256sum -c SHA256SUMS`` there checks it by hand): what it consists of, and a checksum of each
file. A run that was made before there were checksums has no such file; it consists of what the others of its store do.

A run that is there both ways is read from its own directory, so nothing is in a store twice, whenever packing is cut
short.
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
    "Held",
    "RunDirectory",
    "StoreIndex",
    "build_index",
    "in_packs",
    "listed_runs",
    "pack_name",
    "packs",
]

LIST = "RUNS"
"""Of a pack: its runs in the order of their rows, each with the checksum of the ``SHA256SUMS`` that it had."""


@dataclass(frozen=True)
class RunDirectory:
    """A directory of a store that holds finished runs: one, or a pack of many."""

    name: str
    """In the store: ``runs/ID`` or ``packs/NAME``."""
    files: Mapping[str, str | None]
    """By name, with their checksums; None where there was none yet."""
    packed: Mapping[str, str] | None = None
    """The runs of a pack, each with its checksum."""


@dataclass(frozen=True)
class Held:
    """A file with rows of some runs."""

    path: Path
    folder: RunDirectory
    runs: Sequence[str]
    """Those that are wanted; a pack may hold others."""

    @property
    def packed(self) -> bool:
        """Whether rows say in the column ``run`` whose they are."""
        return self.folder.packed is not None

    @property
    def bare(self) -> bool:
        """Whether it is a table that had no rows and got no columns: one column alone makes 300 bytes."""
        return not self.packed and self.path.stat().st_size < 256

    @property
    def whole(self) -> bool:
        """Whether it holds nothing else."""
        return self.folder.packed is None or len(self.folder.packed) == len(self.runs)


@dataclass(frozen=True)
class StoreIndex:
    """The finished runs of a store, as they were on the disk at one moment."""

    store: Path
    folders: Mapping[str, RunDirectory]
    """Where each run is, in the plan's order."""
    faults: Mapping[str, str]
    """What is wrong with a run, or a pack of unknown ones, by id or name: it is no directory, or is not all there."""

    def refuse(self) -> None:
        """Raises StoreError that names the damaged runs, if there are any."""
        if self.faults:
            raise _damaged(list(self.faults.values()))

    def table(self, name: str, runs: Iterable[str] | None = None) -> list[Held]:
        """The files of a table of those of ``runs``, or all, that have it, as they were written. Raises StoreError."""
        return self.holding(f"{name}.parquet", runs)

    def holding(self, file: str, runs: Iterable[str] | None = None) -> list[Held]:
        """The same of a file of any name."""
        there = self._together if runs is None else _together(self.folders, runs)
        found = [
            Held(self.store / folder.name / file, folder, own)
            for folder, own in there
            if file in folder.files
        ]
        self.check((held.folder, file) for held in found)
        return found

    @cached_property
    def _together(self) -> list[tuple[RunDirectory, list[str]]]:
        return _together(self.folders, self.folders)

    def check(self, files: Iterable[tuple[RunDirectory, str]]) -> None:
        """Raises StoreError that names those files that are not as they were written."""
        wrong = changed([(self.store / folder.name / name, folder.files[name]) for folder, name in files])
        if wrong:
            raise _damaged(list(wrong.values()))

    def damaged(self) -> dict[str, str]:
        """What is wrong with each damaged run, by its id, after reading every file of all."""
        places = {}
        for folder in {folder.name: folder for folder in self.folders.values()}.values():
            for file, expected in folder.files.items():
                places[self.store / folder.name / file] = (folder.name, expected)
        wrong: dict[str, str] = {}
        for path, said in changed([(path, expected) for path, (_, expected) in places.items()]).items():
            wrong.setdefault(places[path][0], said)
        found = {run: wrong[folder.name] for run, folder in self.folders.items() if folder.name in wrong}
        return {**found, **self.faults}


def _together(
    folders: Mapping[str, RunDirectory], runs: Iterable[str]
) -> list[tuple[RunDirectory, list[str]]]:
    """The directories of ``runs``, each with those that it holds."""
    found: dict[str, tuple[RunDirectory, list[str]]] = {}
    for run in runs:
        folder = folders.get(run)
        if folder is not None:
            found.setdefault(folder.name, (folder, []))[1].append(run)
    return list(found.values())


def _damaged(said: list[str]) -> StoreError:
    said = list(dict.fromkeys(said))
    more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
    again = "the command that made the store makes the damaged runs again, and no others"
    return StoreError(f"{'; '.join(said[:3])}{more}; {again}")


def build_index(store: Path, runs: Sequence[str], summed: bool) -> StoreIndex:
    """Those of ``runs`` that are in the store. All of them must have checksums where it is ``summed``."""
    folders: dict[str, RunDirectory] = {}
    faults: dict[str, str] = {}
    lost: dict[str, str] = {}
    for name, pack in packs(store).items():
        if isinstance(pack, RunDirectory):
            folders |= dict.fromkeys(pack.packed or (), pack)
        else:
            lost |= dict.fromkeys(pack.runs or (f"packs/{name}",), pack.said)
    there = _names(store / "runs", runs)
    for run in runs if there else ():
        if run not in there:
            continue
        found = _loose(store, run, summed)
        if found is None:
            continue
        if not isinstance(found, str):
            folders[run] = RunDirectory(f"runs/{run}", found)
        elif run not in folders:
            faults[run] = found
    _like_the_others(store, folders, faults)
    folders = {run: folders[run] for run in runs if run in folders}
    if lost:
        planned = set(runs)
        faults |= {
            run: said for run, said in lost.items() if run not in folders and (run in planned or "/" in run)
        }
    return StoreIndex(store, folders, faults)


def _names(folder: Path, otherwise: Iterable[str]) -> set[str]:
    """What is in a folder. Where that cannot be said, whoever looks there says why."""
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names alone, of thousands of runs
    except FileNotFoundError:
        return set()
    except OSError:
        return set(otherwise)


def _members(place: Path) -> set[str]:
    """Return the names in a folder of a store. Raise OSError: it is a link to one, or is not there."""
    if place.is_symlink():
        raise InputFileError("it is a link, expected a folder", place)
    return set(os.listdir(place))  # noqa: PTH208


def _loose(store: Path, run: str, summed: bool) -> dict[str, str | None] | str | None:
    """What a run in a directory of its own consists of, what is wrong with it, or None where there is none."""
    place = store / "runs" / run
    try:
        there = _members(place)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{place} cannot be read: {error.strerror}"
    if SUMS not in there:
        if not any(map(_of_every_run, there)):
            return f"{place} is damaged: nothing of the run is in it"
        return f"{place / SUMS} is missing" if summed else dict.fromkeys(there)
    listed = _listed(place, there)
    return listed if isinstance(listed, str) else dict(listed)


def _listed(place: Path, there: set[str]) -> dict[str, str] | str:
    """What a directory consists of by its ``SHA256SUMS``, or what is wrong with that."""
    try:
        listed = read_listing(read_input(place / SUMS, links=False).decode())
    except OSError as error:
        return f"{place / SUMS} cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        listed = None
    if listed is None:
        return f"{place / SUMS} is damaged: it is no list of checksums"
    if lost := listed.keys() - there:
        return f"{place / min(lost)} is missing"
    if more := {name for name in there if name.endswith(".parquet")} - listed.keys():
        return f"{place / SUMS} is damaged: it does not have {min(more)}"
    return listed


def _like_the_others(store: Path, folders: dict[str, RunDirectory], faults: dict[str, str]) -> None:
    """Of runs without checksums: one that lacks a file which others have is damaged."""
    before = {run: folder.files for run, folder in folders.items() if None in folder.files.values()}
    whole = {name for files in before.values() for name in files if _of_every_run(name)}
    for run, files in before.items():
        if lost := whole - files.keys():
            faults[run] = f"{store / 'runs' / run / min(lost)} is missing"
            del folders[run]


def _of_every_run(name: str) -> bool:
    return name.endswith(".parquet") or name == "spec.json"


@dataclass(frozen=True)
class DamagedPack:
    """A pack that is not all there."""

    said: str
    runs: tuple[str, ...]
    """As far as its list can be believed."""


def packs(store: Path) -> dict[str, RunDirectory | DamagedPack]:
    """The packs of a store by name, or what is wrong with each."""
    names = sorted(name for name in _names(store / "packs", ()) if not name.startswith("."))
    return {name: _pack(store, name) for name in names}


def in_packs(store: Path) -> dict[str, RunDirectory]:
    """The runs in packs that are all there."""
    return {
        run: pack
        for pack in packs(store).values()
        if isinstance(pack, RunDirectory)
        for run in pack.packed or ()
    }


def pack_name(runs: bytes) -> str:
    """What a pack with this list of runs is called."""
    return checksum(runs)[:16]


def _pack(store: Path, name: str) -> RunDirectory | DamagedPack:
    place = store / "packs" / name
    try:
        there = _members(place)
        known = listed_runs(place) if LIST in there else {}
    except OSError as error:
        return DamagedPack(f"{place} cannot be read: {error.strerror}", ())
    if SUMS not in there:
        return DamagedPack(f"{place / SUMS} is missing", tuple(known or ()))
    listed = _listed(place, there)
    if isinstance(listed, str):
        return DamagedPack(listed, tuple(known or ()))
    if LIST not in there:
        return DamagedPack(f"{place / LIST} is missing", ())
    if known is None:
        return DamagedPack(f"{place / LIST} is damaged: it is not what was written", ())
    if LIST not in listed:
        return DamagedPack(f"{place / SUMS} is damaged: it does not have {LIST}", tuple(known))
    return RunDirectory(f"packs/{name}", listed, known)


def listed_runs(pack: Path) -> dict[str, str] | None:
    """The runs of a pack and their checksums; None where its list is not what was written. Raises OSError."""
    written = read_input(pack / LIST, links=False)
    if pack_name(written) != pack.name:
        return None
    text = written.decode(errors="replace")
    runs = {run: checksum for checksum, run in _RUN.findall(text)}
    return runs if sum(len(run) + 67 for run in runs) == len(text) else None


_RUN = re.compile(r"([0-9a-f]{64})  ([\w-]+)\n")
"""A run and its checksum. A name that leads elsewhere is none: what is taken out of a pack becomes a directory."""
