"""Page of a command that was timed over several access networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures import style
from bentpipe.figures.figure import Figure
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.samples.median_ratio import mean_ratio
from bentpipe.report.headline import Headline, join_names
from bentpipe.report.html_table import add_tooltips, tabular
from bentpipe.report.page import Page

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TimingReport", "figure", "headline_text", "supporting_text", "write"]

ROW_HEIGHT = 34
"""Height of an access in the figure, CSS pixels."""

COLUMNS = {
    "loaded": "mean instant of the load event since navigation start, with its 95 % interval",
    "first contentful paint": "mean instant of the first paint of text or an image, with its 95 % interval",
    "first byte": "mean instant of the first byte of the page's response, with its 95 % interval",
    "DOM content loaded": "mean instant at which the HTML is parsed, with its 95 % interval",
    "mean ± σ": "mean wall time of the command, with the standard deviation of the runs",
    "times the fastest": "geometric mean of the ratios to the fastest access in the same round, with its 95 % interval",
}
"""Columns of the table with definition."""


@dataclass(frozen=True)
class TimingReport:
    """Times of a command as plain data."""

    command: str
    seconds: Mapping[str, Sequence[float]]
    """Times of the rounds of each access, s, in the order of the accesses."""
    rows: Sequence[Mapping[str, Any]]
    """Table of the accesses, as the command line prints it."""
    notes: Sequence[str]
    """Warnings about the measurement."""
    setting: str = ""
    """Sentence about what all accesses have in common, such as background traffic; empty without."""
    title: str = "Timing of a command"
    figure_title: str = "Wall time of the command"
    paths: Sequence[str] = ()
    """Lines about the rates and seeds of the accesses."""


def headline_text(timing: TimingReport) -> str:
    """Return one sentence with the mean of each access, fastest first, and the ratios of the table."""
    means = {access: sum(values) / len(values) for access, values in timing.seconds.items()}
    fastest, *others = sorted(means, key=lambda access: means[access])
    texts = [f"{format_significant(means[fastest], 3)} s over {fastest}"]
    for access in others:
        ratio = mean_ratio(timing.seconds[access], timing.seconds[fastest], paired=True)
        times = f"{format_significant(ratio.estimate, 3)} times as long"
        texts.append(f"{format_significant(means[access], 3)} s over {access} ({times})")
    return f"{timing.command} takes {join_names(texts)}."


def supporting_text(timing: TimingReport) -> str:
    """Return the number of runs and the conditions of the measurement."""
    runs = len(next(iter(timing.seconds.values())))
    text = f"{runs} run{'s' * (runs != 1)} over each access network, interleaved by rounds."
    return f"{text} {timing.setting}".strip()


def figure(timing: TimingReport) -> Figure:
    """Return the figure with one mark for each run and one for each mean."""
    frame = pl.DataFrame(
        {"access": access, "round": number, "seconds": value}
        for access, values in timing.seconds.items()
        for number, value in enumerate(values, 1)
    )
    names = list(timing.seconds)
    # A data set for each layer would repeat the rows.
    chart = alt.Chart(style.inline_csv(frame))
    y = alt.Y("access:N", sort=names, title=None)
    horizontal = style.axis(frame["seconds"].to_list(), METRICS["command_s"].axis)
    runs = chart.mark_circle(size=60, opacity=0.6).encode(
        x=alt.X("seconds:Q", **horizontal),
        y=y,
        color=style.colour(names, "access").legend(None),
        tooltip=["access:N", "round:Q", "seconds:Q"],
    )
    means = chart.mark_tick(thickness=2.5, size=ROW_HEIGHT * 0.7).encode(
        x=alt.X("mean(seconds):Q", **horizontal), y=y, color=style.colour(names, "access").legend(None)
    )
    drawn = alt.layer(runs, means).properties(width=style.WIDTH - 160, height=alt.Step(ROW_HEIGHT))
    caption = "Each circle is one run; the bar is their mean."
    return Figure("command-times", timing.figure_title, caption, drawn, frame.height)


def write(timing: TimingReport, out: Path, engine: str) -> Path:
    """Write the page to ``out``; return ``out``."""
    page = Page(timing.title)
    table = tabular(timing.rows)
    return page.write(
        out, "report/timing_page.html", Headline(headline_text(timing), supporting_text(timing)),
        notes=timing.notes, paths=timing.paths, figure=page.drawing(figure(timing)),
        timings=None if table is None else add_tooltips(table, COLUMNS), engine=engine,
    )  # fmt: skip
