"""A store in other formats: CSV, Parquet and JSON by table, spreadsheets, and the traces the engine wrote."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Literal

from bentpipe.store.codec import TABLES
from bentpipe.store.files import NoTableError, StoreError, written_whole
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

__all__ = ["FORMATS", "export"]

Format = Literal["csv", "parquet", "json", "ods", "qlog", "pcapng"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "json", "ods", "qlog", "pcapng")


def export(store: Store, form: Format, out: Path | None = None, template: Path | None = None) -> list[Path]:
    """Writes ``store`` as ``form``; returns the files.

    Tables become one file each (``flows.csv``...) in the directory ``out``, with run, seed and cell as columns;
    ``ods`` is one file. Without ``out`` they are beside the store, under its name and the format.

    Raises:
        StoreError: no finished run, or no traces in the store.
    """
    place = store.path.resolve()
    if form == "ods":
        from bentpipe.report.ods import write_ods

        target = out or place.with_name(f"{place.name}.ods")
        write_ods(store.path, target, template)
        return [target]
    target = out or place.with_name(f"{place.name}-{form}")
    if form in ("qlog", "pcapng"):
        return _traces(store, form, target)
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


def _write(frame: pl.DataFrame, form: Format, part: Path) -> None:
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


def _traces(store: Store, form: str, target: Path) -> list[Path]:
    found = store.files(f".{form}") if form == "pcapng" else [*store.files(".qlog"), *store.files(".sqlog")]
    if not found:
        raise StoreError(
            f"{store.path} holds no {form} traces: run the scenario with [trace] {form} = true "
            f"(or --set trace.{form}=true) into a new store"
        )
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for file in found:
        copy = target / f"{file.parent.name}.{file.name}"
        with written_whole(copy) as part:
            shutil.copyfile(file, part)
        written.append(copy)
    return written
