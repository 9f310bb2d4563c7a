"""Style of figures: colours, sizes, light and dark configuration, facet grids.

Every colour has a contrast of at least 4.5 to its page (WCAG 2.2, 1.4.3), as text has. No colour reaches that on white
and on black, so a dark page has its own. Hues follow Okabe and Ito (Color Universal Design, 2008). Lightness keeps them
distinguishable with red-green colour blindness. A controller has the same colour in every figure.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from bentpipe.figures.sweep_dimensions import Grid

BLUE, ORANGE, GREEN, RED = "#0072B2", "#A36100", "#007A55", "#B5173F"
VIOLET, PURPLE, OLIVE, GREY = "#5B2BA8", "#C2308F", "#3F4A00", "#6E6E6E"

PALETTE = (BLUE, RED, GREEN, ORANGE, VIOLET, PURPLE, OLIVE, GREY)
"""Colours of a light page and of files, in the order of their use."""

DARK = dict(
    zip(
        PALETTE,
        ("#4FB0EA", "#E8632B", "#1FC08F", "#E69F00", "#9B7BFF", "#E07BB5", "#F0E442", "#BFC5CE"),
        strict=True,
    )
)
"""Colour of a dark page for each colour of :data:`PALETTE`; page.js replaces them in specifications."""

_CONTROLLER_COLOURS = {
    "newreno": BLUE, "cubic": ORANGE, "bbr": GREEN, "bbr3": GREEN, "hybla": RED,
    "bbr1": VIOLET, "westwood": PURPLE, "fast": OLIVE,
}  # fmt: skip
_CONTROLLER_OF_FLOW = re.compile(r".*\((\w+)\)")

WIDTH = 980
"""Width of a whole figure, CSS pixels."""

BYTES = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.3~g') + ' MB' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '.3~g') + ' kB' : format(datum.value, '.3~g') + ' B'"
)
"""Vega expression of the labels of an axis of bytes."""

SECONDS = "datum.value >= 1 ? format(datum.value, '.3~g') + ' s' : format(datum.value * 1e3, '.3~g') + ' ms'"
"""Vega expression of the labels of an axis of seconds; values below 1 s are in milliseconds."""

_INK = {False: ("#1c2330", "#5b6575", "#e3e7ee"), True: ("#e8ecf3", "#9aa5b8", "#2b3442")}


LABEL_GAP = 6
"""Smallest distance of labels of an axis, pixels; closer ones are left out."""

POINT_SIZE = 90
"""Area of a point with a shape, in a figure and in its legend, square pixels."""


def config(dark: bool = False) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a light or a dark page."""
    ink, soft, line = _INK[dark]
    font = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif"
    return {
        "background": None if dark else "transparent",
        "font": font,
        "view": {"stroke": line},
        "axis": {
            "labelColor": soft, "titleColor": soft, "gridColor": line, "domainColor": line, "tickColor": line,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "titlePadding": 6,
            "labelSeparation": LABEL_GAP,
        },
        "legend": {
            "orient": "top", "labelColor": ink, "titleColor": soft, "labelFontSize": 12, "titleFontSize": 12,
            "titleFontWeight": "normal", "symbolStrokeWidth": 3, "symbolSize": POINT_SIZE, "columnPadding": 16,
            "labelLimit": 300,
        },
        "header": {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "labelFontWeight": 600,
                   "labelPadding": 4},
        "title": {"color": ink, "fontSize": 13, "fontWeight": 600, "anchor": "start"},
        "text": {"color": ink},
        "rule": {"color": soft},
        "line": {"strokeWidth": 1.6, "strokeJoin": "round"},
    }  # fmt: skip


def palette(labels: Sequence[str], known: Mapping[str, str] | None = None) -> tuple[list[str], list[str]]:
    """Return domain and range of a colour scale.

    A label in ``known`` keeps that colour. A controller, or a flow with its controller in parentheses, has the fixed
    colour of the controller unless another label has it. Every other label has the next unused colour.
    """
    chosen = {label: known[label] for label in labels if label in known} if known else {}
    for label in labels:
        fixed = _CONTROLLER_COLOURS.get(_CONTROLLER_OF_FLOW.sub(r"\1", label))
        if label not in chosen and fixed is not None and fixed not in chosen.values():
            chosen[label] = fixed
    free = iter([shade for shade in PALETTE if shade not in chosen.values()])
    for label in labels:
        if label not in chosen:
            chosen[label] = next(free, GREY)
    return list(labels), [chosen[label] for label in labels]


def colour(
    labels: Sequence[str],
    field: str = "series",
    title: str | None = None,
    known: Mapping[str, str] | None = None,
) -> alt.Color:
    """Return the colour encoding of a series (:func:`palette`); a single series has no legend."""
    domain, shades = palette(labels, known)
    legend = alt.Legend(title=title, symbolOpacity=1) if len(labels) > 1 else None
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=domain, range=shades), legend=legend, title=title)


