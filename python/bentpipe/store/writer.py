"""Writing a store: one process at a time, each run atomically.

A run is written beside its place, synchronised to the disk and renamed: every directory in ``runs/`` was complete.
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
from bentpipe.store.index import RunDirectory, build_index, packed_runs
from bentpipe.store.journal import Journal
from bentpipe.store.reader import Store
from bentpipe.store.settings import describe_collision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Plan, Run

__all__ = ["Writer"]


class Writer:
    """Store, for writing by one process at a time.

    Use it as a context manager; the exit releases the store.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        """Create the store of ``plan`` at ``path``, or open the existing one.

        Raises:
            StoreError: the directory has other content, or the store of another scenario or engine; another process
                writes
                to it; the disk is full.
        """
        self.path = path
        self.plan = plan
        self.refused = ""
        """Reason why the store is read-only; empty: it is writable."""
        self._journal: Journal | None = None
        planned = plan_file.rows(plan)
        if path.exists():
            planned = self._check_same(planned)
        self.store_rows = planned
        self._lost: dict[str, str] = {}
        """Damage of packs, by run, or by pack where the runs are unknown."""
        self._state: tuple[set[str], dict[str, str]] | None = None

    def _check_same(self, planned: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the runs of the store and of the plan, if both belong to the same scenario."""
        path, plan = self.path, self.plan
        if not path.is_dir():
            raise StoreError(f"{path} is a file, expected a directory for the store")
        try:
            store = Store(path)
        except plan_file.LostPlanError:
            return self._check_lost()
        advice = f"choose another directory with --out, or remove {path}"
        if store.schema != SCHEMA or store.engine != plan.engine:
            raise StoreError(
                f"{path} was created by engine {store.engine}, schema {store.schema}; this is engine {plan.engine}, "
                f"schema {SCHEMA}, which does not resume it; {advice}"
            )
        if not store.has_scenario(_scenario_text(plan)):
            differences = describe_collision(store, _scenario_text(plan), plan.document.overrides)
            found = differences or f'"{store.title}"'
            raise StoreError(f"{path} holds the runs of another scenario: {found}; {advice}")
        if _without_limits(store.settings) != _without_limits(plan.document.overrides):
            settings = ", ".join(store.settings) or "none"
            raise StoreError(f"{path} was created with other --set values ({settings}); {advice}")
        # Options of browse, traces and controllers are part of the id, not of the scenario and --set.
        planned_ids = {_cell_key(row): row["id"] for row in planned}
        replaced = [row for row in store.planned if planned_ids.get(_cell_key(row), row["id"]) != row["id"]]
        packed = packed_runs(path) if replaced else ()
        for row in replaced:
            if row["id"] in packed or (path / "runs" / row["id"]).is_dir():
                raise StoreError(
                    f"{path} has run {row['id']} with the same cell and seed, but with other options or "
                    f"with other contents of a trace, page or controller; {advice}"
                )
        remaining = [row for row in store.planned if row not in replaced]
        known = {row["id"] for row in remaining}
        return [*remaining, *(row for row in planned if row["id"] not in known)]

    def _check_lost(self) -> list[dict[str, Any]]:
        """Return the runs of a store without a plan, after an early failure or a loss of the plan."""
        path = self.path
        directories = os.listdir(path / "runs") if (path / "runs").is_dir() else []  # noqa: PTH208 - names alone
        existing = packed_runs(path) | {run: RunDirectory(f"runs/{run}", {}) for run in directories}
        plan_ids = {run.id for run in self.plan.runs}
        if (
            _has_content(path / "scenario.toml", _scenario_text(self.plan).encode())
            or plan_ids & existing.keys()
        ):
            other_runs = {run: folder for run, folder in existing.items() if run not in plan_ids}
            return plan_file.again(self.plan, _seeds(path, other_runs))
        if (path / "scenario.toml").exists() and (path / "runs").is_dir():
            raise StoreError(
                f"{path} holds another scenario, and no plan.json; choose another directory with --out, or remove it"
            )
        is_new = all(entry.name in _INITIAL_NAMES for entry in path.iterdir())
        if existing or not is_new:
            raise StoreError(f"{path} is not empty and not a store; choose another directory with --out")
        return plan_file.rows(self.plan)

    def __enter__(self) -> Self:
        """Lock the directory."""
        try:
            with _disk_errors(self.path, self):
                self._lock()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lock(self) -> None:
        try:
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            self._journal = Journal(self.path)
        except OSError as error:
            if error.errno in FULL:
                raise
            if all(_has_content(file, data) for file, data in self._files().items()):
                self.refused = str(error.strerror)
                return
            message = f"{self.path}: cannot create the directory: {error.strerror}; choose another directory with --out"
            raise StoreError(message) from None
        # again under the lock: another process may have written since
        self.store_rows = self._check_same(plan_file.rows(self.plan))
        for leftover in self.path.glob(".part-*"):
            remove_leftover(leftover)
        self._lost = _repair(self.path, self.note)
        for file, data in self._files().items():
            remove_leftover(file.with_name(f".new-{file.name}"))
            if not _has_content(file, data):
                check_no_folder(file)
                if file.is_symlink():  # a rename cannot replace a link to a folder
                    file.unlink()
                write_atomic(file, data)

    def _files(self) -> dict[Path, bytes]:
        """Return the expected content of the store's own files."""
        scenario = _scenario_text(self.plan).encode()
        plan = plan_file.text(self.plan, self.store_rows, scenario).encode()
        return {self.path / "scenario.toml": scenario, self.path / "plan.json": plan}

    def __exit__(self, *_: object) -> None:
        """Release the directory."""
        if self._journal is not None:
            self._journal.close()

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return those of ``runs`` that are not in the store or are damaged."""
        intact, _ = self._find_state()
        return [run for run in runs if run.id not in intact]

    @property
    def damaged(self) -> Mapping[str, str]:
        """Damage by run, or by pack; repeated runs are not in it."""
        return self._find_state()[1]

    def _find_state(self) -> tuple[set[str], dict[str, str]]:
        if self._state is None:
            index = build_index(self.path, [row["id"] for row in self.store_rows])
            damaged = {**self._lost, **index.find_damage()}
            self._state = set(index.folders) - damaged.keys(), damaged
        return self._state

    def count(self) -> int:
        """Return the number of finished runs of the plan."""
        damaged = self._state[1] if self._state else {}
        intact = [row["id"] for row in self.store_rows if row["id"] not in damaged]
        packed = packed_runs(self.path)
        return sum(run in packed or (self.path / "runs" / run).is_dir() for run in intact)

    def add(self, run: Run, data: bytes | Measurements | RunFiles) -> dict[str, int]:
        """Write the measurements of one run atomically; a damaged run is replaced.

        The run is durable when the call returns.

        Returns:
            Packets and events, for the journal.

        Raises:
            DiskError: the disk is full or refuses.
            bentpipe.store.codec.DecodeError: the bytes are not an engine's.
        """
        measured = decode(data) if isinstance(data, bytes) else data
        files_of_run = encode(measured) if isinstance(measured, Measurements) else measured
        spec = run.spec_json().encode() + b"\n"
        files = {**files_of_run.files, "spec.json": spec}
        files[SUMS] = listing({**files_of_run.sums, "spec.json": checksum(spec)})
        with _disk_errors(self.path, self):
            write_directory_atomic(self.path, f"runs/{run.id}", files)
        intact, damaged = self._find_state()
        intact.add(run.id)
        damaged.pop(run.id, None)
        return {"packets": files_of_run.packets, "events": files_of_run.events}

    def note(self, entry: Mapping[str, object]) -> None:
        """Append a line to the journal; a full disk loses the line, not the runs."""
        if self._journal is not None:
            self._journal.note(entry)


def _repair(path: Path, note: Callable[[Mapping[str, object]], None]) -> dict[str, str]:
    """Repair damaged packs and return the damage of lost runs."""
    if not (path / "packs").is_dir():
        return {}
    from bentpipe.store.repair import repair_packs

    return repair_packs(path, note)


def _seeds(path: Path, runs: Mapping[str, RunDirectory]) -> dict[str, tuple[Path, int | None]]:
    if not runs:
        return {}
    from bentpipe.store.pack import seeds

    return seeds(path, runs)


_INITIAL_NAMES = ("journal.jsonl", "runs", ".new-scenario.toml", ".new-plan.json")
"""Names in a store before its scenario is written."""


def _has_content(file: Path, data: bytes) -> bool:
    """Return whether a file exists and has the content ``data``."""
    try:
        return read_input(file, links=False) == data
    except OSError:
        return False


def _cell_key(row: Mapping[str, Any]) -> str:
    """Return cell and seed of a planned run as a key."""
    return json.dumps([row["seed"], row["cell"]], sort_keys=True)


def _without_limits(overrides: Sequence[str]) -> list[str]:
    """Return the overrides of a plan except those of its limits, which change no results."""
    return [override for override in overrides if not override.startswith("limits.")]


def _scenario_text(plan: Plan) -> str:
    """Return the text of the scenario; a scenario given as a table is written as TOML."""
    document = plan.document
    if not document.text.startswith("{"):
        return document.text
    from bentpipe.scenario.toml_writer import dumps

    return dumps(document.data)


@contextmanager
def _disk_errors(path: Path, writer: Writer) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in FULL
        reason = "the disk is full" if is_full else str(error.strerror or error)
        count = writer.count() if (path / "runs").is_dir() else 0
        if not count:
            raise DiskError(f"{path}: {reason}") from error
        finished = "1 finished run is" if count == 1 else f"{count} finished runs are"
        raise DiskError(f"{path}: {reason}; {finished} kept; rerun the command to resume") from error
