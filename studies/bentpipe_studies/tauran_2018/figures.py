"""Figures 4.7 to 4.13 and 5.2 to 5.13 with the thesis's axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, WIDTH, axis, colour, inline_csv, shape
from bentpipe.metrics.intervals import mean_ci
from bentpipe_studies.tauran_2018.cells import (
    ACKS,
    BY_LINK,
    BY_TCP,
    SEGMENT,
    SNR,
    SNRS,
    TIMERS,
    VARIANT,
    case,
)
from bentpipe_studies.tauran_2018.packet_sequences import ladders
from bentpipe_studies.tauran_2018.runs import LINK, PAIR_WAITS_MS, Runs

if TYPE_CHECKING:
    from bentpipe_studies.parts import Measurements
    from bentpipe_studies.tauran_2018.comparison import StudyRuns

__all__ = ["figures"]

SNR_TITLE = "reference SNR, dB"
Series = tuple[str, str, str, bool]
"""Name, variant, numbering of the buffer (empty: no buffer), delayed ACKs."""

_BUFFER: list[Series] = [
    ("CUBIC", "CUBIC", "", False),
    ("CUBIC, reordering by TCP sequence number", "CUBIC", BY_TCP, False),
    ("CUBIC, reordering by link sequence number", "CUBIC", BY_LINK, False),
]


def _acks(variants: Sequence[str], reordering: bool) -> list[Series]:
    return [
        (f"{variant}, delayed ACKs" if delayed else variant, variant, BY_TCP if reordering else "", delayed)
        for variant in variants
        for delayed in (False, True)
    ]


_BOTH = _acks(("CUBIC",), True)
_FOUR = _acks(("CUBIC",), False) + [
    (f"{name}, reordering", variant, buffer, delayed) for name, variant, buffer, delayed in _BOTH
]
FIGURES: tuple[tuple[str, str, str, str, list[Series]], ...] = (
    ("4.7", "Reordering and goodput, CUBIC", "goodput, kb/s", "goodput_kbps", _BUFFER),
    ("4.8", "Reordering and timeouts, CUBIC", "RTO, % of packets", "rto", _BUFFER),
    ("4.9", "Reordering and duplicate ACKs, CUBIC", "DUPACK, % of packets", "dupack", _BUFFER),
    ("4.10", "Reordering and spurious retransmissions, CUBIC", "spurious, % of packets", "spurious", _BUFFER),
    ("4.13", "Reordering and delayed ACKs, CUBIC", "goodput, kb/s", "goodput_kbps", _FOUR),
    ("5.2", "Delayed ACKs and goodput", "goodput, kb/s", "goodput_kbps", _acks(("NewReno", "CUBIC"), False)),
    ("5.3", "Delayed ACKs and duplicate ACKs", "DUPACK, % of packets", "dupack", _acks(("NewReno", "CUBIC"), False)),
    ("5.4", "Delayed ACKs and timeouts", "RTO, % of packets", "rto", _acks(("NewReno", "CUBIC"), False)),
    ("5.5", "Delayed ACKs and spurious retransmissions", "spurious, % of packets", "spurious",
     _acks(("NewReno", "CUBIC"), False)),
    ("5.6", "Delayed ACKs and goodput, Hybla", "goodput, kb/s", "goodput_kbps", _acks(("Hybla",), False)),
    ("5.9", "Delayed ACKs with reordering, NewReno", "goodput, kb/s", "goodput_kbps", _acks(("NewReno",), True)),
    ("5.10", "Delayed ACKs with reordering, CUBIC", "goodput, kb/s", "goodput_kbps", _BOTH),
    ("5.12", "The retransmission timer with reordering, CUBIC", "mean RTO, ms", "rto_ms", _BOTH),
    ("5.13", "Timeouts among retransmissions with reordering", "timeouts, % of retransmissions", "rto_share",
     _acks(("NewReno", "CUBIC"), True)),
)  # fmt: skip

PUBLISHED = {"4.7": "goodput_kbps", "4.8": "rto_percent", "4.9": "dupack_percent", "4.10": "spurious_percent"}
"""Figures with points printed in tables 4.1 and 4.2."""


def figures(measurements: Measurements, m: StudyRuns, published: dict[str, Any]) -> tuple[Figure, ...]:
    """Return all non-empty figures, in the order of the thesis."""
    made = [_lines(m.tables, published, *one) for one in FIGURES]
    made += [
        _use(measurements),
        _growth(measurements),
        _pacing(measurements),
        _sawtooth(measurements),
        _surface(m.timers),
        _waits(m.tables),
    ]
    made += [*ladders(measurements), m.orbits.figure()]
    return tuple(sorted((one for one in made if one is not None), key=_order))


def _order(figure: Figure) -> tuple[int, ...]:
    """Return the sort key of the thesis's order; table 3.2 stands between figures 3.3 and 3.4."""
    if figure.key.startswith("table"):
        return (3, 3, 1)
    return tuple(int(part) for part in figure.key.removeprefix("figure-").split("-"))


