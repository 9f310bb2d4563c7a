"""The store: one directory a scenario, one directory of Parquet files in it for each finished run.

::

    DIR/scenario.toml           the scenario, verbatim
    DIR/plan.json               title, engine, overrides, and every run: id, cell of the sweep, seed
    DIR/runs/ID/TABLE.parquet   measurements (docs/manual/results.md), with spec.json, the resolved run, and traces
    DIR/journal.jsonl           when, where and with what it ran: outside the promise of equal bytes

A run is written beside its place, synchronised to the disk, and renamed: what is in ``runs/`` is whole.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from bentpipe.plan import SCHEMA, Plan, Run
from bentpipe.results import TABLES, Measurements, decode, parquet
from bentpipe.sweep import column, headings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb
    import polars as pl

__all__ = ["DiskError", "NoTableError", "Store", "StoreError", "Writer", "readable", "unlike", "write_whole"]


class StoreError(ValueError):
    """A directory that is not a store, or not the one that is needed; the message is for people."""


class NoTableError(StoreError):
    """A table that no finished run has."""


class DiskError(StoreError):
    """The disk is full, or refuses."""


class Store:
    """A store, for reading. Tables are frames with the run's id, cell and seed in front.

    ``store.flows``, ``.links``, ``.internals``, ``.streams``, ``.events``, ``.summary``, ``.link_summary`` and
    ``.runs`` are Polars frames, read when they are asked for.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the store at ``path``. Raises StoreError when there is none."""
        self.path = Path(path)
        plan_file = self.path / "plan.json"
        try:
            plan = json.loads(plan_file.read_text(encoding="utf-8"))
            self.title: str = plan["title"]
            self.engine: str = plan["engine"]
            self.schema: int = plan["schema"]
            self.overrides: tuple[str, ...] = tuple(plan["overrides"])
            self.planned: tuple[dict[str, Any], ...] = tuple(
                {"id": str(run["id"]), "seed": int(run["seed"]), "cell": dict(run["cell"])}
                for run in plan["runs"]
            )
        except (FileNotFoundError, NotADirectoryError):
            what = "it is a file" if self.path.is_file() else "it has no plan.json"
            what = what if self.path.exists() else "there is no such directory"
            raise StoreError(f"{self.path} is not a store: {what}") from None
        except (KeyError, TypeError, ValueError):
            raise StoreError(f"{plan_file} cannot be read: it is not the plan of a store") from None
        except OSError as error:
            raise StoreError(f"{plan_file} cannot be read: {error.strerror}") from None
        if self.schema > SCHEMA:
            raise StoreError(
                f"{self.path} was made by engine {self.engine}, schema {self.schema}, expected schema {SCHEMA} "
                "or older: a newer bentpipe reads it"
            )

    @property
    def scenario(self) -> str:
        """The scenario's text. Raises StoreError when it cannot be read."""
        try:
            return (self.path / "scenario.toml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise StoreError(f"{self.path}: its scenario.toml is missing or cannot be read") from None

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the sweep, in its order."""
        return tuple(dict.fromkeys(key for run in self.planned for key in run["cell"]))

    def finished(self) -> list[dict[str, Any]]:
        """Planned runs that are in the store, in the plan's order."""
        return [run for run in self.planned if (self.path / "runs" / run["id"]).is_dir()]

    @property
    def runs(self) -> pl.DataFrame:
        """One row per finished run: ``run``, ``seed``, and the sweep's keys as text."""
        import polars as pl

        rows = self.finished()
        data: dict[str, list[Any]] = {"run": [r["id"] for r in rows], "seed": [r["seed"] for r in rows]}
        for key in self.keys:
            data[key] = [_text(r["cell"].get(key)) for r in rows]
        return pl.DataFrame(
            data, schema={"run": pl.String, "seed": pl.Int64, **dict.fromkeys(self.keys, pl.String)}
        )

    def table(self, name: str) -> pl.DataFrame:
        """Table ``name`` of all finished runs, in the plan's order.

        Raises:
            StoreError: no such table, or no finished run.
        """
        import polars as pl

        if name == "runs":
            return self.runs
        if name not in TABLES:
            raise StoreError(f"no table {name!r}, expected one of: runs, {', '.join(TABLES)}")
        frames = []
        for row in self.runs.iter_rows(named=True):
            file = self.path / "runs" / row["run"] / f"{name}.parquet"
            if file.is_file():
                rows = pl.scan_parquet(file)
                with readable(self.path, name):
                    there = rows.collect_schema().names()
                called = headings({column(key): key for key in self.keys}, there)
                cell = [
                    pl.lit(value, dtype=pl.Int64 if key == "seed" else pl.String).alias(
                        called.get(column(key), key)
                    )
                    for key, value in row.items()
                ]
                frames.append(rows.select(*cell, pl.all()))
        if not frames:
            raise NoTableError(f"{self.path}: no finished run has a table {name!r}")
        with readable(self.path, name):
            return pl.concat(frames, how="diagonal_relaxed").collect()

    def __getattr__(self, name: str) -> pl.DataFrame:
        """A table by its name."""
        if name in TABLES:
            return self.table(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """Tables too, for completion."""
        return [*super().__dir__(), *TABLES]

    def files(self, suffix: str) -> list[Path]:
        """Traces whose name ends in ``suffix``, in the plan's order."""
        return [
            file
            for run in self.finished()
            for file in sorted((self.path / "runs" / run["id"]).glob(f"*{suffix}"))
        ]

    def connect(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with one view a table, each joined with the run's id, seed and cell.

        Raises:
            StoreError: no finished run.
        """
        import duckdb

        connection = duckdb.connect(":memory:")
        names = unlike(["run", "seed", *self.keys])
        kinds = ["VARCHAR", "BIGINT", *("VARCHAR" for _ in self.keys)]
        columns = [f"{_quoted(name)} {kind}" for name, kind in zip(names, kinds, strict=True)]
        connection.execute("CREATE TABLE runs (" + ", ".join(columns) + ")")
        rows = [list(row) for row in self.runs.iter_rows()]
        if not rows:
            raise StoreError(f"{self.path}: no run has finished")
        connection.executemany("INSERT INTO runs SELECT " + ", ".join("?" * len(columns)), rows)
        for name in TABLES:
            paths = (self.path / "runs" / row[0] / f"{name}.parquet" for row in rows)
            files = [str(path.resolve()) for path in paths if path.is_file()]
            if not files:
                continue
            listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
            with readable(self.path, name):
                connection.execute(
                    f"CREATE VIEW {name} AS SELECT runs.*, t.* EXCLUDE (filename) "  # noqa: S608 - names are ours
                    f"FROM read_parquet([{listed}], filename=true, union_by_name=true) t "
                    "JOIN runs ON runs.run = parse_path(t.filename)[-2]"
                )
        return connection


@contextmanager
def readable(store: Path, table: str) -> Iterator[None]:
    """Turns what Polars and DuckDB say of a damaged file into a StoreError that names it."""
    import duckdb
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, duckdb.Error) as error:
        for file in sorted((store / "runs").glob(f"*/{table}.parquet")):
            try:
                pl.read_parquet(file)
            except (pl.exceptions.PolarsError, OSError):
                raise StoreError(
                    f"{file} is damaged; remove {file.parent} and run the scenario again, which makes just this run"
                ) from error
        raise StoreError(f"{store}: table {table} cannot be read: {error}") from error


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def unlike(names: Sequence[str]) -> list[str]:
    """Names of columns, with a number behind those that are there already, for SQL: in other letters too."""
    found: dict[str, str] = {}
    for name in names:
        count = itertools.count(2)
        fresh = name
        while fresh.casefold() in found:
            fresh = f"{name}_{next(count)}"
        found[fresh.casefold()] = fresh
    return list(found.values())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
        self._journal: IO[str] | None = None
        planned = _rows(plan.runs)
        if path.exists():
            planned = _check_same(path, plan, planned)
        self.store_rows = planned

    def __enter__(self) -> Self:
        """Takes hold of the directory."""
        with _disk(self.path, self):
            runs = self.path / "runs"
            try:
                runs.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                if error.errno in _FULL:
                    raise
                what = f"{self.path} cannot be made: {error.strerror}; choose another directory with --out"
                raise StoreError(what) from None
            self._journal = (self.path / "journal.jsonl").open("a", encoding="utf-8")
            try:
                fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._journal.close()
                raise StoreError(f"{self.path}: another bentpipe is writing to this store") from None
            for left in self.path.glob(".part-*"):
                shutil.rmtree(left, ignore_errors=True)
            write_whole(self.path / "scenario.toml", _verbatim(self.plan).encode())
            write_whole(self.path / "plan.json", _plan_json(self.plan, self.store_rows).encode())
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the directory."""
        if self._journal is not None:
            self._journal.close()

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those of ``runs`` that are not in the store yet."""
        return [run for run in runs if not (self.path / "runs" / run.id).is_dir()]

    def count(self) -> int:
        """Finished runs of the plan."""
        return sum((self.path / "runs" / row["id"]).is_dir() for row in self.store_rows)

    def add(self, run: Run, data: bytes | Measurements) -> dict[str, int]:
        """Writes one run's measurements, whole or not at all.

        Returns:
            What the journal may say of it: packets and events.

        Raises:
            DiskError: the disk is full or refuses.
            bentpipe.results.DecodeError: the bytes are not an engine's.
        """
        found = data if isinstance(data, Measurements) else decode(data)
        files = {f"{name}.parquet": parquet(frame) for name, frame in found.tables.items()}
        files |= found.files
        files["spec.json"] = run.spec_json().encode() + b"\n"
        part = self.path / f".part-{run.id}"
        with _disk(self.path, self):
            try:
                part.mkdir()
                for name, content in files.items():
                    (part / name).write_bytes(content)
                _sync_all([*(part / name for name in files), part])
                part.rename(self.path / "runs" / run.id)
                _sync(self.path / "runs")
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
        return {"packets": found.packets, "events": found.events}

    def note(self, entry: Mapping[str, object]) -> None:
        """Appends a line to the journal; a full disk loses the line, not the runs."""
        if self._journal is None:
            return
        try:
            self._journal.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self._journal.flush()
        except OSError:
            return


def _rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    return [{"id": run.id, "seed": run.seed, "cell": dict(run.cell)} for run in runs]


def _plan_json(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> str:
    head = {
        "schema": SCHEMA,
        "title": plan.title,
        "engine": plan.engine,
        "overrides": list(plan.document.overrides),
    }
    listed = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return json.dumps(head, ensure_ascii=False)[:-1] + f', "runs": [\n  {listed}\n]}}\n'


def _check_same(path: Path, plan: Plan, planned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs of the store and of the plan together, if both come of the same scenario."""
    if not path.is_dir():
        raise StoreError(f"{path} is a file, expected a directory for the store")
    if not (path / "plan.json").exists():
        if any(entry.name != "journal.jsonl" and entry.name != "runs" for entry in path.iterdir()):
            raise StoreError(f"{path} is not empty and not a store; choose another directory with --out")
        return planned
    store = Store(path)
    other = f"choose another directory with --out, or remove {path}"
    if store.schema != SCHEMA or store.engine != plan.engine:
        raise StoreError(
            f"{path} was made by engine {store.engine}, schema {store.schema}; this is engine {plan.engine}, "
            f"schema {SCHEMA}, which does not resume it; {other}"
        )
    if store.scenario != _verbatim(plan):
        raise StoreError(f'{path} holds the runs of another scenario, "{store.title}"; {other}')
    if store.overrides != tuple(plan.document.overrides):
        said = ", ".join(store.overrides) or "none"
        raise StoreError(f"{path} was made with other settings of --set ({said}); {other}")
    # What the scenario's text and --set do not say is in the id alone: options of browse, traces, controllers.
    wanted = {_place(row): row["id"] for row in planned}
    stale = [row for row in store.planned if wanted.get(_place(row), row["id"]) != row["id"]]
    for row in stale:
        if (path / "runs" / row["id"]).is_dir():
            raise StoreError(
                f"{path} holds run {row['id']}, of a cell and seed that are asked for again with other options, or "
                f"with other contents of a trace, page or controller; {other}"
            )
    kept = [row for row in store.planned if row not in stale]
    known = {row["id"] for row in kept}
    return [*kept, *(row for row in planned if row["id"] not in known)]


def _place(row: Mapping[str, Any]) -> str:
    """Cell and seed of a planned run."""
    return json.dumps([row["seed"], row["cell"]], sort_keys=True)


def _verbatim(plan: Plan) -> str:
    """The scenario's text; one that was given as a table is written as TOML."""
    document = plan.document
    if not document.text.startswith("{"):
        return document.text
    from bentpipe.tomltext import dumps

    return dumps(document.data)


_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def _disk(path: Path, writer: Writer) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        what = "the disk is full" if full else str(error.strerror or error)
        kept = writer.count() if (path / "runs").is_dir() else 0
        if not kept:
            raise DiskError(f"{path}: {what}") from error
        runs = "1 finished run is" if kept == 1 else f"{kept} finished runs are"
        raise DiskError(f"{path}: {what}; {runs} kept, and the same command goes on from there") from error


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    target = path.with_name(f".new-{path.name}")
    try:
        target.write_bytes(data)
        _sync(target)
        target.rename(path)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _sync_all(paths: Sequence[Path]) -> None:
    """Synchronises all, at once: a disk writes its journal for several in one go."""
    with ThreadPoolExecutor(max_workers=len(paths)) as pool:
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
