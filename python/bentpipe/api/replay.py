"""A run of a store again, with its packets: from what it resolved to, without its scenario and the files of that."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Literal, NoReturn, cast

from bentpipe.plan.cost.estimate import BYTES_TRACED
from bentpipe.plan.plan import Run
from bentpipe.plan.randomness import controllers
from bentpipe.runners import engine
from bentpipe.runners.local import LocalRunner
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantities import nearest
from bentpipe.store.codec import RunFiles
from bentpipe.store.files import StoreError
from bentpipe.store.journal import real_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["NotTheSameError", "again"]


class NotTheSameError(RuntimeError):
    """A run that was made again measured something else."""


def again(
    store: Store, run: str, form: Literal["qlog", "pcapng"], places: Mapping[str, str] | None = None
) -> tuple[RunSpec, dict[str, bytes]]:
    """What ``run`` of ``store`` resolved to, and the files of that run and of its traces of ``form``, made again.

    ``places`` are the import paths of controllers of one's own, by name. The store stays as it is.

    Raises:
        ScenarioError: no such run; one in real time, which comes but once; one whose controllers or memory are missing.
        StoreError: the store is damaged.
        NotTheSameError: another engine, or another controller of that name; or the run failed.
    """
    kept = store.load_index()
    if run not in kept.folders:
        near = nearest(run, kept.folders)
        hint = f'; did you mean "{near}"?' if near else ""
        _refuse(f"no finished run {run} in {store.path}, whose view runs has their ids{hint}")
    spec = store.specs([run])[run]
    if "browser" in spec or any(entry["run"] == run for entry in real_time(store.path)):
        _refuse(f"run {run} was made in real time, which does not come again; expected one in virtual time")
    known = {name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])}
    own = sorted(controllers(spec) - known - set(places or ()))
    if own:
        _refuse(f"run {run} has a controller of a file; expected --controller {own[0]}=FILE.py:CLASS too")
    _check_memory(store, run, form)
    traced = cast("RunSpec", {**spec, "trace": {**spec.get("trace", {}), form: True}})
    cell = next(row for row in store.planned if row["id"] == run)["cell"]
    (outcome,) = LocalRunner(1, places).run([Run(run, cell, spec["seed"], traced)])
    if not isinstance(outcome.data, RunFiles):
        raise NotTheSameError(f"run {run} failed: {outcome.error}")
    for name, content in stored(store, run).items():
        if not _same(content, outcome.data.files.get(name)):
            raise NotTheSameError(
                f"run {run} is another one now, from its table {name.removesuffix('.parquet')} on: "
                f"the store is of engine {store.engine}, this is {engine.version()}, or a controller has changed"
            )
    return spec, dict(outcome.data.files)


def stored(store: Store, run: str) -> dict[str, bytes]:
    """The tables of a finished run as its store has them, by file name, small ones first. Raises StoreError."""
    import polars as pl

    from bentpipe.store.pack import extract_runs

    kept = store.load_index()
    folder = kept.folders[run]
    tables = sorted(name for name in folder.files if name.endswith(".parquet"))
    kept.check((folder, name) for name in tables)
    place = store.path / folder.name
    try:
        if folder.packed is None:
            found = {name: (place / name).read_bytes() for name in tables}
        else:
            found = dict(next(extract_runs(place, tables, [run]))[1])
    except OSError as error:
        raise StoreError(f"{place} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"{place} cannot be read: {error}") from None
    return {name: content for name, content in found.items() if name.endswith(".parquet")}


def _same(content: bytes, made: bytes | None) -> bool:
    """Whether two files have the same rows; another version of Polars writes them in other bytes."""
    import polars as pl

    if made is None or content == made:
        return made is not None
    return pl.read_parquet(io.BytesIO(content)).equals(pl.read_parquet(io.BytesIO(made)))


def _check_memory(store: Store, run: str, form: str) -> None:
    rows = store.rows("summary", ["sent_packets"], [run])
    packets = int(rows["sent_packets"].sum()) if rows.width > 1 else 0
    needed = packets * BYTES_TRACED[form]
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > here:
        _refuse(
            f"run {run} has {packets:,} packets, whose {form} takes {needed / 1e9:,.1f} GB of memory, and there are "
            f"{here / 1e9:,.1f} GB; expected a shorter run"
        )


def _refuse(text: str) -> NoReturn:
    raise ScenarioError([("run", text)], SOURCE_ARGUMENT)