def _key(number: str) -> str:
    return f"figure-{number.replace('.', '-')}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _lines(
    runs: Runs,
    published: dict[str, Any],
    number: str,
    title: str,
    upright: str,
    measure: str,
    series: list[Series],
) -> Figure | None:
    rows = []
    for name, variant, buffer, delayed in series:
        for snr in SNRS:
            values = runs.values(
                case(snr, variant, reordering=bool(buffer), delayed=delayed, buffer=buffer), measure
            )
            if values:
                found = mean_ci(values)
                low, high = (found.estimate if one is None else one for one in (found.low, found.high))
                rows.append(
                    {"series": name, "x": snr, "y": found.estimate, "low": max(low, 0.0), "high": high}
                )
    if not rows:
        return None
    names = [name for name, *_ in series]
    frame = pl.DataFrame(rows)
    ticks = alt.Axis(values=list(SNRS), format="d")
    x = alt.X("x:Q", title=SNR_TITLE, scale=alt.Scale(domain=[6.8, 13.2], nice=False), axis=ticks)
    y = alt.Y("y:Q", title=upright)
    base = alt.Chart(inline_csv(frame))
    bars = base.mark_rule(strokeWidth=1).encode(
        x=x, y=alt.Y("low:Q", title=upright), y2="high:Q", color=colour(names)
    )
    lines = base.mark_line(point=True).encode(x=x, y=y, color=colour(names))
    layers = [bars, lines]
    caption = f"Figure {number} of the thesis. Means over seeds with 95 % confidence intervals."
    if number in PUBLISHED:
        printed = [
            {"series": name, "x": snr, "y": published[table][PUBLISHED[number]]["cubic"][index]}
            for name, table in zip(names[:2], ("table_4_1", "table_4_2"), strict=True)
            for index, snr in enumerate(SNRS)
        ]
        points = alt.Chart(inline_csv(pl.DataFrame(printed))).mark_point(size=70, strokeWidth=1.6)
        layers.append(points.encode(x=x, y=y, color=colour(names)))
        caption += " Circles: tables 4.1 and 4.2. Their buffer uses TCP sequence numbers (figure 4.6)."
    elif any(buffer for _, _, buffer, _ in series):
        caption += " The buffer uses TCP sequence numbers."
    chart = alt.layer(*layers).properties(width=WIDTH - 120, height=280)
    return Figure(_key(number), f"{number} {title}", caption, chart, frame.height)


def _use(measurements: Measurements) -> Figure | None:
    """Return figures 4.11 and 4.12: coded rate of the link over time at 13 dB, one seed."""
    store = measurements.store("tables")
    if store is None:
        return None
    rows = []
    for reordering, name in ((False, "without reordering (4.11)"), (True, "with reordering (4.12)")):
        runs = Runs(measurements, "tables").runs(case(13, "CUBIC", reordering=reordering))
        if not runs:
            return None
        frame = store.rows("radio_users", runs=runs[:1]).filter(pl.col("link") == LINK).sort("time_s")
        use = frame.select(
            x="time_s", y=pl.col("coded_bits").diff() / pl.col("time_s").diff() / 1e6
        ).drop_nulls()
        rows += [{"series": name, **row} for row in use.iter_rows(named=True)]
    data = pl.DataFrame(rows)
    names = data["series"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(inline_csv(data))
        .mark_line(strokeWidth=1)
        .encode(
            x=alt.X("x:Q", title="time, s"),
            y=alt.Y("y:Q", title="bits on the link, Mb/s"),
            color=colour(names),
        )
        .properties(width=WIDTH - 120, height=280)
    )
    caption = "Figures 4.11 and 4.12 of the thesis: coded bits per second, CUBIC at 13 dB, first seed."
    return Figure("figure-4-11", "4.11, 4.12 Utilisation of the link", caption, chart, data.height)


def _windows(measurements: Measurements, until_s: float, every: int) -> pl.DataFrame:
    """Return the windows of the part without loss, first seed: ``series, acks, x, y``."""
    table = measurements.table("lossless", "flows")
    if not table.height:
        return table
    column = next(name for name in (f"sweep.{VARIANT}", VARIANT) if name in table.columns)
    first = table["seed"].min()
    rows = table.filter(
        (pl.col("side") == "server") & (pl.col("seed") == first) & (pl.col("time_s") <= until_s)
    )
    thin = pl.col("time_s").rank("dense").over(column, ACKS) % every == 1 % every
    return rows.filter(thin).select(
        series=pl.col(column), acks=pl.when(pl.col(ACKS) == "true").then(pl.lit("each")).otherwise(
            pl.lit("delayed")), x="time_s", y=pl.col("cwnd_bytes") / SEGMENT,
    )  # fmt: skip


def _window_chart(data: pl.DataFrame, hue: Any, dashed: bool) -> Any:
    chart = alt.Chart(inline_csv(data)).mark_line(strokeWidth=1.6).encode(
        x=alt.X("x:Q", title="time, s", scale=alt.Scale(nice=False)),
        y=alt.Y("y:Q", title="congestion window, packets"), color=alt.value(BLUE) if hue is None else hue,
    )  # fmt: skip
    if dashed:
        chart = chart.encode(strokeDash=alt.StrokeDash("acks:N", title="ACKs", sort=["each", "delayed"]))
    return chart.properties(width=WIDTH - 120, height=280)


