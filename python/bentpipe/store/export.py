"""Copies of a store's files for other programs: tables as CSV, JSON or Parquet, and the traces of the engine."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from bentpipe.store.codec import TABLES
from bentpipe.store.files import MissingTableError, StoreError, atomic_file, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import polars as pl

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["SUFFIXES", "tables", "traces", "write_frame", "write_traces"]


def tables(
    store: Store, form: str, target: Path, computed: Mapping[str, Callable[[], pl.DataFrame]] | None = None
) -> list[Path]:
    """Write each table of all finished runs into a directory.

    Args:
        store: store to read.
        form: csv, json or parquet.
        target: directory of the files.
        computed: functions that compute further tables, by name.

    Returns:
        Paths of the files.

    Raises:
        StoreError: no run has finished.
    """
    if not store.finished():
        raise StoreError(f"{store.path}: no run has finished")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("runs", *TABLES):
        try:
            frame = store.table(name)
        except MissingTableError:
            continue  # no run of this scenario has the table
        written.append(write_frame(frame, form, target / f"{name}.{form}"))
    for name, compute in (computed or {}).items():
        if (frame := compute()).height:
            written.append(write_frame(frame, form, target / f"{name}.{form}"))
    return written


def write_frame(frame: pl.DataFrame, form: str, path: Path) -> Path:
    """Write a frame as csv, json or parquet, and return ``path``."""
    with atomic_file(path) as part:
        _write(frame, form, part)
    return path


def _write(frame: pl.DataFrame, form: str, part: Path) -> None:
    """Write a frame; convert the error of Polars on a failed Parquet write into OSError."""
    import polars as pl

    try:
        if form == "csv":
            frame.write_csv(part)
        elif form == "json":
            # not by Polars: on a full disk it truncates the file without an error
            part.write_text(frame.write_json(), encoding="utf-8")
        else:
            frame.write_parquet(part, compression="zstd")
    except pl.exceptions.ComputeError as error:
        raise OSError(str(error)) from error


def traces(store: Store, form: str, target: Path, run: str | None = None) -> list[Path]:
    """Copy traces into a directory; the names have run, flow, controller and side.

    Args:
        store: store to read.
        form: qlog or pcapng.
        target: directory of the copies.
        run: id of the only run to copy; None: all runs.

    Returns:
        Paths of the copies.

    Raises:
        StoreError: no traces of this form.
    """
    sources = [file for suffix in SUFFIXES[form] for file in store.files(suffix)]
    if run is not None:
        sources = [file for file in sources if file.parent.name == run]
    if not sources:
        raise StoreError(
            f"{store.path}: no {form} traces in this store; repeat one run with export --run ID, "
            f"or run the scenario into a new store with --set trace.{form}=true"
        )
    target.mkdir(parents=True, exist_ok=True)
    specs = store.specs(sorted({file.parent.name for file in sources}))
    written = []
    for file in sources:
        copy = target / _trace_name(file.parent.name, file.name, specs[file.parent.name])
        with atomic_file(copy) as part:
            shutil.copyfile(file, part)
        written.append(copy)
    return written


SUFFIXES = {"qlog": (".qlog", ".sqlog"), "pcapng": (".pcapng",)}
"""Suffixes of trace files; the qlog of a real server is a sequence of records."""


def write_traces(run: str, spec: RunSpec, files: Mapping[str, bytes], form: str, target: Path) -> list[Path]:
    """Write the traces of one run into a directory, with names as of :func:`traces`.

    Args:
        run: id of the run.
        spec: specification of the run.
        files: files of the run by name.
        form: qlog or pcapng.
        target: directory of the traces.

    Returns:
        Paths of the traces.

    Raises:
        StoreError: no traces of this form.
    """
    contents = {name: content for name, content in files.items() if name.endswith(SUFFIXES[form])}
    if not contents:
        raise StoreError(f"run {run} has no {form}: none of its flows has packets that such a trace can show")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, content in contents.items():
        written.append(target / _trace_name(run, name, spec))
        write_atomic(written[-1], content)
    return written


def _trace_name(run: str, name: str, spec: RunSpec) -> str:
    """Return the file name of a trace outside its run directory."""
    return f"{run}.{_with_controller(name, spec)}"


def _with_controller(name: str, spec: RunSpec) -> str:
    """Return ``FLOW.SIDE.FORM`` as ``FLOW.CONTROLLER.SIDE.FORM``; other names, such as a browser's, are unchanged."""
    for flow in spec["flows"]:
        for side, congestion in (
            ("client", flow["client_congestion"]),
            ("server", flow["server_congestion"]),
        ):
            prefix = f"{flow['name']}.{side}."
            if name.startswith(prefix):
                controller = re.sub(
                    r"[^\w.+-]+", "_", congestion["name"]
                )  # it may be FILE.py:CLASS in a folder
                return f"{flow['name']}.{controller}.{side}.{name.removeprefix(prefix)}"
    return name
