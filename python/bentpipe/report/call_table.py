"""Calls in a report: what became of their datagrams, and what listeners would say."""

from __future__ import annotations

from bentpipe.figures.context import FigureContext
from bentpipe.metrics.call_quality import aggregate_cells, blocked_calls
from bentpipe.metrics.format import format_cell, mean_of
from bentpipe.metrics.registry import METRICS
from bentpipe.report.html_table import MOST_ROWS, Heading, HtmlTable, TabularCell, TabularRow, mean_cell

__all__ = ["DEFINITIONS", "FIGURES", "table"]

FIGURES = ("call-opinion", "call-delay")
"""Figures of calls, in the order of the page."""

_SHOWN = ("delay_ms", "jitter_ms", "lost_ratio", "late_ratio", "mouth_to_ear_ms", "rating", "mos")
_OF_MANY = ("mos_least", "good_ratio", "refused_ratio")

_MEANINGS = {
    "delay_ms": "from when a datagram was full to when it came, averaged over those that came",
    "jitter_ms": "RFC 3550's interarrival jitter, averaged over datagrams",
    "late_ratio": "came after the play-out delay: in each 10 s the last 10 s' mean delay and four mean deviations "
    "(Ramjee et al. 1994)",
    "mouth_to_ear_ms": "until a datagram is full, coded, and played",
    "rating": "of the E-model (ITU-T G.107, 2015) with its defaults, no echo, no advantage factor; `bentpipe calls` "
    "judges with another codec, play-out or advantage",
    "mos": "from R (ITU-T G.107 annex B)",
}
DEFINITIONS = {METRICS[name].title: meaning for name, meaning in _MEANINGS.items()}
"""What the words of this section mean."""


def table(material: FigureContext, most: int = MOST_ROWS) -> HtmlTable:
    """One row a cell, flow (or group) and direction: means over calls, and over seeds with their intervals."""
    cells = aggregate_cells(material.calls, list(material.store.columns), blocked_calls(material.store))
    many = cells["calls"].max() != 1
    shown = [METRICS[name] for name in (*_SHOWN, *(_OF_MANY if many else ()))
             if cells[name].null_count() < cells.height]  # fmt: skip
    heads = [Heading(material.title(dim), text=True) for dim in material.dims]
    heads += [Heading("flow", text=True), Heading("direction", text=True), Heading("source", text=True)]
    heads += [Heading("calls")] if many else []
    heads += [Heading(metric.title, metric.unit) for metric in shown]
    rows: list[TabularRow] = []
    before: list[str] = []
    for row in cells.head(most).iter_rows(named=True):
        cell = [dim.word(row[dim.key]) or "–" for dim in material.dims]
        begins = cell != before
        line: list[str | TabularCell] = list(cell if begins else [""] * len(cell))
        line += [row["flow"], row["direction"], row["source"], *([format_cell(row["calls"])] if many else [])]
        for metric in shown:
            found = mean_of(row, metric.name)
            line.append("–" if found is None else mean_cell(metric, found, row["seeds"]))
        rows.append(TabularRow(line, begins))
        before = cell
    return HtmlTable(heads, rows, max(0, cells.height - most))
