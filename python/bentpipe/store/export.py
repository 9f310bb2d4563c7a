"""Copies of a store's files for other programs: tables as CSV, JSON or Parquet, and the traces the engine wrote."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from bentpipe.store.codec import TABLES
from bentpipe.store.files import NoTableError, StoreError, written_whole

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from bentpipe.plan.spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["tables", "traces"]


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
        except NoTableError:
            continue  # no run of this scenario has that table
        path = target / f"{name}.{form}"
        with written_whole(path) as part:
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


def traces(store: Store, form: str, target: Path) -> list[Path]:
    """Copies the traces of ``form`` (qlog, pcapng) into ``target``, each named after its run, its flow, that side's
    controller and the side. Raises StoreError where there are none."""
    found = store.files(f".{form}") if form == "pcapng" else [*store.files(".qlog"), *store.files(".sqlog")]
    if not found:
        raise StoreError(
            f"{store.path} holds no {form} traces: run the scenario with [trace] {form} = true "
            f"(or --set trace.{form}=true) into a new store"
        )
    target.mkdir(parents=True, exist_ok=True)
    specs = store.specs(sorted({file.parent.name for file in found}))
    written = []
    for file in found:
        run = file.parent.name
        copy = target / f"{run}.{_with_controller(file.name, specs[run])}"
        with written_whole(copy) as part:
            shutil.copyfile(file, part)
        written.append(copy)
    return written


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
