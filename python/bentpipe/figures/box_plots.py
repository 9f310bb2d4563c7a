"""Notched box plots of page load times (dots if values are few) and times to response, by load and variant."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.figure import Figure
from bentpipe.figures.page_load_samples import TIMES, PageLoads, Sample, pairs
from bentpipe.figures.style import axis, facet_grid, palette
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.samples import notched_box, welch

BOX_SHARE = 0.84
"""Share of the distance between two loads that boxes cover."""

LEAST_BOX = 5
"""Smallest number of values with a box; fewer are dots."""

# A box as a polygon from the lower left corner; the notch is the interval of the median.
_ACROSS = "[-1, -1, -0.45, -1, -1, 1, 1, 0.45, 1, 1]"
_UP = (
    "[datum.q1, datum.bottom, datum.median, datum.top, datum.q3, "
    "datum.q3, datum.top, datum.median, datum.bottom, datum.q1]"
)


def page_load_time(context: FigureContext) -> Figure | None:
    """Draw boxes of PLT, from connectStart to loadEventEnd."""
    return _boxes(context, "page-load-time", "plt_s", "Page load time", "from connectStart to loadEventEnd")


def time_to_response(context: FigureContext) -> Figure | None:
    """Draw boxes of TTR, from connectStart to responseStart."""
    return _boxes(
        context,
        "time-to-response",
        "ttr_s",
        "Time to response",
        "from connectStart to the first byte of the response",
    )


def _boxes(context: FigureContext, key: str, metric: str, title: str, definition: str) -> Figure | None:
    if not context.pages.height:
        return None
    page_loads = PageLoads(context)
    samples = [sample for sample in page_loads.samples(metric) if sample.values]
    if not samples:
        return None
    where = page_loads.panels(by_load=False)
    half = BOX_SHARE / len(page_loads.variants) / 2
    rows = [
        {
            **sample.cell, "variant": sample.variant, "load": sample.load,
            "at": sample.load + (2 * page_loads.variants.index(sample.variant) - len(page_loads.variants) + 1) * half,
            **_numbers(sample),
        }
        for sample in samples
    ]  # fmt: skip
    texts = dict.fromkeys(samples[0].cell, pl.String)
    frame = where.select(
        pl.DataFrame(rows, schema_overrides={**texts, "notch_low": pl.Float64, "notch_high": pl.Float64})
    ).drop(list(texts))
    if not frame.height:
        return None
    frame = _add_p_values(frame, where.select(_p_values(samples)) if len(page_loads.variants) == 2 else None)
    chart = facet_grid(_layers(frame, page_loads, half, TIMES[metric].title), frame, where, height=230)
    caption = f"{title}, {definition}. {_meaning(samples, frame)} {where.note}".strip()
    return Figure(key, title, caption, chart, frame.height)


def _meaning(samples: list[Sample], frame: pl.DataFrame) -> str:
    """Return the explanation of a box."""
    counts = sorted({len(sample.values) for sample in samples})
    dots = f"Each dot is one load, where there are fewer than {LEAST_BOX}." if counts[0] < LEAST_BOX else ""
    test = " p: p-value of Welch's t-test of equal means." if frame["p"].str.len_chars().max() else ""
    counts = [count for count in counts if count >= LEAST_BOX]
    if not counts:
        return f"Each dot is one load; dash: median.{test}"
    number = f"{counts[0]} loads" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} loads"
    notch = (
        "notch: 95 % confidence interval of the median."
        if frame.filter(pl.col("n") >= LEAST_BOX)["notch_low"].is_not_null().all()
        else "no notch below 6 values, because the median has no confidence interval."
    )
    box = f"Each box shows the quartiles of {number}; whiskers: minimum and maximum; {notch}{test}"
    return f"{box} {dots}".strip()


def _numbers(sample: Sample) -> dict[str, Any]:
    box = notched_box(sample.values)
    return {
        "n": box.n, "low": box.low, "q1": box.quartile_1, "median": box.median, "q3": box.quartile_3,
        "high": box.high, "notch_low": box.notch_low, "notch_high": box.notch_high,
        "bottom": box.median if box.notch_low is None else box.notch_low,
        "top": box.median if box.notch_high is None else box.notch_high,
        "each": ";".join(f"{value:.5g}" for value in sample.values) if box.n < LEAST_BOX else "",
    }  # fmt: skip


def _p_values(samples: list[Sample]) -> pl.DataFrame:
    """Return Welch's p-value of the two variants of every cell and load."""
    rows = []
    for one, two in pairs(samples):
        test = welch(one.values, two.values)
        if test is not None:
            rows.append({**one.cell, "load": one.load, "p": f"p {_p_text(test.p)}"})
    return pl.DataFrame(
        rows, schema={**dict.fromkeys(samples[0].cell, pl.String), "load": pl.Int64, "p": pl.String}
    )


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {format_significant(p, 2)}"


