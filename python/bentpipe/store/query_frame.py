"""Results of DuckDB as frames of Polars, which pass as Arrow data, without pyarrow."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from bentpipe.store.sql_names import quoted, unique_names

if TYPE_CHECKING:
    import polars as pl

__all__ = ["OPTIONAL_PACKAGES", "require", "to_polars"]

_ARROW = ("pyarrow",)
OPTIONAL_PACKAGES = {
    **dict.fromkeys(("df", "to_df", "fetchdf", "fetch_df", "fetch_df_chunk"), ("pandas",)),
    **dict.fromkeys(
        ("arrow", "fetch_arrow_reader", "fetch_arrow_table", "to_arrow_reader", "to_arrow_table"), _ARROW
    ),
}
"""Packages that methods of DuckDB need."""


def require(*packages: str) -> None:
    """Import optional packages. Raises ImportError with the command that installs all of them."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            command = f"pip install {' '.join(packages)}"
            raise ImportError(
                f"{package} is not installed; install it with: {command}", name=package
            ) from error


_DIRECT_TYPES = frozenset({
    "BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "BLOB",
})  # fmt: skip
"""DuckDB types whose Arrow data Polars reads as they are."""

_NESTED_TYPE = re.compile(r"\[\d*\]$|^STRUCT\(|^MAP\(")
_INDIRECT_TYPES = re.compile(r"INTERVAL|HUGEINT|DECIMAL|BIT|UUID|ENUM|UNION|BIGNUM|VARIANT|TIME WITH")


def to_polars(relation: Any) -> pl.DataFrame:
    """Return a relation of DuckDB as a frame; without columns if a statement has no result.

    DuckDB casts a type that Polars cannot read: decimals to numbers, intervals to microseconds, others to text.
    """
    import polars as pl

    if relation is None:
        return pl.DataFrame()
    names, kinds = unique_names(relation.columns), [str(kind) for kind in relation.types]
    columns = [
        f"{_arrow_column(f'#{position}', kind)} AS {quoted(name)}"
        for position, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)
    ]
    frame = pl.DataFrame(relation.project(", ".join(columns)))
    casts = [
        pl.col(name).cast(pl.Duration("us"))
        for name, kind in zip(names, kinds, strict=True)
        if kind == "INTERVAL"
    ]
    return frame.with_columns(
        *casts,
        *(_integers(frame[name]) for name, kind in zip(names, kinds, strict=True) if kind == "HUGEINT"),
    )


def _arrow_column(column: str, kind: str) -> str:
    """Return the SQL of a column with a type that Polars reads."""
    if kind.startswith("DECIMAL") and not _NESTED_TYPE.search(kind):
        return f"CAST({column} AS DOUBLE)"
    if kind == "INTERVAL":
        return f"epoch_us({column})"
    if (
        kind in _DIRECT_TYPES
        or kind == '"NULL"'
        or (_NESTED_TYPE.search(kind) and not _INDIRECT_TYPES.search(kind))
    ):
        return column
    return f"CAST({column} AS VARCHAR)"


def _integers(texts: pl.Series) -> pl.Series:
    """Return the integers of texts: of 64 bits if they fit. A sum of integers is a HUGEINT and usually fits."""
    import polars as pl

    narrow = texts.cast(pl.Int64, strict=False)
    return narrow if narrow.null_count() == texts.null_count() else texts.cast(pl.Int128)
