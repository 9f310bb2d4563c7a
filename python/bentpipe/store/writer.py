"""Writing a store: one process at a time, a run whole or not at all.

A run is written beside its place, synchronised to the disk, and renamed: what is in ``runs/`` was whole.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bentpipe.plan.spec.run_id import SCHEMA
from bentpipe.scenario.input_file import read_input
from bentpipe.store import plan_file
from bentpipe.store.codec import Measurements, RunFiles, decode, encode
from bentpipe.store.files import (
    FULL,
    SUMS,
    DiskError,
    StoreError,
    check_no_folder,
    checksum,
    listing,
    remove_leftover,
    write_atomic,
    write_directory_atomic,
)
from bentpipe.store.index import RunDirectory, build_index, in_packs
from bentpipe.store.journal import Journal
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bentpipe.plan.plan import Plan, Run

__all__ = ["Writer"]


class Writer:
    """A store, for writing: one process at a time.

    Use as a context manager; leaving it releases the store.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        """Makes the store of ``plan`` at ``path``, or takes up the one that is there.

        Raises:
            StoreError: the directory holds something else, another scenario's store, or one of another engine;
                another process is writing to it; the disk is full.
        """
        self.path = path
        self.plan = plan
        self.refused = ""
        """Why nothing can be written here; empty where it can."""
        self._journal: Journal | None = None
        self._summed = True
        planned = plan_file.rows(plan)
        if path.exists():
            planned = self._check_same(planned)
        self.store_rows = planned
        self._lost: dict[str, str] = {}
        """What packs did not hold any more as it was written, by run or, where nobody knows which, by pack."""
        self._looked: tuple[set[str], dict[str, str]] | None = None

    def _check_same(self, planned: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The runs of the store and of the plan together, if both come of the same scenario."""
        path, plan = self.path, self.plan
        if not path.is_dir():
            raise StoreError(f"{path} is a file, expected a directory for the store")
        try:
            store = Store(path)
        except plan_file.LostPlanError:
            return self._check_lost()
        other = f"choose another directory with --out, or remove {path}"
        if store.schema != SCHEMA or store.engine != plan.engine:
            raise StoreError(
                f"{path} was made by engine {store.engine}, schema {store.schema}; this is engine {plan.engine}, "
                f"schema {SCHEMA}, which does not resume it; {other}"
            )
        if not store.is_of(_verbatim(plan)):
            raise StoreError(f'{path} holds the runs of another scenario, "{store.title}"; {other}')
        if store.overrides != tuple(plan.document.overrides):
            said = ", ".join(store.overrides) or "none"
            raise StoreError(f"{path} was made with other settings of --set ({said}); {other}")
        # What the scenario's text and --set do not say is in the id alone: options of browse, traces, controllers.
        wanted = {_place(row): row["id"] for row in planned}
        stale = [row for row in store.planned if wanted.get(_place(row), row["id"]) != row["id"]]
        packed = in_packs(path) if stale else ()
        for row in stale:
            if row["id"] in packed or (path / "runs" / row["id"]).is_dir():
                raise StoreError(
                    f"{path} holds run {row['id']}, of a cell and seed that are asked for again with other options, or "
                    f"with other contents of a trace, page or controller; {other}"
                )
        kept = [row for row in store.planned if row not in stale]
        known = {row["id"] for row in kept}
        self._summed = store.summed
        return [*kept, *(row for row in planned if row["id"] not in known)]

    def _check_lost(self) -> list[dict[str, Any]]:
        """The runs of a store without a plan: one whose first second failed, or whose plan was lost or damaged."""
        path = self.path
        loose = os.listdir(path / "runs") if (path / "runs").is_dir() else []  # noqa: PTH208 - names alone
        there = in_packs(path) | {run: RunDirectory(f"runs/{run}", {}) for run in loose}
        ours = {run.id for run in self.plan.runs}
        self._summed = not loose or any((path / "runs" / run / SUMS).exists() for run in loose)
        if _holds(path / "scenario.toml", _verbatim(self.plan).encode()) or ours & there.keys():
            others = {run: folder for run, folder in there.items() if run not in ours}
            return plan_file.again(self.plan, _seeds(path, others))
        if (path / "scenario.toml").exists() and (path / "runs").is_dir():
            raise StoreError(
                f"{path} holds another scenario, and no plan.json; choose another directory with --out, or remove it"
            )
        begun = all(entry.name in _BEGUN for entry in path.iterdir())
        if there or not begun:
            raise StoreError(f"{path} is not empty and not a store; choose another directory with --out")
        return plan_file.rows(self.plan)

    def __enter__(self) -> Self:
        """Takes hold of the directory."""
        try:
            with _disk(self.path, self):
                self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _take(self) -> None:
        try:
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            self._journal = Journal(self.path)
        except OSError as error:
            if error.errno in FULL:
                raise
            if all(_holds(file, data) for file, data in self._files().items()):
                self.refused = str(error.strerror)
                return
            what = f"{self.path} cannot be made: {error.strerror}; choose another directory with --out"
            raise StoreError(what) from None
        # again, now that nobody else can write: another may have been here since
        self.store_rows = self._check_same(plan_file.rows(self.plan))
        for left in self.path.glob(".part-*"):
            remove_leftover(left)
        self._lost = _mended(self.path, self.note)
        for file, data in self._files().items():
            remove_leftover(file.with_name(f".new-{file.name}"))
            if not _holds(file, data):
                check_no_folder(file)
                if file.is_symlink():  # one to a folder could not be replaced
                    file.unlink()
                write_atomic(file, data)

    def _files(self) -> dict[Path, bytes]:
        """The store's own files, as they are to be."""
        scenario = _verbatim(self.plan).encode()
        plan = plan_file.text(self.plan, self.store_rows, scenario, summed=self._summed).encode()
        return {self.path / "scenario.toml": scenario, self.path / "plan.json": plan}

    def __exit__(self, *_: object) -> None:
        """Releases the directory."""
        if self._journal is not None:
            self._journal.close()

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those of ``runs`` that are not in the store yet, or not as they were written."""
        whole, _ = self._look()
        return [run for run in runs if run.id not in whole]

    @property
    def damaged(self) -> Mapping[str, str]:
        """What is, or was, wrong with each run that is there and damaged, by its id; or with a pack, by its name."""
        return self._look()[1]

    def _look(self) -> tuple[set[str], dict[str, str]]:
        if self._looked is None:
            kept = build_index(self.path, [row["id"] for row in self.store_rows], self._summed)
            damaged = {**self._lost, **kept.damaged()}
            self._looked = set(kept.folders) - damaged.keys(), damaged
        return self._looked

    def count(self) -> int:
        """Finished runs of the plan."""
        damaged = self._looked[1] if self._looked else {}
        there = [row["id"] for row in self.store_rows if row["id"] not in damaged]
        packed = in_packs(self.path)
        return sum(run in packed or (self.path / "runs" / run).is_dir() for run in there)

    def add(self, run: Run, data: bytes | Measurements | RunFiles) -> dict[str, int]:
        """Writes one run's measurements, whole or not at all, in place of a damaged one.

        It is kept, whatever happens next, when this returns.

        Returns:
            What the journal may say of it: packets and events.

        Raises:
            DiskError: the disk is full or refuses.
            bentpipe.store.codec.DecodeError: the bytes are not an engine's.
        """
        measured = decode(data) if isinstance(data, bytes) else data
        found = encode(measured) if isinstance(measured, Measurements) else measured
        spec = run.spec_json().encode() + b"\n"
        files = {**found.files, "spec.json": spec}
        files[SUMS] = listing({**found.sums, "spec.json": checksum(spec)})
        with _disk(self.path, self):
            write_directory_atomic(self.path, f"runs/{run.id}", files)
        whole, damaged = self._look()
        whole.add(run.id)
        damaged.pop(run.id, None)
        return {"packets": found.packets, "events": found.events}

    def note(self, entry: Mapping[str, object]) -> None:
        """Appends a line to the journal; a full disk loses the line, not the runs."""
        if self._journal is not None:
            self._journal.note(entry)


def _mended(path: Path, note: Callable[[Mapping[str, object]], None]) -> dict[str, str]:
    """What is lost of damaged packs."""
    if not (path / "packs").is_dir():
        return {}
    from bentpipe.store.repair import repair_packs

    return repair_packs(path, note)


def _seeds(path: Path, runs: Mapping[str, RunDirectory]) -> dict[str, tuple[Path, int | None]]:
    if not runs:
        return {}
    from bentpipe.store.pack import seeds

    return seeds(path, runs)


_BEGUN = ("journal.jsonl", "runs", ".new-scenario.toml", ".new-plan.json")
"""What there is before there is a scenario."""


def _holds(file: Path, data: bytes) -> bool:
    """Whether a file is there and holds just ``data``."""
    try:
        return read_input(file, links=False) == data
    except OSError:
        return False


def _place(row: Mapping[str, Any]) -> str:
    """Cell and seed of a planned run."""
    return json.dumps([row["seed"], row["cell"]], sort_keys=True)


def _verbatim(plan: Plan) -> str:
    """The scenario's text; one that was given as a table is written as TOML."""
    document = plan.document
    if not document.text.startswith("{"):
        return document.text
    from bentpipe.scenario.toml_writer import dumps

    return dumps(document.data)


@contextmanager
def _disk(path: Path, writer: Writer) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        what = "the disk is full" if full else str(error.strerror or error)
        kept = writer.count() if (path / "runs").is_dir() else 0
        if not kept:
            raise DiskError(f"{path}: {what}") from error
        runs = "1 finished run is" if kept == 1 else f"{kept} finished runs are"
        raise DiskError(f"{path}: {what}; {runs} kept, and the same command goes on from there") from error