def _add_p_values(frame: pl.DataFrame, tests: pl.DataFrame | None) -> pl.DataFrame:
    """Add the text of the test, once for each load, and its height below the boxes of a row."""
    low, high = pl.col("low").min().over("row"), pl.col("high").max().over("row")
    span = pl.when(high > low).then(high - low).otherwise(high.abs() * 0.1 + 1e-9)
    frame = frame.with_columns(floor=pl.max_horizontal(low - 0.12 * span, pl.lit(0.0)))
    if tests is None or not tests.height:
        return frame.with_columns(p=pl.lit(""))
    first = pl.int_range(pl.len()).over("row", "column", "load") == 0
    joined = frame.join(
        tests.select("row", "column", "load", "p"),
        on=["row", "column", "load"],
        how="left",
        maintain_order="left",
    )
    return joined.with_columns(p=pl.when(first).then("p").otherwise(pl.lit("")).fill_null(""))


def _layers(frame: pl.DataFrame, page_loads: PageLoads, half: float, name: str) -> list[alt.Chart]:
    domain, shades = palette(page_loads.variants, page_loads.context.colours)
    scale = alt.Scale(domain=domain, range=shades)
    legend = (
        alt.Legend(title=page_loads.variant_title, symbolType="square")
        if len(page_loads.variants) > 1
        else None
    )
    x_scale = alt.Scale(domain=[page_loads.loads[0] - 0.5, page_loads.loads[-1] + 0.5], nice=False)
    loads = alt.Axis(values=page_loads.loads, format="d", grid=False, ticks=False)
    upright = axis([*frame["low"].to_list(), *frame["high"].to_list()], f"{name}, s")
    tips = [
        alt.Tooltip("variant:N", title=page_loads.variant_title), "load:Q", "n:Q",
        *[alt.Tooltip(f"{field}:Q", title=f"{title}, s", format=".4~g")
          for field, title in (("median", "median"), ("notch_low", "interval from"), ("notch_high", "to"),
                               ("q1", "first quartile"), ("q3", "third quartile"), ("low", "least"),
                               ("high", "largest"))],
    ]  # fmt: skip
    half_box = 0.86 * half

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title="load", scale=x_scale, axis=loads)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", axis=alt.Axis(tickCount=6), **upright)

    stroke = alt.Stroke("variant:N", scale=scale, legend=legend, title=page_loads.variant_title)
    fill = alt.Fill("variant:N", scale=scale, legend=legend, title=page_loads.variant_title)
    base = alt.Chart()
    many = f"datum.n >= {LEAST_BOX}"
    whiskers = [
        base.transform_filter(many)
        .mark_rule(strokeWidth=1.4)
        .encode(x=x("at"), y=y(a), y2=f"{b}:Q", stroke=stroke)
        for a, b in (("low", "q1"), ("q3", "high"))
    ]
    caps = [
        base.mark_rule(strokeWidth=1.4)
        .transform_filter(many)
        .transform_calculate(left=f"datum.at - {half_box / 2}", right=f"datum.at + {half_box / 2}")
        .encode(x=x("left"), x2="right:Q", y=y(end), stroke=stroke)
        for end in ("low", "high")
    ]
    polygon = (
        base.mark_line(filled=True, interpolate="linear-closed", fillOpacity=0.3, strokeWidth=1.6)
        .transform_filter(many)
        .transform_calculate(across=_ACROSS, up=_UP, corner="sequence(10)")
        .transform_flatten(["across", "up", "corner"])
        .transform_calculate(px=f"datum.at + {half_box} * datum.across")
        .encode(x=x("px"), y=y("up"), detail="at:Q", order="corner:Q", fill=fill, stroke=stroke)
    )
    middle = (
        base.mark_rule(strokeWidth=2.6)
        .transform_calculate(left=f"datum.at - {0.45 * half_box}", right=f"datum.at + {0.45 * half_box}")
        .encode(x=x("left"), x2="right:Q", y=y("median"), stroke=stroke)
    )
    hover = base.mark_bar(opacity=0).transform_calculate(
        left=f"datum.at - {half_box}", right=f"datum.at + {half_box}"
    ).encode(x=x("left"), x2="right:Q", y=y("low"), y2="high:Q", tooltip=tips)  # fmt: skip
    dots = (
        base.mark_point(filled=True, size=34, opacity=0.8)
        .transform_filter("isValid(datum.each) && datum.each != ''")
        .transform_calculate(value="split(datum.each, ';')")
        .transform_flatten(["value"])
        .transform_calculate(value="toNumber(datum.value)")
        .encode(x=x("at"), y=y("value"), fill=fill, stroke=stroke)
    )
    floor = base.mark_point(opacity=0).encode(x=x("at"), y=y("floor"))
    layers = [floor, *whiskers, *caps, polygon, middle]
    if frame["each"].str.len_chars().max():
        layers.append(dots)
    if frame["p"].str.len_chars().max():
        has_text = "isValid(datum.p) && datum.p != ''"
        text = base.mark_text(fontSize=10.5, baseline="middle").transform_filter(has_text)
        layers.append(text.encode(x=x("load"), y=y("floor"), text="p:N"))
    return [*layers, hover]
