"""A store in other formats: CSV, Parquet and JSON by table, spreadsheets, and the traces the engine wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.store.reader import Store

__all__ = ["FORMATS", "Format", "export", "place_of"]

Format = Literal["csv", "parquet", "json", "ods", "qlog", "pcapng"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export(store: Store, form: Format, out: Path | None = None, template: Path | None = None) -> list[Path]:
    """Writes ``store`` as ``form``; returns the files.

    Tables become one file each (``flows.csv``...) in the directory ``out``, with run, seed and cell as columns;
    ``ods`` is one file. Without ``out`` they are beside the store, under its name and the format.

    Raises:
        StoreError: no finished run, or no traces in the store.
    """
    target = out or place_of(store, form)
    if form == "ods":
        from bentpipe.report.ods import write_ods

        write_ods(store.path, target, template)
        return [target]
    from bentpipe.store.export import tables, traces

    return traces(store, form, target) if form in ("qlog", "pcapng") else tables(store, form, target)


def place_of(store: Store, form: Format) -> Path:
    """Where ``form`` of a store is written if nothing else is said: beside it, in the words in which it was given."""
    place = store.path
    if place.name in ("", ".."):
        place = place / ".." / place.resolve().name
    return place.with_name(f"{place.name}.ods" if form == "ods" else f"{place.name}-{form}")
