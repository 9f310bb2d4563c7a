"""Figures 5.1 to 5.7: each bundle by its number, when it was generated, delivered and acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import colour, inline_csv, panel_width
from bentpipe_studies.andreotti_2025.dtn.cells import (
    CONTROLLER,
    DISRUPTION,
    LONG,
    LOSS,
    RELAY,
    RTT,
    SHORT,
    STREAM,
    STREAMS,
)
from bentpipe_studies.andreotti_2025.dtn.claims import InterpretationRuns
from bentpipe_studies.andreotti_2025.dtn.measures import ID

__all__ = ["figures"]

EVENTS = "generated", "delivered", "acknowledged"

DRAWN: tuple[tuple[str, str, str, dict[str, str], float], ...] = (
    ("5.1", SHORT, "10 ms, no disruption", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "none"}, 30.0),
    ("5.2", SHORT, "10 ms, 1 s of disruption", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "1 s"}, 30.0),
    ("5.3", LONG, "10 ms, 100 s of disruption in the plan",
     {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "100 s, with relay"}, 60.0),
    ("5.4", SHORT, "125 ms, 1 s of disruption", {RTT: "125 ms", LOSS: "0.01 %", DISRUPTION: "1 s"}, 35.0),
    ("5.5", SHORT, "125 ms, 1 % of loss, 1 s of disruption", {RTT: "125 ms", LOSS: "1 %", DISRUPTION: "1 s"}, 65.0),
    ("5.6", SHORT, "2 s, 1 s of disruption", {RTT: "2 s", LOSS: "0.01 %", DISRUPTION: "1 s"}, 40.0),
    ("5.7", SHORT, "10 ms, one stream per bundle", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "none"}, 10.0),
)  # fmt: skip


def figures(panels: Mapping[str, InterpretationRuns]) -> Iterator[Figure]:
    """Yield figures 5.1 to 5.7, first seed: each bundle by its number, generated, delivered and acknowledged."""
    for number, part, label, some, last in DRAWN:
        own = {STREAMS: STREAM[number == "5.7"]} | ({RELAY: "without"} if part == SHORT else {})
        charts = [
            _dots(run, last).with_columns(panel=pl.lit(panel))
            for panel, asked in panels.items()
            for run in asked.bundles.runs(part, {**some, **own, CONTROLLER: asked.controller})[:1]
        ]
        if not charts:
            continue
        rows = pl.concat(charts)
        dots = alt.Chart(inline_csv(rows)).mark_point(filled=True, size=10, clip=True).encode(
            x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(domain=[0, last], nice=False),
                    axis=alt.Axis(tickCount=6)),
            y=alt.Y("y:Q", title="bundle"),
            color=colour(list(EVENTS), title="event"),
        ).properties(width=panel_width(len(charts), own_axis=False), height=220)  # fmt: skip
        chart = dots.facet(column=alt.Column("panel:N", title=None, sort=list(panels)))
        caption = f"Figure {number} of the thesis: {label}. Each dot is an event of a bundle, first seed."
        yield Figure(f"figure-{number.replace('.', '-')}", f"Bundles, {label}", caption, chart, rows.height)


def _dots(run: pl.DataFrame, last: float) -> pl.DataFrame:
    """Return the events of each bundle until ``last``, by its number in the order of generation."""
    order = run.filter(pl.col("event") == "generated").select(*ID).with_row_index("y", 1)
    shown = run.filter(pl.col("event").is_in(EVENTS) & (pl.col("time_s") <= last))
    return shown.join(order, on=ID, how="inner").select(
        "time_s", pl.col("y").cast(pl.Float64), pl.col("event").cast(pl.String).alias("series")
    )