def shape(labels: Sequence[str], field: str = "series", title: str | None = None) -> alt.Shape:
    """Return a shape encoding that repeats the colour encoding, in the same legend."""
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
    # The stroke of the legends of lines would enlarge the points.
    legend = alt.Legend(title=title, symbolStrokeWidth=0) if len(labels) > 1 else None
    return alt.Shape(f"{field}:N", scale=scale, legend=legend, title=title)


def inline_csv(frame: pl.DataFrame, digits: int = 5) -> alt.InlineData:
    """Return ``frame`` as inline CSV, a third of the size of JSON; numbers have ``digits`` significant digits."""
    numbers = [column for column, kind in frame.schema.items() if kind.is_numeric()]
    rounded = frame.with_columns(pl.col(column).cast(pl.Float64).round_sig_figs(digits) for column in numbers)
    parse = {c: "number" if c in numbers else "string" for c in frame.columns}
    # Otherwise Altair prints all values into a message for each schema that they do not match.
    with debug_mode(False):
        return alt.InlineData(values=rounded.write_csv(), format=alt.CsvDataFormat(type="csv", parse=parse))


def axis(values: Sequence[float], title: str) -> dict[str, Any]:
    """Return title and scale of an axis of nonnegative ``values``.

    The scale begins at 0 unless more than half of the axis would be empty; then the title says so.
    """
    cut = min(values, default=0.0) > max(values, default=0.0) / 2
    text = [title, "(does not begin at 0)"] if cut else title
    return {"title": text, "scale": alt.Scale(zero=not cut)}


MAX_AXIS_VALUES = 200
"""Largest number of values along the axis of a figure."""

MAX_TILTED = 40
"""Largest number of labels of a category axis that are tilted; of more, some are left out."""

CHARACTER = 6.5
"""Approximate width of a character of a label, pixels."""


def category_axis(labels: Sequence[str], columns: int) -> alt.Axis:
    """Return the horizontal axis of categories; labels that are too broad for a panel are tilted.

    Args:
        labels: labels of the axis.
        columns: number of panels in a row.
    """
    few = len(labels) <= MAX_TILTED
    broad = CHARACTER * sum(map(len, labels)) > panel_width(columns, own_axis=True)
    return alt.Axis(labelAngle=-25 if broad and few else 0, labelOverlap=not few, labelLimit=260)


def panels_in_row(panels: int) -> int:
    """Return the number of panels in a row, so that rows have equal numbers: four panels are two by two."""
    rows = -(-panels // 4) if panels > 6 else -(-panels // 3)
    return -(-panels // rows)


def panel_width(columns: int, own_axis: bool) -> int:
    """Return the width of one of ``columns`` panels in a row of ``WIDTH``."""
    axes = 56 * columns if own_axis else 56 + 14 * (columns - 1)
    return max(110, (WIDTH - axes) // columns)


def facet_grid(
    layers: Sequence[alt.Chart],
    frame: pl.DataFrame,
    where: Grid,
    height: int = 150,
    own_y: bool = False,
    own_x: bool = False,
    names: Sequence[str] = (),
) -> alt.TopLevelMixin:
    """Draw the same ``layers`` in every panel of ``where``; each row of panels has separate scales.

    Args:
        layers: layers of a panel.
        frame: data with columns ``column`` and ``row`` (:meth:`bentpipe.figures.sweep_dimensions.Grid.select`).
        where: panels.
        height: height of a panel, CSS pixels.
        own_y: give each panel of a row a separate vertical scale.
        own_x: give each panel of a row a separate horizontal scale.
        names: labels of a nominal vertical axis.
    """
    parts = {row: frame.filter(pl.col("row") == row).drop("row") for row in _labels(where, "row")}
    parts = {row: part for row, part in parts.items() if part.height}
    parts = _distinguish(parts)
    panels = max(part["column"].n_unique() for part in parts.values())
    columns = panels_in_row(panels) if len(parts) == 1 else min(4, panels)
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
            if own_x:
                chart = chart.resolve_scale(x="independent")
        charts.append(chart.properties(title=row) if row else chart)
    if len(charts) == 1:
        whole: alt.TopLevelMixin = charts[0]
        return whole
    with warnings.catch_warnings():  # rows share one selection; Altair warns each time
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        return alt.vconcat(*charts, spacing=18)


def _distinguish(parts: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make equal ``parts`` different, because Vega-Lite merges equal data and loses the facets of one."""
    distinct: dict[str, pl.DataFrame] = {}
    for row, part in parts.items():
        duplicate = any(part.equals(other) for other in distinct.values())
        distinct[row] = part.with_columns(row=pl.lit(row)) if duplicate else part
    return distinct


AXIS = 84
"""Width of an axis beside a panel, CSS pixels; page.js has the same constant."""


def _text_width(names: Sequence[str]) -> int:
    """Return the approximate width of the longest of ``names``, CSS pixels; Vega truncates at 180."""
    return min(180, round(6.2 * max(map(len, names), default=0)))


def _labels(where: Grid, name: str) -> list[str]:
    dim, values = (where.column, where.columns) if name == "column" else (where.row, where.rows)
    return [dim.label(value) for value in values] if dim is not None else [""]
