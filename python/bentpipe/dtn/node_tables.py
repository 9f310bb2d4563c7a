"""Rows of a node on real sockets, as the tables of bundle nodes in simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.plan.spec.result_columns import OPTIONAL_COLUMNS
from bentpipe.store.schema import table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["TABLES", "Tables"]

TABLES = ("bundles", "bundle_routes", "bundle_status_reports", "bundle_store")
"""Tables of docs/reference/results.md, with their columns."""


class Tables:
    """Rows by table, until they are written."""

    def __init__(self, folder: Path) -> None:
        """Create tables; ``folder`` gets a CSV file for each."""
        self._folder = folder
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    def take(self, row: Mapping[str, Any]) -> None:
        """Process a row of the node."""
        name = str(row.get("table", "bundles" if "event" in row else ""))
        if name in self._rows:
            self._rows[name].append(
                {key: value for key, value in row.items() if key in OPTIONAL_COLUMNS[name]}
            )

    def write(self) -> None:
        """Write all tables, empty ones too."""
        for name, rows in self._rows.items():
            table(name, rows).write_csv(self._folder / f"{name}.csv")
