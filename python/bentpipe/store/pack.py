"""Packs: one file for each table of many finished runs, in place of a directory for each run.

::

    DIR/packs/NAME/TABLE.parquet     rows of its runs, one run after the other, with the run's id in ``run``
    DIR/packs/NAME/specs.parquet     specification of each run
    DIR/packs/NAME/RUNS              its runs, each with the checksum of its former SHA256SUMS
    DIR/packs/NAME/SHA256SUMS        checksums of these files

A pack is written beside its place, synchronised to the disk and renamed. The directories of its runs are removed after
that, each renamed first. After an interruption at any point every run exists, and a run in both places is read from its
own directory (:mod:`bentpipe.store.index`). Equal runs give equal packs, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.scenario.input_file import check_kind, parse_json, read_input
from bentpipe.store.codec import TABLES, parquet
from bentpipe.store.files import SUMS, StoreError, checksum, listing, readable, sync, write_directory_atomic
from bentpipe.store.index import LIST, RunDirectory, StoreIndex, pack_name
from bentpipe.store.scan import GROUP, grouped, scan

__all__ = [
    "MOST_BYTES",
    "MOST_RUNS",
    "SPECS",
    "PackAssignment",
    "assign_packs",
    "contents",
    "extract_runs",
    "seeds",
    "specs",
    "write",
]

MOST_RUNS = 1000
"""Maximum runs of a pack."""

MOST_BYTES = 64 << 20
"""Maximum bytes of the files of a pack's runs before packing: in memory they are about ten times as large.

