"""Output of results in a notebook: a small table and the key figure.

vl-convert draws the figure as SVG. It needs neither JavaScript nor a network, so saved notebooks and their renderings
keep it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.report import page_load_tables
from bentpipe.report.html_table import Heading, HtmlTable, TabularRow, first_groups
from bentpipe.report.page import rendered
from bentpipe.report.store_page import summary
from bentpipe.store.reader import Store, open_store

MAX_ROWS = 12
"""Largest number of rows of the table; the others are counted."""

KEY_FIGURES = ("page-load-time", "completion-time", "goodput-by-parameter", "goodput-shares", "goodput")
"""Candidates for the key figure; the first with data in the store is used."""


def html(store: Store | Path | str) -> str:
    """Return an HTML fragment about a store: title, summary, page loads, goodput, key figure.

    Raises:
        StoreError: ``store`` is not a store, or has no finished run.
    """
    reading = open_store(store)
    context = FigureContext(reading)
    loads = page_load_tables.tables(context) if context.pages.height else ()
    return rendered(
        "report/notebook.html", title=reading.title, lead=summary(context),
        tables=[table for table in (*loads, _goodput(context)) if table is not None], figure=_figure(context),
    )  # fmt: skip


def without_runs(title: str, why: str) -> str:
    """Return an HTML fragment about a store without finished runs."""
    return rendered("report/notebook.html", title=title, lead=why, tables=(), figure=None)


def _figure(context: FigureContext) -> str | None:
    for key in KEY_FIGURES:
        figure = FIGURES[key](context)
        if figure is not None:
            with TemporaryDirectory() as folder:
                return figure.write(Path(folder) / "figure.svg").read_text(encoding="utf-8")
    return None


def _goodput(context: FigureContext) -> HtmlTable:
    """Return the table of the first cells."""
    keys = list(context.store.columns)
    wanted = [METRICS[name] for name in ("goodput_bit_s", "jain", "retransmission_ratio")]
    heads = [Heading(context.title(dim), text=True) for dim in context.dims]
    heads += [Heading("flow", text=True), *(Heading(metric.title, metric.unit) for metric in wanted)]
    by = [*keys, "flow", "direction"]
    shown, more = first_groups(context.cells, by, MAX_ROWS)
    rows = []
    for group in shown.partition_by(by, maintain_order=True):
        first = group.row(0, named=True)
        means: dict[str, Any] = dict(zip(group["metric"].to_list(), group["mean"].to_list(), strict=True))
        cells = [dim.value_label(first[dim.key]) for dim in context.dims]
        cells.append(context.flow_names[f"{first['flow']} {first['direction']}"])
        cells += [format_significant(means[m.name] * m.scale) if m.name in means else "–" for m in wanted]
        rows.append(TabularRow(cells))
    return HtmlTable(heads, rows, more)
