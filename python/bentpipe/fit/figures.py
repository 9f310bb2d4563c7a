"""Figures of a fit: the delay over time, ECDFs, autocorrelation, bursts of loss, the spread by phase, rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import GREY, WIDTH, axis, colour, inline_csv
from bentpipe.fit.goodness_of_fit import SEEDS
from bentpipe.fit.model import Distribution, interpolate, sample
from bentpipe.fit.model_comparison import autocorrelation, rate_means, runs_of_loss
from bentpipe.fit.phase import BIN_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.fit.goodness_of_fit import GoodnessOfFit
    from bentpipe.fit.log_merge import MergedLogs
    from bentpipe.fit.model import Model, Points, Rates
    from bentpipe.fit.phase import Phase

__all__ = ["KEYS", "figures"]

KEYS = ("time", "delay-whole", "delay-half", "autocorrelation", "bursts", "rate-down", "rate-up", "phase")
"""Keys of all figures."""

Line = tuple["Sequence[float]", "Sequence[float]"]
STEPS = 400
SHOWN_SLOTS = 8
TAIL = 0.95
"""Begin of the tail of a distribution, which has a panel of its own."""
MAX_POINTS = 4000
LAGS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0)


def figures(found: MergedLogs, model: Model, fit_quality: GoodnessOfFit) -> list[Figure]:
    """Return all non-empty figures."""
    made = []
    points = found.points
    if points is not None:
        samples = [sample(model, points.at_s, seed) for seed in SEEDS]
        what = "one-way delay" if found.one_way else "round-trip time"
        made += [
            _over_time(points, samples[0], model, what),
            _delays(points, samples, what, "whole", "Delay (CDF)"),
        ]
        half = fit_quality.half
        if half is not None:
            again = [sample(half.model, half.second.at_s, seed) for seed in SEEDS]
            made.append(
                _delays(
                    half.second,
                    again,
                    what,
                    "half",
                    "Delay (CDF), model of the training data and test data",
                )
            )
        made.append(_memory(points, samples))
        if points.lost:
            made.append(_losses(points, samples))
    made += [_rate(rates, model, side) for side, rates in found.rates.items()]
    if found.phase is not None:
        made.append(_phases(found.phase, "ms" if points is not None else "Mbit/s"))
    return made


def _frame(found: Mapping[str, Line]) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame({"x": np.asarray(x, float), "y": np.asarray(y, float)}).with_columns(series=pl.lit(name))
        for name, (x, y) in found.items()
    )


def _chart(
    rows: pl.DataFrame, x: alt.X, y: alt.Y, *, mark: str = "line", height: int = 260, **more: object
) -> alt.Chart:
    series = rows["series"].unique(maintain_order=True).to_list()
    chart = alt.Chart(inline_csv(rows, digits=9))
    marked = getattr(chart, f"mark_{mark}")(clip=True, **more)
    encoded: alt.Chart = marked.encode(x=x, y=y, color=colour(series)).properties(
        width=WIDTH - 80, height=height
    )
    return encoded


def _over_time(points: Points, modelled: Points, model: Model, what: str) -> Figure:
    """Return some intervals around the middle of the log, and a sample of the model below them."""
    middle = float(points.at_s[0] + points.at_s[-1]) / 2
    begin = np.floor((middle - model.phase_s) / model.every_s) * model.every_s + model.phase_s
    begin = max(float(points.at_s[0]), begin - SHOWN_SLOTS // 2 * model.every_s)
    end = begin + SHOWN_SLOTS * model.every_s
    lines: dict[str, Line] = {}
    for name, of in (("data", points), ("model sample", modelled)):
        shown = of.part(begin, end)
        seen = ~np.isnan(shown.delay_ms)
        every = max(1, int(np.ceil(seen.sum() / MAX_POINTS)))
        lines[name] = ((shown.at_s[seen][::every] - begin).tolist(), shown.delay_ms[seen][::every].tolist())
    rows = _frame(lines)
    top = float(np.quantile(rows["y"], 0.995))
    first = np.ceil((begin - model.phase_s) / model.every_s) * model.every_s + model.phase_s - begin
    edges = pl.DataFrame({"x": np.arange(first, end - begin, model.every_s)})
    across = alt.X("x:Q", title="time, s", scale=alt.Scale(domain=[0, end - begin], nice=False))
    ruled = alt.Chart(inline_csv(edges)).mark_rule(color=GREY, strokeDash=[3, 3]).encode(x=across)
    panels = []
    for name in lines:
        part = rows.filter(pl.col("series") == name)
        dots = _chart(
            part, across,
            alt.Y("y:Q", title=f"{what}, ms", scale=alt.Scale(domain=[0, top], nice=True)),
            mark="circle", height=150, size=7, opacity=0.5,
        ).encode(color=colour(list(lines)))  # fmt: skip
        panels.append(alt.layer(ruled, dots).properties(width=WIDTH - 80, height=150))
    chart = alt.vconcat(*panels, spacing=12)
    return Figure(
        "time", "Delay over time",
        "Upper panel: intervals of the log. Lower panel: a random sample of the model. Dashed: "
        "starts of the intervals. The axis cuts off 0.5 % of the delays.",
        chart, rows.height,
    )  # fmt: skip


def _delays(points: Points, samples: list[Points], what: str, key: str, title: str) -> Figure:
    """Return the distribution up to its 95th percentile, and its tail on an axis of its own."""
    of = {"data": points.delays, "model": Distribution.pooled(samples)}
    panels, count = [], 0
    for low, high, height in ((0.0, TAIL, 240), (TAIL, 0.999, 160)):
        shares = np.linspace(low, high, STEPS)
        rows = _frame(
            {name: (one.quantiles(shares).tolist(), (100 * shares).tolist()) for name, one in of.items()}
        )
        count += rows.height
        x = alt.X("x:Q", **axis(rows["x"].to_list(), f"{what}, ms"))
        y = alt.Y("y:Q", title="CDF, % of time", scale=alt.Scale(domain=[100 * low, 100 * high], nice=False))
        panels.append(_chart(rows, x, y, height=height))
    caption = (
        f"Time-weighted distributions: each delay counts until the next one. Upper panel: up to {100 * TAIL:g} %. "
        f"Lower panel: {100 * TAIL:g} to 99.9 %, with its own axis. Lost packets are excluded."
    )
    return Figure(f"delay-{key}", title, caption, alt.vconcat(*panels, spacing=12), count)


def _memory(points: Points, samples: list[Points]) -> Figure:
    span = float(points.at_s[-1] - points.at_s[0])
    known = [lag for lag in LAGS_S if points.step_s() <= lag < span / 2]
    modelled = np.mean([autocorrelation(one, known) for one in samples], axis=0)
    rows = _frame({"data": (known, autocorrelation(points, known)), "model": (known, modelled.tolist())})
    chart = _chart(
        rows, alt.X("x:Q", title="lag, s", scale=alt.Scale(type="log", nice=False)),
        alt.Y("y:Q", title="autocorrelation"), point=True,
    )  # fmt: skip
    caption = (
        "Autocorrelation of the delay over time. Intervals of the model are independent and its "
        "jitter has one correlation coefficient. A difference of the curves shows further memory "
        "in the log."
    )
    return Figure("autocorrelation", "Autocorrelation of the delay", caption, chart, rows.height)


def _losses(points: Points, samples: list[Points]) -> Figure:
    modelled: dict[int, float] = {}
    for one in samples:
        for length, count in runs_of_loss(one).items():
            modelled[length] = modelled.get(length, 0.0) + count / len(samples)

    def above(counts: Mapping[int, float]) -> Line:
        lengths = sorted(counts)
        return [float(n) for n in lengths], [
            float(sum(counts[m] for m in lengths if m >= n)) for n in lengths
        ]

    counts = {"data": above(runs_of_loss(points)), "model": above(modelled)}
    rows = _frame(counts).filter(pl.col("y") >= 1)
    x = alt.X(
        "x:Q",
        title=f"consecutive losses ({1000 * points.step_s():.3g} ms each)",
        scale=alt.Scale(type="log", padding=8),
        axis=alt.Axis(labelOverlap="greedy", labelSeparation=8),
    )
    y = alt.Y(
        "y:Q",
        title="bursts of at least this length",
        scale=alt.Scale(type="log", domainMin=1, nice=True),
        axis=alt.Axis(format="~s", labelOverlap="greedy"),
    )
    shade = colour(list(counts))
    line = alt.Chart(inline_csv(rows.filter(series="model"), digits=9)).mark_line(
        clip=True, interpolate="step-before"
    )
    # The data are above the model, so that no curve covers them.
    marks = alt.Chart(inline_csv(rows.filter(series="data"), digits=9)).mark_point(
        clip=True, filled=True, size=36, opacity=1
    )
    chart = alt.layer(line.encode(x=x, y=y, color=shade), marks.encode(x=x, y=y, color=shade)).properties(
        width=WIDTH - 80, height=260
    )
    caption = (
        "Number of loss bursts of at least this length, down to one burst. Points: the log. Line: the mean of the "
        "samples of the model."
    )
    return Figure("bursts", "Bursts of loss", caption, chart, rows.height)


def _rate(rates: Rates, model: Model, side: str) -> Figure:
    shares = np.linspace(0, 1, STEPS)
    of = {
        "data, measured": np.quantile(rates.bit_s, shares),
        "data, means of intervals": np.quantile(rate_means(rates, model.every_s), shares),
        "model": interpolate(model.rate_bit_s[side], shares),
    }
    rows = _frame({name: ((values / 1e6).tolist(), (100 * shares).tolist()) for name, values in of.items()})
    chart = _chart(
        rows, alt.X("x:Q", **axis(rows["x"].to_list(), "rate, Mbit/s")), alt.Y("y:Q", title="CDF, %")
    )
    caption = (
        "Each interval of the model has one rate, its mean. The model has no variation within an interval."
    )
    return Figure(f"rate-{side}", f"Rate (CDF), {side}", caption, chart, rows.height)


def _phases(phase: Phase, unit: str) -> Figure:
    spreads = phase.spreads
    rows = _frame({"data": ([BIN_S * n for n in range(len(spreads))], spreads)})
    chart = _chart(
        rows, alt.X("x:Q", title="phase, s", scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1)),
        alt.Y("y:Q", **axis(list(spreads), f"standard deviation within intervals, {unit}")), height=180,
    )  # fmt: skip
    caption = (
        "Mean standard deviation within intervals by the assumed phase of their start. The fit uses "
        "the minimum."
    )
    return Figure("phase", "Phase of the reconfiguration intervals", caption, chart, rows.height)
