"""Calls in a report: what became of their datagrams, and what listeners would say."""

from __future__ import annotations

from bentpipe.figures.material import Material
from bentpipe.report.tabular import MOST_ROWS, Heading, Tabular, TabularCell, TabularRow
from bentpipe.stats.calls import over_cells
from bentpipe.stats.intervals import Interval
from bentpipe.stats.titles import METRICS
from bentpipe.stats.wording import humane, plus_minus

__all__ = ["DEFINITIONS", "FIGURES", "table"]

FIGURES = ("call-opinion", "call-delay")
"""Figures of calls, in the order of the page."""

_SHOWN = ("delay_ms", "jitter_ms", "lost_ratio", "late_ratio", "mouth_to_ear_ms", "rating", "mos")
_OF_MANY = ("mos_least", "good_ratio")

DEFINITIONS = {
    "delay, one way": "from when a datagram was full to when it came, averaged over those that came",
    "jitter": "RFC 3550's interarrival jitter, averaged over datagrams",
    "too late": "came after the play-out delay: in each 10 s the last 10 s' mean delay and four mean deviations "
    "(Ramjee et al. 1994)",
    "mouth to ear": "until a datagram is full, coded, and played",
    "R, mean opinion score": "of the E-model (ITU-T G.107, 2015) with its defaults, no echo, and no advantage factor; "
    "`bentpipe calls` judges with another codec, play-out or advantage",
}
"""What the words of this section mean."""


def table(material: Material, most: int = MOST_ROWS) -> Tabular:
    """One row a cell, flow (or group) and direction: means over calls, and over seeds with their intervals."""
    cells = over_cells(material.calls, list(material.store.columns))
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
        cell = [dim.word(row[dim.key]) for dim in material.dims]
        begins = cell != before
        line: list[str | TabularCell] = list(cell if begins else [""] * len(cell))
        line += [row["flow"], row["direction"], row["source"], *([humane(row["calls"])] if many else [])]
        for metric in shown:
            value = row[metric.name]
            bounds = (row.get(f"{metric.name}_low"), row.get(f"{metric.name}_high"))
            if value is None:
                line.append("–")
                continue
            said = plus_minus(Interval(value, *bounds, row["seeds"]), metric.factor)
            mean, mark, half = said.partition(" ± ")
            line.append(TabularCell(mean, small=f"± {half}" if mark else ""))
        rows.append(TabularRow(line, begins))
        before = cell
    return Tabular(heads, rows, max(0, cells.height - most))
