"""Copies of a store's files for other programs: tables as CSV, JSON or Parquet, and the traces the engine wrote."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from bentpipe.store.codec import TABLES
from bentpipe.store.files import MissingTableError, StoreError, atomic_file, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["SUFFIXES", "tables", "traces", "write_traces"]


def tables(store: Store, form: str, target: Path) -> list[Path]:
    """Writes each table of all finished runs as ``form`` (csv, json, parquet) into ``target``; returns the files.

    Raises StoreError where no run has finished.
    """
    if not store.finished():
        raise StoreError(f"{store.path}: no run has finished")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("runs", *TABLES):
        try:
            frame = store.table(name)
        except MissingTableError:
            continue  # no run of this scenario has that table
        path = target / f"{name}.{form}"
        with atomic_file(path) as part:
            _write(frame, form, part)
        written.append(path)
    return written


def _write(frame: pl.DataFrame, form: str, part: Path) -> None:
    """Raises OSError, as everything does that writes to a disk; of Parquet, Polars says it in a way of its own."""
    import polars as pl

    try:
        if form == "csv":
            frame.write_csv(part)
        elif form == "json":
            # not by Polars: on a full disk it loses the end of the file without a word
            part.write_text(frame.write_json(), encoding="utf-8")
        else:
            frame.write_parquet(part, compression="zstd")
    except pl.exceptions.ComputeError as error:
        raise OSError(str(error)) from error


def traces(store: Store, form: str, target: Path, run: str | None = None) -> list[Path]:
    """Copies the traces of ``form`` (qlog, pcapng), or those of ``run`` alone, into ``target``, each named after its
    run, its flow, that side's controller and the side. Raises StoreError where there are none."""
    found = [file for suffix in SUFFIXES[form] for file in store.files(suffix)]
    if run is not None:
        found = [file for file in found if file.parent.name == run]
    if not found:
        raise StoreError(
            f"{store.path} holds no {form} traces: `bentpipe export --run ID` makes a run again with them, "
            f"or run the scenario with [trace] {form} = true (or --set trace.{form}=true) into a new store"
        )
    target.mkdir(parents=True, exist_ok=True)
    specs = store.specs(sorted({file.parent.name for file in found}))
    written = []
    for file in found:
        copy = target / _trace_name(file.parent.name, file.name, specs[file.parent.name])
        with atomic_file(copy) as part:
            shutil.copyfile(file, part)
        written.append(copy)
    return written


SUFFIXES = {"qlog": (".qlog", ".sqlog"), "pcapng": (".pcapng",)}
"""What files of traces end in; a real server's qlog is a sequence of records."""


def write_traces(run: str, spec: RunSpec, files: Mapping[str, bytes], form: str, target: Path) -> list[Path]:
    """Writes those of a run's ``files`` that are traces of ``form`` into ``target``, named as :func:`traces` has it.

    Raises StoreError where there are none.
    """
    found = {name: content for name, content in files.items() if name.endswith(SUFFIXES[form])}
    if not found:
        raise StoreError(f"run {run} has no {form}: none of its flows has packets that such a trace can show")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, content in found.items():
        written.append(target / _trace_name(run, name, spec))
        write_atomic(written[-1], content)
    return written


def _trace_name(run: str, name: str, spec: RunSpec) -> str:
    """What the trace ``name`` of ``run`` is called beside those of other runs."""
    return f"{run}.{_with_controller(name, spec)}"


def _with_controller(name: str, spec: RunSpec) -> str:
    """``FLOW.SIDE.FORM`` as ``FLOW.CONTROLLER.SIDE.FORM``; other names as they are, such as a browser's."""
    for flow in spec["flows"]:
        for side, congestion in (
            ("client", flow["client_congestion"]),
            ("server", flow["server_congestion"]),
        ):
            start = f"{flow['name']}.{side}."
            if name.startswith(start):
                return f"{flow['name']}.{congestion['name']}.{side}.{name.removeprefix(start)}"
    return name
