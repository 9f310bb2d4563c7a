"""Packs: one file a table for many finished runs, in the place of a directory for each.

::

    DIR/packs/NAME/TABLE.parquet     the rows of its runs, one run after the other, with the run's id in ``run``
    DIR/packs/NAME/specs.parquet     what each run resolved to
    DIR/packs/NAME/RUNS              its runs, each with the checksum of the SHA256SUMS that it had
    DIR/packs/NAME/SHA256SUMS        the checksums of these files

A pack is written beside its place, synchronised to the disk and renamed; only then are the directories of its runs
removed, each renamed first. Whenever that is cut short, every run is there, and a run that is there both ways is read
from its own directory (:mod:`bentpipe.store.index`). The same runs give the same pack, byte for byte.
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
    "Chosen",
    "chosen",
    "contents",
    "seeds",
    "specs",
    "taken_out",
    "write",
]

MOST_RUNS = 1000
"""Of a pack."""

MOST_BYTES = 64 << 20
"""Of the files of a pack's runs before they are packed: in memory they are some ten times as large. A run that is
larger by itself gains nothing, and stays as it is."""

SPECS = "specs.parquet"
SPEC = "spec.json"


@dataclass(frozen=True)
class Chosen:
    """What is to be packed of a store."""

    packs: tuple[tuple[str, ...], ...]
    """Runs of each pack."""
    traced: int
    """Runs with traces, which are files of their own and stay so."""
    large: int
    """Runs that are too large to gain anything."""
    unsummed: int
    """Runs without checksums: nobody knows whether they are as they were written."""


def chosen(kept: StoreIndex, runs: Iterable[str]) -> Chosen:
    """How those of ``runs`` that are loose are packed, in their order: runs of the same tables together."""
    stay = {"traced": 0, "large": 0, "unsummed": 0}
    packs: list[list[str]] = []
    open_: dict[frozenset[str], list[str]] = {}
    weights: dict[frozenset[str], int] = {}
    for run in runs:
        folder = kept.folders.get(run)
        if folder is None or folder.packed is not None:
            continue
        size = sum((kept.store / folder.name / name).stat().st_size for name in folder.files)
        if why := _stays(folder, size):
            stay[why] += 1
            continue
        tables = frozenset(folder.files)
        weights[tables] = weights.get(tables, 0) + size
        if tables not in open_ or len(open_[tables]) == MOST_RUNS or weights[tables] > MOST_BYTES:
            open_[tables], weights[tables] = [], size
            packs.append(open_[tables])
        open_[tables].append(run)
    return Chosen(tuple(map(tuple, packs)), **stay)


def _stays(folder: RunDirectory, size: int) -> str:
    if None in folder.files.values():
        return "unsummed"
    tables = {f"{name}.parquet" for name in TABLES}
    if SPEC not in folder.files or folder.files.keys() - tables - {SPEC}:
        return "traced"
    return "large" if size > MOST_BYTES else ""


def write(kept: StoreIndex, runs: tuple[str, ...]) -> None:
    """Makes a pack of loose ``runs``, whose directories stay.

    Raises:
        StoreError: a run is damaged.
        OSError: it cannot be written; nothing of it stays.
    """
    files = _files(kept, runs)
    if not (kept.store / "packs").is_dir():
        (kept.store / "packs").mkdir()
        sync(kept.store)
    write_directory_atomic(kept.store, f"packs/{pack_name(files[LIST])}", files)


def _files(kept: StoreIndex, runs: tuple[str, ...]) -> dict[str, bytes]:
    texts = {one.runs[0]: _text(one.path) for one in kept.holding(SPEC, runs)}
    frames = {}
    for name in TABLES:
        if f"{name}.parquet" in kept.folders[runs[0]].files:
            rows = scan(kept, name, runs)
            assert rows is not None  # noqa: S101 - for the type checker
            with readable(kept.store, name):
                frame = rows.collect()
            frames[name] = frame.drop(GROUP) if name == "summary" and not grouped(frame) else frame
    sums = {run: checksum(listing(_summed(kept.folders[run].files))) for run in runs}
    return contents(frames, texts, sums)


def contents(
    frames: Mapping[str, pl.DataFrame], texts: Mapping[str, str], sums: Mapping[str, str]
) -> dict[str, bytes]:
    """The files of a pack, of its tables, and of each run what it resolved to and its checksum."""
    files = {f"{name}.parquet": parquet(frame) for name, frame in frames.items()}
    files[SPECS] = parquet(pl.DataFrame({"run": list(texts), "spec": list(texts.values())}))
    files[LIST] = "".join(f"{checksum}  {run}\n" for run, checksum in sums.items()).encode()
    files[SUMS] = listing({name: checksum(content) for name, content in files.items()})
    return files


def _summed(files: Mapping[str, str | None]) -> dict[str, str]:
    return {name: checksum for name, checksum in files.items() if checksum is not None}


def seeds(store: Path, folders: Mapping[str, RunDirectory]) -> dict[str, tuple[Path, int | None]]:
    """Where each run of a store is, and its seed; None where that cannot be read."""
    found: dict[str, tuple[Path, int | None]] = {}
    texts: dict[str, Mapping[str, str]] = {}
    for run, folder in folders.items():
        place = store / folder.name
        try:
            if folder.packed is None:
                text = read_input(place / SPEC, links=False).decode()
            else:
                if folder.name not in texts:
                    texts[folder.name] = _texts(place / SPECS)
                text = texts[folder.name][run]
            found[run] = (place, int(parse_json(text)["seed"]))
        except (OSError, ValueError, OverflowError, LookupError, TypeError):
            found[run] = (place, None)
    return found


def specs(kept: StoreIndex, runs: Sequence[str]) -> dict[str, Any]:
    """Return the resolved specification of each of ``runs``, by id. Raises StoreError that names a damaged one."""
    found = {}
    for one in kept.holding(SPEC, runs):
        found[one.runs[0]] = _spec(_text(one.path), one.runs[0], one.path)
    for one in kept.holding(SPECS, runs):
        try:
            texts = _texts(one.path)
        except (OSError, ValueError):
            raise _damaged(one.path, "it cannot be read") from None
        for run in one.runs:
            if run not in texts:
                raise _damaged(one.path, f"it does not have run {run}")
            found[run] = _spec(texts[run], run, one.path)
    return found


def _spec(text: str, run: str, file: Path) -> Any:
    """Return what a run resolved to. Raises StoreError where its text is none: checksums do not say who wrote it."""
    try:
        spec = parse_json(text)
    except ValueError:
        spec = None
    if isinstance(spec, dict) and all(isinstance(spec.get(key), kind) for key, kind in _SPEC.items()):
        flows = [flow for flow in spec["flows"] if isinstance(flow, dict)]
        named = [flow for flow in flows if isinstance(flow.get("name"), str)]
        if len(named) == len(spec["flows"]) and all(isinstance(flow.get("user", 0), int) for flow in named):
            return spec
    raise _damaged(file, f"run {run} is not what a run resolves to")


_SPEC = {"seed": int, "duration_ns": int, "graph": dict, "flows": list}
"""Keys of every run."""


def _text(file: Path) -> str:
    """Return what a run in a directory of its own resolved to, as text. Raises StoreError."""
    try:
        return read_input(file, links=False).decode()
    except (OSError, UnicodeDecodeError):
        raise _damaged(file, "it cannot be read") from None


def _damaged(file: Path, what: str) -> StoreError:
    """The error of a file whose checksum is right, so that the command that made the store leaves it as it is."""
    again = f"remove {file.parent} and run the scenario again, which makes its runs and no others"
    return StoreError(f"{file} is damaged: {what}; {again}")


def _texts(file: Path) -> dict[str, str]:
    """Return what each run of a pack resolved to, as text. Raises OSError, ValueError."""
    check_kind(file, file.lstat())
    try:
        found = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"it is no table: {error}") from None
    if found.schema != _COLUMNS or sum(found.null_count().row(0)):
        raise ValueError(f"expected the columns {', '.join(_COLUMNS)}")
    return dict(found.iter_rows())


_COLUMNS = {"run": pl.String, "spec": pl.String}


def taken_out(
    pack: Path, files: Iterable[str], runs: Iterable[str] | None
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """``runs`` of a pack, or all, each with its files as in a directory of its own, but for its SHA256SUMS.

    Written with the Polars that wrote them first they are the same bytes. Raises what Polars does of damaged files,
    and ValueError or KeyError for what is none of a pack.
    """
    written = _texts(pack / SPECS)
    tables: dict[str, tuple[pl.DataFrame, dict[str, pl.DataFrame]]] = {}
    for file in sorted(set(files) - {SPECS}):
        whole = pl.read_parquet(pack / file)
        each = whole.partition_by("run", maintain_order=True, as_dict=True, include_key=False)
        tables[file] = (whole.drop("run").clear(), {str(run): frame for (run,), frame in each.items()})
    for run in written if runs is None else runs:
        found = {SPEC: written[run].encode()}
        for file, (empty, parts) in tables.items():
            frame = parts.get(run, empty)
            if GROUP in frame.columns and not grouped(frame):
                frame = frame.drop(GROUP)
            found[file] = parquet(frame)
        yield run, found
