"""Figures of the study."""

from __future__ import annotations

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import GREY, WIDTH, colour, inline_csv, shape
from bentpipe_studies.page_loads import chosen_loads
from bentpipe_studies.parts import Measurements
from bentpipe_studies.thomas_2019.cells import MODELS, WITH, WITHOUT, satcom
from bentpipe_studies.thomas_2019.extensions import figure_2_11, gallery, model_ratios
from bentpipe_studies.thomas_2019.phases import received

__all__ = ["figures"]

SESSIONS = 5
"""Browser sessions in figure 3; the paper draws a subset too."""


def figures(measurements: Measurements) -> tuple[Figure, ...]:
    """Return all non-empty figures."""
    candidates = (
        sequence(measurements),
        ratios(measurements),
        start_up(measurements),
        blocking(measurements),
    )
    return tuple(figure for figure in candidates if figure is not None)


def sequence(measurements: Measurements) -> Figure | None:
    """Return bytes received over time since connectStart at load 2, as figure 3 of the paper."""
    rows = []
    for http, label in ((WITH, "QUIC"), (WITHOUT, "split TCP")):
        loads = chosen_loads(measurements, "satcom", satcom("target-a", http), 2)
        if not loads.height:
            return None
        for load in loads.head(SESSIONS).iter_rows(named=True):
            times, counts = received(measurements, "satcom", load["run"], "chrome")
            begin, end = load["connect_start_s"], load["load_event_end_s"]
            if begin is None or end is None:
                continue
            base = max((c for t, c in zip(times, counts, strict=True) if t <= begin), default=0.0)
            rows += [
                {"series": label, "unit": load["seed"], "x": t - begin, "y": (c - base) / 1e6}
                for t, c in zip(times, counts, strict=True)
                if begin <= t <= end + 0.05
            ]
    frame = pl.DataFrame(rows)
    if frame.height > 2000:
        frame = frame.with_columns(n=pl.int_range(pl.len()).over("series", "unit")).filter(
            pl.col("n") % 2 == 0
        )
        frame = frame.drop("n")
    chart = (
        alt.Chart(inline_csv(frame))
        .mark_line(opacity=0.7)
        .encode(
            x=alt.X("x:Q", title="time since connectStart, s"), y=alt.Y("y:Q", title="received, MB"),
            color=colour(["QUIC", "split TCP"]), detail="unit:N",
        )
        .properties(width=WIDTH - 80, height=260)
    )  # fmt: skip
    caption = f"Load 2 of {SESSIONS} sessions, stream bytes at the client. Figure 3 of the paper."
    return Figure(
        "time-sequence", "Bytes received over time, target A over SATCOM", caption, chart, frame.height
    )


def ratios(measurements: Measurements) -> Figure | None:
    """Return PLT of QUIC over that of TCP by model of the proxy."""
    rows = model_ratios(measurements)
    if not rows:
        return None
    frame = pl.DataFrame(rows)
    series = frame["quic"].unique(maintain_order=True).to_list()
    y = alt.Y(
        "model:N",
        sort=[name for name, _ in MODELS],
        title=None,
        axis=alt.Axis(grid=True, labelLimit=300, minExtent=150),
    )
    x = alt.X("ratio:Q", title="median PLT ratio, QUIC to TCP", scale=alt.Scale(zero=True))
    data = inline_csv(frame)
    points = (
        alt.Chart(data)
        .mark_point(filled=True, size=90, opacity=1)
        .encode(x=x, y=y, color=colour(series, "quic"), shape=shape(series, "quic"))
    )
    text = (
        alt.Chart(data)
        .mark_text(dy=-11, fontSize=10.5)
        .encode(x=x, y=y, text=alt.Text("ratio:Q", format=".2f"), color=colour(series, "quic"))
    )
    marks = (
        alt.Chart(inline_csv(pl.DataFrame({"at": [1.0, 2.0]})))
        .mark_rule(strokeDash=[4, 4], color=GREY)
        .encode(x="at:Q")
    )
    chart = alt.layer(marks, points, text).properties(
        width=WIDTH - 260, height=44 * frame["model"].n_unique()
    )
    caption = (
        "Target A over SATCOM. IW: initial window, packets. Dashed: ratio 1 and the published factor of 2."
    )
    return Figure("proxy-ratio", "PLT ratio by proxy model", caption, chart, frame.height)


def start_up(measurements: Measurements) -> Figure | None:
    """Return figure 2.11 of the report: measured against the model."""
    found = figure_2_11(measurements)
    if not found:
        return None
    rows = []
    for row in found:
        for label, key in (
            ("measured", "measured"),
            ("model, one-way BDP", "one-way"),
            ("model, two-way BDP", "two-way"),
        ):
            if row[key] is not None:
                rows.append({"path": row["path"], "series": label, "x": row["rtt_ms"], "y": row[key]})
    frame = pl.DataFrame(rows)
    series = ["measured", "model, one-way BDP", "model, two-way BDP"]
    base = alt.Chart()
    x = alt.X("x:Q", title="RTT of the path, ms")
    y = alt.Y("y:Q", title="time to 90 % of 25 Mb/s, s")
    layers = alt.layer(
        base.mark_line().encode(x=x, y=y, color=colour(series)),
        base.mark_point(filled=True, size=50, opacity=1).encode(
            x=x, y=y, color=colour(series), shape=shape(series)
        ),
    ).properties(width=(WIDTH - 120) // 2, height=240)
    panel = alt.Facet("path:N", title=None, header=alt.Header(labelAnchor="start"))
    chart = layers.facet(data=inline_csv(frame), facet=panel, columns=2)
    caption = (
        "One TCP connection with NewReno, initial window 32. Split: the longer start-up of the two segments."
    )
    return Figure(
        "start-up", "Start-up by RTT, with and without a proxy at half the RTT", caption, chart, frame.height
    )


def blocking(measurements: Measurements) -> Figure | None:
    """Return the arrival of each object, with and without one lost packet."""
    rows = gallery(measurements)
    if not rows:
        return None
    frame = pl.DataFrame(
        {
            "protocol": f"HTTP/{row['http']}", "series": "one lost packet" if row["lost"] else "no loss",
            "object": row["object"], "x": row["end_s"],
        }
        for row in rows
        if row["end_s"] is not None
    )  # fmt: skip
    series = ["no loss", "one lost packet"]
    y = alt.Y(
        "object:N",
        title=None,
        sort=frame["object"].unique(maintain_order=True).to_list(),
        axis=alt.Axis(grid=True),
    )
    x = alt.X("x:Q", title="completed at, s", scale=alt.Scale(zero=False))
    points = (
        alt.Chart()
        .mark_point(filled=True, size=70, opacity=1)
        .encode(x=x, y=y, color=colour(series), shape=shape(series))
        .properties(width=(WIDTH - 200) // 2, height=230)
    )
    panel = alt.Facet("protocol:N", title=None, header=alt.Header(labelAnchor="start"))
    chart = points.facet(data=inline_csv(frame), facet=panel, columns=2)
    caption = (
        "TCP delays all data behind the lost packet until its retransmission. QUIC delays only its stream."
    )
    return Figure("head-of-line", "One lost packet, eight objects", caption, chart, frame.height)
