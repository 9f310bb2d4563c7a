"""Page of calls over real sockets (``perf call-client``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.calls import shares
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, axis, colour, inline_csv
from bentpipe.metrics.call_quality import GOOD
from bentpipe.metrics.registry import METRICS
from bentpipe.plan.spec.result_columns import CALL_WINDOW_S
from bentpipe.report.headline import Headline, join_names
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.report.time_series import lines

if TYPE_CHECKING:
    from bentpipe.metrics.call_quality import RatingConfig

__all__ = ["TWO_CLOCKS", "CallReport", "figures", "headline_text", "shown", "write"]

TWO_CLOCKS = "two host clocks: the one-way delays assume equal delay in both directions"

DIRECTIONS = ("up", "down")


@dataclass(frozen=True)
class CallReport:
    """Simultaneous calls with their ratings."""

    peer: str
    one_clock: bool
    config: RatingConfig
    rows: Sequence[Mapping[str, Any]]
    """Ratings of each direction of each call."""
    calls: pl.DataFrame
    """Table ``calls``."""
    delays: pl.DataFrame
    """Table ``call_delays``."""


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows for people: headings with units, and numbers in these units."""
    factors = {name: METRICS[name].scale for name in rows[0] if name in METRICS}
    return [
        {
            METRICS[name].heading if name in METRICS else name.replace("_", " "):
            value * factors[name] if name in factors and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]  # fmt: skip


def headline_text(report: CallReport) -> str:
    """Return one sentence with MOS, loss and delay of each direction."""
    parts = []
    for direction in DIRECTIONS:
        rows = [row for row in report.rows if row["direction"] == direction]
        if not rows:
            continue
        lost = sum(row["lost_ratio"] or 0 for row in rows) / len(rows)
        marks = [row["mos"] for row in rows if row["mos"] is not None]
        delays = [row["delay_ms"] for row in rows if row["delay_ms"] is not None]
        after = f", mean one-way delay {sum(delays) / len(delays):.3g} ms" if delays else ""
        end = f"{100 * lost:.2g} % of datagrams lost{after}"
        if marks:
            good = "satisfied" if min(marks) >= GOOD else "not satisfied"
            end = (
                f"most users are {good} (MOS {min(marks):.2f}{' or higher' if len(marks) > 1 else ''}): {end}"
            )
        parts.append(f"{direction}, {end}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def figures(report: CallReport) -> list[Figure]:
    """Return the figures of delay; over time only with more than one window of counters."""
    bins = report.delays.group_by("direction", "delay_ms").agg(pl.col("packets").sum())
    known = pl.col("sent_packets") - pl.col("pending_packets")
    whole = report.calls.group_by("direction").agg(known=known.sum())
    if not bins.height:
        return []
    rows = shares(bins, whole, ["direction"])
    directions = [name for name in DIRECTIONS if name in set(rows["direction"].to_list())]
    chart = (
        alt.Chart(inline_csv(rows)).mark_line()
        .encode(
            x=alt.X("x:Q", **axis(rows["x"].to_list(), METRICS["delay_ms"].axis)),
            y=alt.Y("y:Q", title="datagrams, %", scale=alt.Scale(domain=[0, 100])),
            color=colour(directions, "direction"),
        )
        .properties(width=WIDTH - 60, height=220)
    )  # fmt: skip
    caption = (
        "Share of datagrams with at most this one-way delay, over all calls. The delay starts "
        "when the datagram is full. A curve that ends below 100 % shows loss."
    )
    drawn = [Figure("delay", "Delay", caption, chart, rows.height)]
    arrived = report.calls.filter(pl.col("received_packets") > 0)
    over = (
        arrived.group_by("direction", "window_s")
        .agg(y=1e3 * pl.col("delay_sum_s").sum() / pl.col("received_packets").sum())
        .select(line="direction", time_s=pl.col("window_s") + CALL_WINDOW_S / 2, y="y")
        .sort("line", "time_s")
    )
    if over["time_s"].n_unique() > 1:
        text = (
            f"Mean delay of the datagrams sent in each window of {CALL_WINDOW_S:g} s, over all calls. "
            "Each point is at the middle of its window."
        )
        drawn.append(
            lines(
                "delay-over-time",
                "Delay over time",
                text,
                METRICS["delay_ms"].axis,
                over,
                directions,
                "linear",
            )
        )
    return drawn


def write(report: CallReport, out: Path, engine: str) -> Path:
    """Write the page to ``out``; return ``out``."""
    page = Page("Call measurement")
    count = len({row["call"] for row in report.rows})
    sources = join_names(sorted({str(row["source"]) for row in report.rows}))
    made = f"{count} {'call' if count == 1 else 'calls'} ({sources}) with {report.peer}"
    tally = f"{made}, play-out {report.config.playout}, A = {report.config.advantage:g}"
    return page.write(
        out, "report/call_page.html", Headline(headline_text(report), tally),
        notes=[] if report.one_clock else [f"{TWO_CLOCKS[:1].upper()}{TWO_CLOCKS[1:]}."],
        figures=[page.drawing(one) for one in figures(report)], calls=tabular(shown(report.rows)), engine=engine,
    )  # fmt: skip
