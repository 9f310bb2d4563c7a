"""Replay of a run of a store with its packets, from its resolved run; scenario and input files are not needed."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Literal, NoReturn, cast

from bentpipe.plan.flow.controllers import LOCATION
from bentpipe.plan.plan import Run, RunLimits
from bentpipe.plan.randomness import controllers
from bentpipe.runners import engine
from bentpipe.runners.local import LocalRunner
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantity_text import nearest
from bentpipe.store.codec import RunFiles
from bentpipe.store.files import StoreError
from bentpipe.store.journal import real_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["ReplayMismatchError", "replay_run"]


class ReplayMismatchError(RuntimeError):
    """Difference between the measurements of a run and of its replay."""


def replay_run(
    store: Store, run: str, form: Literal["qlog", "pcapng"], import_paths: Mapping[str, str] | None = None
) -> tuple[RunSpec, dict[str, bytes]]:
    """Replay a run of a store with packet traces. The store does not change.

    Args:
        store: the store.
        run: the id of the run.
        form: the format of the traces.
        import_paths: ``module:Class`` of user-supplied controllers, by name.

    Returns:
        The resolved run, and the files of the run with its traces, by name.

    Raises:
        ScenarioError: no such run, a run in real time, or a missing controller.
        StoreError: the store is damaged.
        ReplayMismatchError: different measurements (another engine or controller), or a failed run (too
            little memory included).
    """
    index = store.load_index()
    if run not in index.folders:
        near = nearest(run, index.folders)
        hint = f'; did you mean "{near}"?' if near else ""
        _reject(f"no finished run {run} in {store.path} (ids are in the view runs){hint}")
    spec = store.specs([run])[run]
    if "browser" in spec or any(entry["run"] == run for entry in real_time(store.path)):
        _reject(f"run {run} was run in emulation and cannot be replayed; expected a simulated run")
    known = {name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])}
    missing = sorted(controllers(spec) - known - set(import_paths or ()))
    if missing:
        location = "" if LOCATION.fullmatch(missing[0]) else "=FILE.py:CLASS"
        _reject(
            f"run {run} has a user-supplied controller; expected also --controller {missing[0]}{location}"
        )
    traced = cast("RunSpec", {**spec, "trace": {**spec.get("trace", {}), form: True}})
    cell = next(row for row in store.planned if row["id"] == run)["cell"]
    (outcome,) = LocalRunner(1, import_paths).run([Run(run, cell, spec["seed"], traced, _limits())])
    if not isinstance(outcome.data, RunFiles):
        raise ReplayMismatchError(f"run {run} failed: {outcome.error}")
    for name, content in read_stored_tables(store, run).items():
        if not _have_equal_rows(content, outcome.data.files.get(name)):
            raise ReplayMismatchError(
                f"run {run} has different measurements, from its table {name.removesuffix('.parquet')} on: "
                f"the store is of engine {store.engine}, this is {engine.version()}, or a controller has changed"
            )
    return spec, dict(outcome.data.files)


def read_stored_tables(store: Store, run: str) -> dict[str, bytes]:
    """Return the stored tables of a finished run by file name. Raises StoreError."""
    import polars as pl

    from bentpipe.store.pack import extract_runs

    index = store.load_index()
    directory = index.folders[run]
    tables = sorted(name for name in directory.files if name.endswith(".parquet"))
    index.check((directory, name) for name in tables)
    path = store.path / directory.name
    try:
        if directory.packed is None:
            contents = {name: (path / name).read_bytes() for name in tables}
        else:
            contents = dict(next(extract_runs(path, tables, [run]))[1])
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from None
    return {name: content for name, content in contents.items() if name.endswith(".parquet")}


def _have_equal_rows(content: bytes, replayed: bytes | None) -> bool:
    """Return whether two files have the same rows. Their bytes depend on the version of Polars."""
    import polars as pl

    if replayed is None or content == replayed:
        return replayed is not None
    return pl.read_parquet(io.BytesIO(content)).equals(pl.read_parquet(io.BytesIO(replayed)))


def _limits() -> RunLimits:
    """Return the limits of a replay: no limit of events, and three quarters of the memory of the host."""
    host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return RunLimits(2**63, host_bytes // 4 * 3)


def _reject(text: str) -> NoReturn:
    raise ScenarioError([("run", text)], SOURCE_ARGUMENT)
