"""What a store of page loads says at the end of ``bentpipe browse``: medians with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import format_interval
from bentpipe.metrics.intervals import median_ci
from bentpipe.metrics.registry import METRICS
from bentpipe.scenario.sweep_columns import column_headings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["rows"]


def rows(store: Path) -> list[dict[str, Any]]:
    """One row a cell, load and version of HTTP: what the document came by, TTR and PLT with the median's interval.

    Raises:
        bentpipe.StoreError: no unit has finished.
    """
    from bentpipe.figures.context import FigureContext
    from bentpipe.figures.page_load_samples import PageLoads
    from bentpipe.store.reader import open_store

    found = PageLoads(FigureContext(open_store(store)))
    ttr_s, plt_s = METRICS["ttr_s"].heading, METRICS["plt_s"].heading
    fixed = [found.arm_title, "load", "came by", "units", ttr_s, plt_s]
    called = column_headings({dim.key: dim.title for dim in found.cell_dims}, fixed)
    table = []
    for plt, ttr in zip(found.samples("plt_s"), found.samples("ttr_s"), strict=True):
        row: dict[str, Any] = {called[dim.key]: plt.cell[dim.key] for dim in found.cell_dims}
        row |= {found.arm_title: plt.arm, "load": plt.load, "came by": ", ".join(plt.protocols) or None}
        row |= {"units": plt.loads, ttr_s: _shown(ttr.values), plt_s: _shown(plt.values)}
        table.append(row)
    return table


def _shown(values: Sequence[float]) -> str | None:
    """Median, with its 95 % interval where there are values enough (6)."""
    if not values:
        return None
    return format_interval(median_ci(values))
