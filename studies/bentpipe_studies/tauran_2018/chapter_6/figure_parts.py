"""Figures 6.2 and 6.24, which the thesis draws by hand: the best of several channels; spacing and a late packet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREEN, ORANGE, RED, WIDTH, inline_csv

if TYPE_CHECKING:
    from bentpipe_studies.tauran_2018.chapter_6.tables import Chapter6Runs

__all__ = ["sketches"]

DELAY_MS, LATE_MS, PACKET_MS = 10.0, 20.0, 0.34
"""Delay of the last link, delay of a retransmission, and airtime of a packet (equation 6.7), ms."""


def sketches(ran: Chapter6Runs) -> list[Figure]:
    """Return both figures if any run of the chapter exists."""
    return [_best(), _spacing()] if ran.tcp.frame.height or ran.bound.frame.height else []


def _best() -> Figure:
    """Return capacities as sums of two waves: a drawing, not a channel."""
    rows = []
    for step in range(121):
        t = step / 2
        values = [
            0.55 + 0.25 * math.sin(t / (7 + 2 * user) + 2.1 * user) + 0.12 * math.sin(t / (2.3 + user) + user)
            for user in range(3)
        ]
        rows += [{"series": f"user {user + 1}", "x": t, "y": value} for user, value in enumerate(values)]
        rows.append({"series": "best channel", "x": t, "y": max(values)})
        rows.append({"series": "mean of all", "x": t, "y": sum(values) / 3})
    names = ["user 1", "user 2", "user 3", "best channel", "mean of all"]
    scale = alt.Scale(domain=names, range=[BLUE, ORANGE, GREEN, RED, "#8A8A8A"])
    width = alt.condition("datum.series == 'best channel'", alt.value(4), alt.value(1.3))
    chart = (
        alt.Chart(inline_csv(pl.DataFrame(rows)))
        .mark_line()
        .encode(
            x=alt.X("x:Q", title="time", axis=alt.Axis(labels=False, ticks=False)),
            y=alt.Y("y:Q", title="capacity", axis=alt.Axis(labels=False, ticks=False), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("series:N", title=None, scale=scale, sort=names), strokeWidth=width,
        )
        .properties(width=WIDTH - 120, height=200)
    )  # fmt: skip
    caption = (
        "Figure 6.2 of the thesis, computed: the best of n channels at each instant (equation 6.2), "
        "and their mean."
    )
    return Figure("figure-6-2", "6.2 Optimization of the LMS channel", caption, chart, len(rows))


def _spacing() -> Figure:
    """Return packet 1 with one more attempt; the next packets follow at once, or after those of 19 other users."""
    panels = [("in a burst (PF)", PACKET_MS), ("spaced by 20 users (RR)", 20 * PACKET_MS)]
    charts: list[Any] = []
    rows_in_all = 0
    for title, gap in panels:
        rows, texts = [], []
        for number in range(1, 6):
            sent = (number - 1) * gap
            came = sent + DELAY_MS + (LATE_MS if number == 1 else 0.0)
            rows.append(
                {"x": 0.0, "x2": 1.0, "t": sent, "t2": came, "kind": "late" if number == 1 else "data"}
            )
            texts.append({"x": 1.0, "t": came, "text": str(number)})
        late = rows[0]["t2"]
        before = sum(1 for row in rows[1:] if float(row["t2"]) < float(late))
        verdict = (
            "≥ 3 duplicate ACKs: retransmission"
            if before >= 3
            else f"{before} duplicate ACKs: no retransmission"
        )
        charts.append(_panel(rows, texts, f"{title}: {verdict}"))
        rows_in_all += len(rows)
    caption = (
        "Figure 6.24 of the thesis, computed by equation 6.8: a packet that needs 20 ms more, and "
        "the next four of its flow. With 0.34 ms per packet and round robin over 20 users, fewer "
        "than three packets overtake it."
    )
    whole: Any = alt.hconcat(*charts, spacing=30)
    return Figure("figure-6-24", "6.24 Spacing and duplicate ACKs", caption, whole, rows_in_all)


def _panel(rows: list[dict[str, Any]], texts: list[dict[str, Any]], title: str) -> Any:
    names = "datum.value == 0 ? 'satellite' : datum.value == 1 ? 'terminal' : ''"
    axis = alt.Axis(orient="top", values=[0, 1], labelExpr=names, ticks=False)
    x = alt.X("x:Q", title=None, axis=axis, scale=alt.Scale(domain=[-0.1, 1.15], nice=False))
    y = alt.Y("t:Q", title="time, ms", scale=alt.Scale(domain=[40, 0], nice=False))
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=["data", "late"], range=[BLUE, RED]))
    lines = alt.Chart(inline_csv(pl.DataFrame(rows))).mark_rule(strokeWidth=1.6).encode(
        x=x, x2="x2:Q", y=y, y2="t2:Q", color=colour
    )  # fmt: skip
    words = (
        alt.Chart(inline_csv(pl.DataFrame(texts)))
        .mark_text(align="left", dx=5, fontSize=10)
        .encode(x=x, y=y, text="text:N")
    )
    return alt.layer(lines, words).properties(width=WIDTH // 2 - 110, height=230, title=title)
