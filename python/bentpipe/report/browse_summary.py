"""Summary of page loads at the end of ``bentpipe browse``: medians with intervals."""

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
    """Return one row for each cell, load and variant: negotiated protocol, median TTR and PLT with intervals.

    Raises:
        bentpipe.StoreError: no session has finished.
    """
    from bentpipe.figures.context import FigureContext
    from bentpipe.figures.page_load_samples import PageLoads
    from bentpipe.store.reader import open_store

    page_loads = PageLoads(FigureContext(open_store(store)))
    ttr_s, plt_s = METRICS["ttr_s"].heading, METRICS["plt_s"].heading
    fixed = [page_loads.variant_title, "load", "negotiated protocol", "sessions", ttr_s, plt_s]
    headings = column_headings({dim.key: dim.title for dim in page_loads.cell_dims}, fixed)
    table = []
    for plt, ttr in zip(page_loads.samples("plt_s"), page_loads.samples("ttr_s"), strict=True):
        row: dict[str, Any] = {headings[dim.key]: plt.cell[dim.key] for dim in page_loads.cell_dims}
        row |= {
            page_loads.variant_title: plt.variant,
            "load": plt.load,
            "negotiated protocol": ", ".join(plt.protocols) or None,
        }
        row |= {"sessions": plt.loads, ttr_s: _format_median(ttr.values), plt_s: _format_median(plt.values)}
        table.append(row)
    return table


def _format_median(values: Sequence[float]) -> str | None:
    """Format the median, with its 95 % interval if there are at least 6 values."""
    if not values:
        return None
    return format_interval(median_ci(values))