A larger run gains nothing and stays as it is.
"""

SPECS = "specs.parquet"
"""File of a pack with the specifications of its runs."""
SPEC = "spec.json"
"""File of a run directory with its specification."""


@dataclass(frozen=True)
class PackAssignment:
    """Runs of a store to pack."""

    packs: tuple[tuple[str, ...], ...]
    """Runs of each pack."""
    traced: int
    """Runs with traces, which stay separate files."""
    large: int
    """Runs that are too large to gain anything."""


def assign_packs(index: StoreIndex, runs: Iterable[str]) -> PackAssignment:
    """Assign those of ``runs`` that have their own directory to packs, in order: runs with equal tables together."""
    counts = {"traced": 0, "large": 0}
    packs: list[list[str]] = []
    open_packs: dict[frozenset[str], list[str]] = {}
    weights: dict[frozenset[str], int] = {}
    for run in runs:
        folder = index.folders.get(run)
        if folder is None or folder.packed is not None:
            continue
        size = sum((index.store / folder.name / name).stat().st_size for name in folder.files)
        if reason := _exclusion_reason(folder, size):
            counts[reason] += 1
            continue
        tables = frozenset(folder.files)
        weights[tables] = weights.get(tables, 0) + size
        if tables not in open_packs or len(open_packs[tables]) == MOST_RUNS or weights[tables] > MOST_BYTES:
            open_packs[tables], weights[tables] = [], size
            packs.append(open_packs[tables])
        open_packs[tables].append(run)
    return PackAssignment(tuple(map(tuple, packs)), **counts)


def _exclusion_reason(folder: RunDirectory, size: int) -> str:
    tables = {f"{name}.parquet" for name in TABLES}
    if SPEC not in folder.files or folder.files.keys() - tables - {SPEC}:
        return "traced"
    return "large" if size > MOST_BYTES else ""


def write(index: StoreIndex, runs: tuple[str, ...]) -> None:
    """Write a pack of ``runs``, whose directories stay.

    Raises:
        StoreError: a run is damaged.
        OSError: the write failed; nothing of the pack remains.
    """
    files = _files(index, runs)
    if not (index.store / "packs").is_dir():
        (index.store / "packs").mkdir()
        sync(index.store)
    write_directory_atomic(index.store, f"packs/{pack_name(files[LIST])}", files)


def _files(index: StoreIndex, runs: tuple[str, ...]) -> dict[str, bytes]:
    spec_texts = {file.runs[0]: _read_spec(file.path) for file in index.files_named(SPEC, runs)}
    frames = {}
    for name in TABLES:
        if f"{name}.parquet" in index.folders[runs[0]].files:
            lazy = scan(index, name, runs)
            assert lazy is not None  # noqa: S101 - for the type checker
            with readable(index.store, name):
                frame = lazy.collect()
            frames[name] = frame.drop(GROUP) if name == "flow_summary" and not grouped(frame) else frame
    sums = {run: checksum(listing(index.folders[run].files)) for run in runs}
    return contents(frames, spec_texts, sums)


def contents(
    frames: Mapping[str, pl.DataFrame], texts: Mapping[str, str], sums: Mapping[str, str]
) -> dict[str, bytes]:
    """Return the files of a pack.

    Args:
        frames: tables by name.
        texts: specification of each run.
        sums: checksum of each run.
    """
    files = {f"{name}.parquet": parquet(frame) for name, frame in frames.items()}
    files[SPECS] = parquet(pl.DataFrame({"run": list(texts), "spec": list(texts.values())}))
    files[LIST] = "".join(f"{checksum}  {run}\n" for run, checksum in sums.items()).encode()
    files[SUMS] = listing({name: checksum(content) for name, content in files.items()})
    return files


def seeds(store: Path, folders: Mapping[str, RunDirectory]) -> dict[str, tuple[Path, int | None]]:
    """Return path and seed of each run of a store; None for an unreadable seed."""
    result: dict[str, tuple[Path, int | None]] = {}
    by_pack: dict[str, Mapping[str, str]] = {}
    for run, folder in folders.items():
        directory = store / folder.name
        try:
            if folder.packed is None:
                text = read_input(directory / SPEC, links=False).decode()
            else:
                if folder.name not in by_pack:
                    by_pack[folder.name] = _read_specs(directory / SPECS)
                text = by_pack[folder.name][run]
            result[run] = (directory, int(parse_json(text)["seed"]))
        except (OSError, ValueError, OverflowError, LookupError, TypeError):
            result[run] = (directory, None)
    return result


def specs(index: StoreIndex, runs: Sequence[str]) -> dict[str, Any]:
    """Return the specification of each of ``runs``, by id.

    Raises:
        StoreError: a specification is damaged; the message names it.
    """
    result = {}
    for file in index.files_named(SPEC, runs):
        result[file.runs[0]] = _parse_spec(_read_spec(file.path), file.runs[0], file.path)
    for file in index.files_named(SPECS, runs):
        try:
            texts = _read_specs(file.path)
        except (OSError, ValueError):
            raise _invalid_file_error(file.path, "it cannot be read") from None
        for run in file.runs:
            if run not in texts:
                raise _invalid_file_error(file.path, f"it does not have run {run}")
            result[run] = _parse_spec(texts[run], run, file.path)
    return result


def _parse_spec(text: str, run: str, file: Path) -> Any:
    """Parse the specification of a run; raise StoreError for other content, since checksums do not show the writer."""
    try:
        spec = parse_json(text)
    except ValueError:
        spec = None
    if isinstance(spec, dict) and all(isinstance(spec.get(key), kind) for key, kind in _SPEC_KEYS.items()):
        flows = [flow for flow in spec["flows"] if isinstance(flow, dict)]
        valid_flows = [flow for flow in flows if isinstance(flow.get("name"), str)]
        if len(valid_flows) == len(spec["flows"]) and all(
            isinstance(flow.get("user", 0), int) for flow in valid_flows
        ):
            return spec
    raise _invalid_file_error(file, f"run {run} is not what a run resolves to")


_SPEC_KEYS = {"seed": int, "duration_ns": int, "graph": dict, "flows": list}
"""Keys of every specification."""


def _read_spec(file: Path) -> str:
    """Return the text of a specification in a run directory; raise StoreError."""
    try:
        return read_input(file, links=False).decode()
    except (OSError, UnicodeDecodeError):
        raise _invalid_file_error(file, "it cannot be read") from None


def _invalid_file_error(file: Path, what: str) -> StoreError:
    """Return the error of an invalid file with a correct checksum.

    The command that created the store would not replace such a file.
    """
    again = f"remove {file.parent} and rerun the command to repeat its runs"
    return StoreError(f"{file} is damaged: {what}; {again}")


def _read_specs(file: Path) -> dict[str, str]:
    """Return the text of the specification of each run of a pack; raise OSError or ValueError."""
    check_kind(file, file.lstat())
    try:
        frame = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"it is not a table: {error}") from None
    if frame.schema != _COLUMNS or sum(frame.null_count().row(0)):
        raise ValueError(f"expected the columns {', '.join(_COLUMNS)}")
    return dict(frame.iter_rows())


_COLUMNS = {"run": pl.String, "spec": pl.String}


def extract_runs(
    pack: Path, files: Iterable[str], runs: Iterable[str] | None
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield ``runs`` of a pack (None: all), each with its files as in a run directory, without SHA256SUMS.

    The bytes are equal to those before packing if the version of Polars is. Damaged files raise errors of Polars.
    Files
    that belong to no pack raise ValueError or KeyError.
    """
    spec_texts = _read_specs(pack / SPECS)
    tables: dict[str, tuple[pl.DataFrame, dict[str, pl.DataFrame]]] = {}
    for file in sorted(set(files) - {SPECS}):
        frame = pl.read_parquet(pack / file)
        partitions = frame.partition_by("run", maintain_order=True, as_dict=True, include_key=False)
        tables[file] = (frame.drop("run").clear(), {str(run): part for (run,), part in partitions.items()})
    for run in spec_texts if runs is None else runs:
        run_files = {SPEC: spec_texts[run].encode()}
        for file, (empty_frame, by_run) in tables.items():
            part = by_run.get(run, empty_frame)
            if GROUP in part.columns and not grouped(part):
                part = part.drop(GROUP)
            run_files[file] = parquet(part)
        yield run, run_files
