"""Export of a store: tables as CSV, Parquet and JSON, spreadsheets, and traces of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.store.reader import Store

__all__ = ["FORMATS", "Format", "export", "place_of"]

Format = Literal["csv", "parquet", "json", "ods", "qlog", "pcapng"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export(store: Store, form: Format, out: Path | None = None, template: Path | None = None) -> list[Path]:
    """Write ``store`` in a format; return the files.

    Args:
        store: store to export.
        form: format; each table becomes one file (``flows.csv``...) with run, seed and cell as columns, and so do the
            metrics: of each run (``metrics.csv``), over seeds (``cells.csv``), of each user (``user_metrics.csv``).
            ``ods`` is one file.
        out: directory, or file of ``ods``; None: :func:`place_of`.
        template: ODS file to fill.

    Raises:
        StoreError: the store has no finished run or no traces.
    """
    target = out or place_of(store, form)
    if form == "ods":
        from bentpipe.report.ods import write_ods

        write_ods(store.path, target, template)
        return [target]
    from bentpipe.store.export import tables, traces

    if form in ("qlog", "pcapng"):
        return traces(store, form, target)
    from bentpipe.metrics.computed_tables import computed_tables

    return tables(store, form, target, computed_tables(store))


def place_of(store: Store, form: Format) -> Path:
    """Return the default output path of a format: beside the store, relative if the store's path is."""
    place = store.path
    if place.name in ("", ".."):
        place = place / ".." / place.resolve().name
    return place.with_name(f"{place.name}.ods" if form == "ods" else f"{place.name}-{form}")
