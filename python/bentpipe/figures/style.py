"""How figures look: colours, sizes, light and dark, and small multiples.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which people who cannot tell red from green can
tell apart, without black, which a dark page would swallow. A controller has the same colour in every figure.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from bentpipe.figures.sweep_dimensions import Grid

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW, GREY = "#56B4E9", "#CC79A7", "#F0E442", "#8A8A8A"

_OWN = {
    "newreno": BLUE, "cubic": ORANGE, "bbr": GREEN, "bbr3": GREEN, "hybla": RED,
    "bbr1": SKY, "westwood": PURPLE, "fast": YELLOW,
}  # fmt: skip
_OTHERS = (BLUE, RED, GREEN, ORANGE, SKY, PURPLE, YELLOW, GREY)

WIDTH = 980
"""Width of a whole figure, CSS pixels."""

BYTES = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.3~g') + ' MB' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '.3~g') + ' kB' : format(datum.value, '.3~g') + ' B'"
)
"""Labels of an axis of bytes, as a Vega expression."""

SECONDS = "datum.value >= 1 ? format(datum.value, '.3~g') + ' s' : format(datum.value * 1e3, '.3~g') + ' ms'"
"""Those of an axis of seconds, short ones in milliseconds."""

_INK = {False: ("#1c2330", "#5b6575", "#e3e7ee"), True: ("#e8ecf3", "#9aa5b8", "#2b3442")}


def config(dark: bool = False) -> dict[str, Any]:
    """Vega-Lite configuration for a light or a dark page."""
    ink, soft, line = _INK[dark]
    font = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif"
    return {
        "background": None if dark else "transparent",
        "font": font,
        "view": {"stroke": line},
        "axis": {
            "labelColor": soft, "titleColor": soft, "gridColor": line, "domainColor": line, "tickColor": line,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "titlePadding": 6,
        },
        "legend": {
            "orient": "top", "labelColor": ink, "titleColor": soft, "labelFontSize": 12, "titleFontSize": 12,
            "titleFontWeight": "normal", "symbolStrokeWidth": 3, "columnPadding": 16, "labelLimit": 300,
        },
        "header": {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "labelFontWeight": 600,
                   "labelPadding": 4},
        "title": {"color": ink, "fontSize": 13, "fontWeight": 600, "anchor": "start"},
        "text": {"color": ink},
        "rule": {"color": soft},
        "line": {"strokeWidth": 1.6, "strokeJoin": "round"},
    }  # fmt: skip


def palette(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Domain and range of a colour scale: a controller's own colour, else the next that is free."""
    taken = {_OWN[label] for label in labels if label in _OWN}
    free = iter([colour for colour in _OTHERS if colour not in taken] + [GREY] * len(labels))
    return list(labels), [_OWN[label] if label in _OWN else next(free) for label in labels]


def colour(labels: Sequence[str], field: str = "series", title: str | None = None) -> alt.Color:
    """The colour of a series; without a legend when there is only one."""
    domain, shades = palette(labels)
    legend = alt.Legend(title=title) if len(labels) > 1 else None
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=domain, range=shades), legend=legend, title=title)


def shape(labels: Sequence[str], field: str = "series", title: str | None = None) -> alt.Shape:
    """A shape as a second sign beside the colour, in the same legend."""
    forms = [
        "circle",
        "square",
        "triangle-up",
        "diamond",
        "cross",
        "triangle-down",
        "triangle-right",
        "triangle-left",
    ]
    scale = alt.Scale(domain=list(labels), range=[forms[i % len(forms)] for i in range(len(labels))])
    legend = alt.Legend(title=title) if len(labels) > 1 else None
    return alt.Shape(f"{field}:N", scale=scale, legend=legend, title=title)


