"""How results show themselves in a notebook: a small table and the key figure.

The figure is drawn as SVG by vl-convert, so it needs neither JavaScript nor a network and survives in a saved
notebook and on pages that only render it.
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

MOST_ROWS = 12
"""Rows of the table; the rest is counted."""

KEY_FIGURES = ("page-load-time", "completion", "goodput-against", "friendliness", "goodput")
"""The first of these that the store has something for is shown."""


def html(store: Store | Path | str) -> str:
    """A fragment of HTML about a store: title, sentence, page loads, goodput, key figure. Raises StoreError."""
    reading = open_store(store)
    material = FigureContext(reading)
    loads = page_load_tables.tables(material) if material.pages.height else ()
    return rendered(
        "report/notebook.html", title=reading.title, lead=summary(material),
        tables=[one for one in (*loads, _goodput(material)) if one is not None], figure=_figure(material),
    )  # fmt: skip


def without_runs(title: str, why: str) -> str:
    """The same of a store that has nothing to show."""
    return rendered("report/notebook.html", title=title, lead=why, tables=(), figure=None)


def _figure(material: FigureContext) -> str | None:
    for key in KEY_FIGURES:
        figure = FIGURES[key](material)
        if figure is not None:
            with TemporaryDirectory() as folder:
                return figure.write(Path(folder) / "figure.svg").read_text(encoding="utf-8")
    return None


def _goodput(material: FigureContext) -> HtmlTable:
    """A table of the first cells."""
    keys = list(material.store.columns)
    wanted = [METRICS[name] for name in ("goodput_bit_s", "jain", "retransmission_ratio")]
    heads = [Heading(material.title(dim), text=True) for dim in material.dims]
    heads += [Heading("flow", text=True), *(Heading(metric.title, metric.unit) for metric in wanted)]
    by = [*keys, "flow", "direction"]
    shown, more = first_groups(material.cells, by, MOST_ROWS)
    rows = []
    for group in shown.partition_by(by, maintain_order=True):
        first = group.row(0, named=True)
        means: dict[str, Any] = dict(zip(group["metric"].to_list(), group["mean"].to_list(), strict=True))
        cells = [dim.word(first[dim.key]) for dim in material.dims]
        cells.append(material.flow_names[f"{first['flow']} {first['direction']}"])
        cells += [format_significant(means[m.name] * m.scale) if m.name in means else "–" for m in wanted]
        rows.append(TabularRow(cells))
    return HtmlTable(heads, rows, more)
