"""Figures 5.1 to 5.7: each bundle by its number, when it was generated, delivered and acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, colour, inline
from bentpipe.studies.andreotti_2025.dtn.cells import (
    CONTROLLER,
    CONTROLLERS,
    DISRUPTION,
    LONG,
    LOSS,
    RELAY,
    RTT,
    SHORT,
    STREAM,
    STREAMS,
)
from bentpipe.studies.andreotti_2025.dtn.measures import Bundles
from bentpipe.studies.parts import Measured

__all__ = ["figures"]

EVENTS = "generated", "delivered", "acknowledged"

DRAWN: tuple[tuple[str, str, str, dict[str, str], float], ...] = (
    ("5.1", SHORT, "10 ms, no disruption", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "none"}, 30.0),
    ("5.2", SHORT, "10 ms, 1 s of disruption", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "1 s"}, 30.0),
    ("5.3", LONG, "10 ms, 100 s of disruption in the plan", {RTT: "10 ms", DISRUPTION: "100 s, with relay"}, 60.0),
    ("5.4", SHORT, "125 ms, 1 s of disruption", {RTT: "125 ms", LOSS: "0.01 %", DISRUPTION: "1 s"}, 35.0),
    ("5.5", SHORT, "125 ms, 1 % of loss, 1 s of disruption", {RTT: "125 ms", LOSS: "1 %", DISRUPTION: "1 s"}, 65.0),
    ("5.6", SHORT, "2 s, 1 s of disruption", {RTT: "2 s", LOSS: "0.01 %", DISRUPTION: "1 s"}, 40.0),
    ("5.7", SHORT, "10 ms, a stream a bundle", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "none"}, 10.0),
)  # fmt: skip


def figures(measured: Measured) -> Iterator[Figure]:
    """Figures 5.1 to 5.7, the least seed: each bundle by its number, generated, delivered and acknowledged."""
    bundles = Bundles(measured)
    for number, part, what, some, last in DRAWN:
        own = {STREAMS: STREAM[number == "5.7"], RELAY: "without"} if part == SHORT else {}
        cell = {**some, **own}
        drawn = []
        for controller in CONTROLLERS:
            runs = bundles.runs(part, {**cell, CONTROLLER: controller})[:1]
            for run in runs:
                shown = run.filter(pl.col("event").is_in(EVENTS) & (pl.col("time_s") <= last))
                order = (
                    run.filter(pl.col("event") == "generated")
                    .select("created_ms", "sequence")
                    .with_row_index("y", 1)
                )
                joined = shown.join(order, on=["created_ms", "sequence"], how="inner")
                drawn.append(joined.select(
                    "time_s", pl.col("y").cast(pl.Float64), pl.col("event").cast(pl.String).alias("series"),
                    pl.lit(controller).alias("controller"),
                ))  # fmt: skip
        if not drawn:
            continue
        rows = pl.concat(drawn)
        dots = alt.Chart(inline(rows)).mark_point(filled=True, size=10, clip=True).encode(
            x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(domain=[0, last], nice=False)),
            y=alt.Y("y:Q", title="bundle"),
            color=colour(list(EVENTS), title="event"),
        ).properties(width=WIDTH // 2 - 40, height=220)  # fmt: skip
        chart = dots.facet(column=alt.Column("controller:N", title=None, sort=list(CONTROLLERS)))
        caption = f"Figure {number} of the thesis: {what}. One dot an event of a bundle; the first seed."
        yield Figure(f"figure-{number.replace('.', '-')}", f"Bundles, {what}", caption, chart, rows.height)