def inline_csv(frame: pl.DataFrame, digits: int = 5) -> alt.InlineData:
    """``frame`` as CSV inside the chart, numbers to ``digits`` significant digits: a third of the size of JSON."""
    numbers = [column for column, kind in frame.schema.items() if kind.is_numeric()]
    rounded = frame.with_columns(pl.col(column).cast(pl.Float64).round_sig_figs(digits) for column in numbers)
    parse = {c: "number" if c in numbers else "string" for c in frame.columns}
    with debug_mode(
        False
    ):  # Altair would print all values into a message for each schema that they are not of
        return alt.InlineData(values=rounded.write_csv(), format=alt.CsvDataFormat(type="csv", parse=parse))


def axis(values: Sequence[float], title: str) -> dict[str, Any]:
    """Title and scale of an axis of ``values``, none below 0: from 0, or, where that would leave more than half of it
    empty, from near the values, which the title then says."""
    near = min(values, default=0.0) > max(values, default=0.0) / 2
    said = f"{title} (does not begin at 0)" if near else title
    return {"title": said, "scale": alt.Scale(zero=not near)}


def panel_width(columns: int, own_axis: bool) -> int:
    """Width of one of ``columns`` panels side by side, so that the whole is ``WIDTH``."""
    axes = 56 * columns if own_axis else 56 + 14 * (columns - 1)
    return max(110, (WIDTH - axes) // columns)


def facet_grid(
    layers: Sequence[alt.Chart],
    frame: pl.DataFrame,
    where: Grid,
    height: int = 150,
    own_y: bool = False,
    names: Sequence[str] = (),
) -> alt.TopLevelMixin:
    """The same ``layers`` in every panel of ``where``: rows one under the other with scales of their own.

    Panels of a row share the vertical scale unless ``own_y``; ``names`` are what stands left of it, where that is no
    number. ``frame`` has the columns ``column`` and ``row`` (:meth:`bentpipe.figures.sweep_dimensions.Grid.select`).
    """
    parts = {row: frame.filter(pl.col("row") == row).drop("row") for row in _labels(where, "row")}
    parts = {row: part for row, part in parts.items() if part.height}
    parts = _apart(parts)
    columns = min(4, max(part["column"].n_unique() for part in parts.values()))
    width = panel_width(columns, own_y) - max(0, _text_width(names) - AXIS) // (1 if own_y else columns)
    charts = []
    for row, part in parts.items():
        present = set(part["column"].to_list())
        names = [name for name in _labels(where, "column") if name in present]
        chart: Any = alt.layer(*layers).properties(width=width, height=height)
        if names == [""]:
            chart = chart.properties(data=inline_csv(part.drop("column")))
        else:
            header = alt.Header(title=None, labelAnchor="start")
            chart = chart.facet(
                data=inline_csv(part), facet=alt.Facet("column:N", sort=names, header=header), columns=columns
            )
            if own_y:
                chart = chart.resolve_scale(y="independent")
        charts.append(chart.properties(title=row) if row else chart)
    if len(charts) == 1:
        whole: alt.TopLevelMixin = charts[0]
        return whole
    with warnings.catch_warnings():  # rows share one selection; Altair says so each time
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        return alt.vconcat(*charts, spacing=18)


def _apart(parts: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """``parts``, no two of which are equal: Vega-Lite takes equal data for one set, and loses the facets of one."""
    found: dict[str, pl.DataFrame] = {}
    for row, part in parts.items():
        same = any(part.equals(other) for other in found.values())
        found[row] = part.with_columns(row=pl.lit(row)) if same else part
    return found


AXIS = 84
"""Beside a panel there is as much room as this for an axis, CSS pixels; page.js has the same."""


def _text_width(names: Sequence[str]) -> int:
    """About how wide the longest of an axis's ``names`` is; Vega cuts them at 180 pixels."""
    return min(180, round(6.2 * max(map(len, names), default=0)))


def _labels(where: Grid, name: str) -> list[str]:
    dim, values = (where.column, where.columns) if name == "column" else (where.row, where.rows)
    return [dim.label(value) for value in values] if dim is not None else [""]
