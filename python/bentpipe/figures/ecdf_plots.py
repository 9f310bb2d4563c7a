"""Empirical distributions and autocorrelation of page load times."""

from __future__ import annotations

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.downsample import MAX_ROWS
from bentpipe.figures.figure import Figure
from bentpipe.figures.page_load_samples import TIMES, PageLoads
from bentpipe.figures.style import GREY, axis, colour, facet_grid
from bentpipe.metrics.samples import autocorrelation, ecdf


def page_load_distribution(context: FigureContext) -> Figure | None:
    """Draw empirical distributions of PLT."""
    return _distribution(context, "page-load-distribution", "plt_s", "Page load time (ECDF)")


def time_to_response_distribution(context: FigureContext) -> Figure | None:
    """Draw empirical distributions of TTR."""
    return _distribution(context, "time-to-response-distribution", "ttr_s", "Time to response (ECDF)")


def _distribution(context: FigureContext, key: str, metric: str, title: str) -> Figure | None:
    if not context.pages.height:
        return None
    loads = PageLoads(context)
    where = loads.panels(by_load=True)
    parts = []
    for sample in loads.samples(metric):
        if len(sample.values) < 2:
            continue
        steps = ecdf(sample.values)
        shares = [100 * count / sample.loads for count in steps.counts]
        cell = {**sample.cell, "load": str(sample.load), "series": sample.variant}
        parts.append(
            pl.DataFrame({"x": [steps.values[0], *steps.values], "y": [0.0, *shares]}).with_columns(
                pl.lit(value, pl.String).alias(name) for name, value in cell.items()
            )
        )
    if not parts:
        return None
    by = ["row", "column", "series"]
    rows = where.select(pl.concat(parts)).select(*by, "x", "y")
    if not rows.height:
        return None
    most = max(4, MAX_ROWS // rows.select(pl.struct(by).n_unique()).item())
    place, count = pl.int_range(pl.len()).over(by), pl.len().over(by)
    rows = rows.filter((place % (count / most).ceil().cast(pl.Int64) == 0) | (place == count - 1))
    line = alt.Chart().mark_line(interpolate="step-after").encode(
        x=alt.X("x:Q", **axis(rows["x"].to_list(), TIMES[metric].axis)),
        y=alt.Y("y:Q", title="loads, %", scale=alt.Scale(domain=[0, 100])),
        color=colour(loads.variants, title=loads.variant_title, known=loads.context.colours),
    )  # fmt: skip
    caption = (
        "Share of loads of all sessions that finish within this time. A curve above the other at "
        "every time has first-order stochastic dominance. A curve that ends below 100 % has "
        "unfinished loads."
    )
    return Figure(
        key,
        title,
        f"{caption} {where.note}".strip(),
        facet_grid([line], rows, where, height=190),
        rows.height,
    )


def session_autocorrelation(context: FigureContext) -> Figure | None:
    """Draw the autocorrelation of PLT over sessions, with the 95 % zone of independent values."""
    if not context.pages.height:
        return None
    loads = PageLoads(context)
    where = loads.panels(by_load=True)
    half = 0.3 / max(1, len(loads.variants) - 1) if len(loads.variants) > 1 else 0.0
    rows, counts = [], []
    for sample in loads.samples("plt_s"):
        result = autocorrelation(sample.values)
        if result is None:
            continue
        counts.append(result.n)
        shift = (2 * loads.variants.index(sample.variant) - len(loads.variants) + 1) * half / 2
        rows += [
            {**sample.cell, "load": str(sample.load), "series": sample.variant, "lag": lag, "at": lag + shift,
             "r": r, "zone": result.zone, "nought": 0.0}
            for lag, r in enumerate(result.coefficients, start=1)
        ]  # fmt: skip
    if not rows:
        return None
    cell = [name for dim in loads.cell_dims for name in dim.keys]
    frame = where.select(pl.DataFrame(rows, schema_overrides=dict.fromkeys(cell, pl.String)))
    frame = frame.select("row", "column", "series", "lag", "at", "r", "zone", "nought")
    last = max(frame["lag"].to_list(), default=1)
    frame = frame.with_columns(left=pl.lit(0.4), right=pl.lit(last + 0.6))
    x_scale = alt.Scale(domain=[0.4, last + 0.6], nice=False)
    y_scale = alt.Scale(domain=[-1, 1])
    lags = alt.Axis(
        values=[lag for lag in range(1, last + 1) if last <= 12 or lag % 5 == 0], format="d", grid=False
    )
    hue = colour(loads.variants, title=loads.variant_title, known=loads.context.colours)
    base = alt.Chart()
    tips = ["series:N", "lag:Q", alt.Tooltip("r:Q", title="coefficient", format=".3f"),
            alt.Tooltip("zone:Q", title="band ±", format=".3f")]  # fmt: skip

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title="autocorrelation", scale=y_scale, axis=alt.Axis(tickCount=5))

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title="lag, sessions", scale=x_scale, axis=lags)

    layers = [
        base.mark_rect(color=GREY, opacity=0.14)
        .transform_aggregate(zone="max(zone)", left="max(left)", right="max(right)", groupby=["column"])
        .transform_calculate(below="-datum.zone")
        .encode(x=x("left"), x2="right:Q", y=y("below"), y2="zone:Q"),
        base.mark_rule(strokeWidth=2).encode(x=x("at"), y=y("nought"), y2="r:Q", color=hue),
        base.mark_point(filled=True, size=36, opacity=1).encode(x=x("at"), y=y("r"), color=hue, tooltip=tips),
    ]
    caption = (
        f"Autocorrelation of page load times in the order of the sessions ({min(counts)} to "
        f"{max(counts)} sessions). For independent values, 95 % of the coefficients are inside the "
        "grey band, ±1.96/√n."
    ).replace(f"({max(counts)} to {max(counts)} sessions)", f"({max(counts)} sessions)")
    chart = facet_grid(layers, frame, where, height=150)
    return Figure(
        "autocorrelation",
        "Autocorrelation of page load times",
        f"{caption} {where.note}".strip(),
        chart,
        frame.height,
    )