def _growth(measurements: Measurements) -> Figure | None:
    """Return figure 5.7: windows without loss."""
    data = _windows(measurements, 60, 2)
    if not data.height:
        return None
    names = data["series"].unique(maintain_order=True).to_list()
    caption = "Figure 5.7 of the thesis: one flow between two nodes. All losses are queue overflows."
    chart = _window_chart(data, colour(names), dashed=True)
    return Figure("figure-5-7", "5.7 Windows without loss on the link", caption, chart, data.height)


def _pacing(measurements: Measurements) -> Figure | None:
    """Return figure 3.9: slow start and congestion avoidance, with and without delayed ACKs."""
    data = _windows(measurements, 12, 1)
    if not data.height:
        return None
    data = data.filter(pl.col("series") == "NewReno")
    caption = (
        "Figure 3.9 of the thesis: NewReno alone between two nodes, with an ACK per segment or delayed ACKs."
    )
    chart = _window_chart(data, colour(["each", "delayed"], title="ACKs", field="acks"), dashed=False)
    return Figure("figure-3-9", "3.9 Delayed ACKs and the window", caption, chart, data.height)


def _sawtooth(measurements: Measurements) -> Figure | None:
    """Return figure 3.13: CUBIC's window."""
    data = _windows(measurements, 120, 2)
    if not data.height:
        return None
    data = data.filter((pl.col("series") == "CUBIC") & (pl.col("acks") == "each"))
    caption = "Figure 3.13 of the thesis: CUBIC alone between two nodes. All losses are queue overflows."
    return Figure(
        "figure-3-13", "3.13 CUBIC's window", caption, _window_chart(data, None, dashed=False), data.height
    )


def _surface(runs: Runs) -> Figure | None:
    """Return figure 5.8: packets received over timer and SNR."""
    rows = []
    for variant in ("NewReno", "CUBIC"):
        for snr in SNRS:
            found = {
                timer: _mean(values)
                for timer in TIMERS
                if (
                    values := runs.values(
                        {SNR: f"{snr} dB", VARIANT: variant, "tcp.delayed_ack.timeout": f"{timer} ms"},
                        "packets",
                    )
                )
            }
            most = max(found.values(), default=0.0)
            rows += [
                {"variant": variant, "x": timer, "y": snr, "z": packets, "best": int(packets == most)}
                for timer, packets in found.items()
            ]
    if not rows:
        return None
    frame = pl.DataFrame(rows)
    x = alt.X("x:O", title="timer of delayed ACKs, ms")
    y = alt.Y("y:O", title=SNR_TITLE, sort="descending")
    base = alt.Chart()
    cells = base.mark_rect().encode(
        x=x, y=y, color=alt.Color("z:Q", title="packets received", scale=alt.Scale(scheme="viridis", zero=False)),
        tooltip=["x:O", "y:O", alt.Tooltip("z:Q", format=".0f")],
    )  # fmt: skip
    best = (
        base.transform_filter("datum.best == 1")
        .mark_point(filled=True, color="white", size=55, opacity=1)
        .encode(x=x, y=y)
    )
    chart = (
        alt.layer(cells, best, data=inline_csv(frame))
        .properties(width=WIDTH // 2 - 130, height=220)
        .facet(column=alt.Column("variant:N", title=None, sort=["NewReno", "CUBIC"]))
    )
    caption = (
        "Figure 5.8 of the thesis as a map, without reordering buffer, means over seeds. The "
        "thesis does not name the TCP variant. Dots: best timer of each SNR."
    )
    return Figure("figure-5-8", "5.8 The timer of delayed ACKs", caption, chart, frame.height)


def _waits(runs: Runs) -> Figure | None:
    """Return figure 5.11: wait of the first of two segments for the second."""
    rows = []
    for snr in (7, 10, 13):
        for wait in PAIR_WAITS_MS:
            cell = case(snr, "CUBIC", reordering=True, delayed=True)
            if values := runs.values(cell, f"pairs_within_{wait}_ms"):
                rows.append({"series": f"{snr} dB", "x": wait, "y": 100 * _mean(values)})
    if not rows:
        return None
    frame = pl.DataFrame(rows)
    names = frame["series"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(inline_csv(frame))
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", title="wait within a pair, ms"),
            y=alt.Y("y:Q", **axis(frame["y"].to_list(), "pairs with at most this wait, %")),
            color=colour(names), shape=shape(names),
        )
        .properties(width=WIDTH - 120, height=260)
    )  # fmt: skip
    caption = "Figure 5.11 of the thesis: CUBIC with reordering buffer and delayed ACKs, as a distribution."
    return Figure("figure-5-11", "5.11 Waits within a pair of a delayed ACK", caption, chart, frame.height)
