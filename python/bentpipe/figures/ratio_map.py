"""Map of ratios over a logarithmic axis and rows of equal height, with the break-even line."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures.contour import Box, contour, outside
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, BYTES, GREY, RED, WIDTH, inline_csv
from bentpipe.metrics.intervals import format_significant

MAX_FACTOR = 64.0
"""Ratios beyond this factor (and its inverse) share the darkest colour; the number in the cell remains."""

MIN_FACTOR = 2.0
"""Smallest range of the colours, so that noise in ratios near 1 does not look like a result."""

DEEP = 0.75
"""Share of the range of the colours from which a number is white: there its contrast exceeds that of black."""

LABEL, DIGIT = 11, 6.2
"""Height of a number in a cell, and the width of a digit of that font, CSS pixels."""

GAP = 2.5
"""Gap between a number and the line, including half of the line's width, CSS pixels."""

OWN_GAP = 0.35
"""Gap below the own row, as a fraction of a row."""

MARGIN = 0.08
"""Margin of the vertical parts of the line above and below, as a fraction of a row."""

PALE = 0.6
"""Opacity of a number whose interval includes 1."""

ROW, LOW_ROW = 36, 22
"""Height of a row of cells with and without numbers, CSS pixels."""

MIN_CELL = 26
"""Narrowest cell with a number, CSS pixels; a panel with narrower cells has no numbers."""

MIN_PAIR_WIDTH = 600
"""Smallest width of two panels in a row, CSS pixels."""

_INK, _PAPER, _MIDDLE = "#1c2330", "#ffffff", "#f2f0eb"
# In lower case a dark page keeps them (page.js), so that the numbers remain legible on them.
_SLOWER, _FASTER = BLUE.lower(), RED.lower()


@dataclass(frozen=True, slots=True)
class RatioCell:
    """Cell of a map: ``x`` in bytes or the unit of its axis, ``y`` in seconds, and the ratio; ``None`` if unknown."""

    x: float
    y: float
    ratio: float | None
    panel: str = ""
    bound: str = ""
    """``≥`` or ``≤`` before the number, if the ratio is a bound."""
    is_uncertain: bool = False
    """Whether the interval of the ratio includes 1; the number is pale then."""

    @property
    def text(self) -> str:
        """Number in the cell; a bound has fewer digits."""
        if self.bound and self.ratio is not None:
            return f"{self.bound}{self.ratio:.{0 if self.ratio >= 10 else 1}f}"
        return _ratio_text(self.ratio)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of equal height from the top of a panel; the own row stands apart from the others."""

    ys: tuple[float, ...]
    own: float | None

    @classmethod
    def of(cls, cells: Sequence[RatioCell], own: float | None) -> _Rows:
        ys = sorted({cell.y for cell in cells}, reverse=True)
        return cls((own, *(y for y in reversed(ys) if y != own)) if own in ys else tuple(ys), own)

    def top(self, y: float) -> float:
        """Return the distance of a row from the top, in rows."""
        return self.ys.index(y) + (OWN_GAP if y != self.own and self.own in self.ys else 0.0)

    @property
    def height(self) -> float:
        """Height of all rows, in rows."""
        return self.top(self.ys[-1]) + 1

    @property
    def groups(self) -> list[tuple[float, ...]]:
        """Neighbouring rows, which share a line."""
        if self.own not in self.ys:
            return [self.ys]
        return [group for group in (self.ys[:1], self.ys[1:]) if group]


def ratio_map(
    cells: Sequence[RatioCell], key: str, title: str, caption: str, *, above: str, below: str,
    x_title: str = "object size", y_title: str = "round-trip time", x_labels: str = BYTES,
    pick: alt.Parameter | None = None, own: float | None = None,
) -> Figure:  # fmt: skip
    """Draw a map of ``cells``, one panel for each value of ``panel``, all with the same colours.

    All rows have the same height. The line is the break-even line (ratio 1). In each row it is vertical, at the size
    where the logarithm of the ratio is 0. That size is interpolated by its logarithm. Between rows it joins these
    places.

    Args:
        cells: cells of all panels.
        key: key of the figure.
        title: title of the figure.
        caption: caption of the figure.
        above: meaning of a ratio above 1, such as "split TCP is faster".
        below: meaning of a ratio below 1.
        x_title: title of the x axis.
        y_title: title of the y axis.
        x_labels: Vega expression of the labels of the x axis.
        pick: selection of the cell under the pointer, by ``x`` and ``y``.
        own: row of the reader's own case, which is marked and stands above the others.

    Raises:
        ValueError: no cell has a ratio, or a ratio is not above 0.
    """
    ratios = [cell.ratio for cell in cells if cell.ratio is not None]
    if not ratios or min(ratios) <= 0:
        raise ValueError("a map needs ratios, and all above 0")
    factor = _colour_range(max(*ratios, 1 / min(ratios)))
    names = list(dict.fromkeys(cell.panel for cell in cells))

    def chart(wide: float) -> Any:
        columns = 1 if len(names) == 1 or len({cell.x for cell in cells}) > 12 or wide < MIN_PAIR_WIDTH else 2
        panel = wide - 70 if columns == 1 else (wide - 170) // 2
        panels = [
            _panel(
                [cell for cell in cells if cell.panel == name],
                name,
                factor,
                panel,
                (x_title, y_title, x_labels),
                pick,
                own,
            )
            for name in names
        ]
        with warnings.catch_warnings():  # all panels share one selection; Altair warns each time
            warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
            return panels[0] if len(panels) == 1 else alt.concat(*panels, columns=columns, spacing=18)

    legend = (
        f"The numbers are ratios: above 1 {above}, below 1 {below}. The line shows the "
        "interpolated ratio of 1."
    )
    if own is not None and any(cell.y == own for cell in cells):
        legend += " The row in the frame is yours."
    if any(cell.is_uncertain for cell in cells):
        legend += " The interval of a pale number includes 1."
    if any(cell.bound for cell in cells):
        legend += " A number with ≥ or ≤ is a bound, because loads did not finish."
    return Figure(key, title, f"{caption} {legend}".strip(), chart(WIDTH), len(cells), drawn_for=chart)


def _panel(
    cells: Sequence[RatioCell], name: str, factor: float, width: float, titles: tuple[str, str, str],
    pick: alt.Parameter | None, own: float | None,
) -> Any:  # fmt: skip
    xs, rows = sorted({cell.x for cell in cells}), _Rows.of(cells, own)
    x_edges = _edges(xs)
    limit = math.log2(factor)
    numbered = width / len(xs) >= MIN_CELL
    row_px = ROW if numbered else LOW_ROW
    per_px = (math.log(x_edges[-1] / x_edges[0]) / width, 1 / row_px)
    boxes = _text_boxes(cells, rows, per_px) if numbered else []
    records = []
    for cell in cells:
        i, top = xs.index(cell.x), rows.top(cell.y)
        height = None if cell.ratio is None else math.log2(cell.ratio)
        records.append(
            {
                "x": cell.x, "y": cell.y, "panel": name, "left": x_edges[i], "right": x_edges[i + 1], "low": top,
                "middle": top + 0.5, "high": top + 1, "height": height, "text": cell.text,
                "deep": 2 if height is None else int(abs(height) > DEEP * limit), "pale": int(cell.is_uncertain),
            }
        )  # fmt: skip
    data = inline_csv(pl.DataFrame(records, schema_overrides={"height": pl.Float64}), digits=9)
    x_title, y_title, x_labels = titles
    x = alt.X("left:Q", title=x_title, scale=_log(x_edges),
              axis=alt.Axis(values=xs, labelExpr=x_labels, grid=False, labelAngle=-40, labelAlign="right",
                            labelOverlap=False))  # fmt: skip
    y_scale = alt.Scale(domain=[0, rows.height], nice=False, reverse=True)
    y = alt.Y("low:Q", title=y_title, scale=y_scale, axis=_row_axis(rows))
    hue = alt.Color(
        "height:Q",
        scale=alt.Scale(domain=[-limit, 0, limit], range=[_SLOWER, _MIDDLE, _FASTER], interpolate="lab", clamp=True),
        legend=alt.Legend(
            title="ratio", labelExpr=_TICK, gradientLength=min(260, width - 40), values=_ticks(limit), orient="top",
            direction="horizontal",
        ),
    )  # fmt: skip
    base = alt.Chart(data)
    x_mid = alt.X("x:Q", scale=_log(x_edges), title=titles[0])
    y_mid = alt.Y("middle:Q", scale=y_scale, title=titles[1])
    opacity = alt.condition("datum.pale == 1", alt.value(PALE), alt.value(1.0))
    layers = [
        base.transform_filter("isValid(datum.height)")
        .mark_rect(stroke=_PAPER, strokeWidth=1)
        .encode(x=x, x2="right:Q", y=y, y2="high:Q", color=hue),
        *_own_frame(rows, x_edges, y_scale),
        *_break_even(cells, xs, rows, (x_edges, y_scale), boxes),
        *(
            # page.js reads the number of columns from the style.
            base.mark_text(fontSize=LABEL, color=ink, style=f"of-{len(xs)}")
            .transform_filter(f"datum.deep == {deep}")
            .encode(x=x_mid, y=y_mid, text="text:N", opacity=opacity)
            for deep, ink in enumerate((_INK, _PAPER, GREY)) if numbered
        ),
    ]  # fmt: skip
    if pick is not None:
        # An invisible top layer selects the nearest cell, regardless of the mark under the pointer.
        layers.append(base.mark_point(opacity=0).encode(x=x_mid, y=y_mid).add_params(pick))
    chart: Any = alt.layer(*layers).properties(width=width, height=round(row_px * rows.height))
    return chart.properties(title=name) if name else chart


_TICK = "datum.value < 0 ? '1/' + format(pow(2, -datum.value), 'd') : format(pow(2, datum.value), 'd')"
"""Vega expression of a label of the legend: a power of two."""


def _colour_range(factor: float) -> float:
    """Return the power of two up to which colours differ: that above ``factor``, an even one if it is large."""
    power = math.ceil(math.log2(max(MIN_FACTOR, min(MAX_FACTOR, factor))) - 1e-9)
    return 2.0 ** (power + power % 2 if power > MOST_TICKS else power)


MOST_TICKS = 3
"""Largest power of two with a tick for each; a longer legend has one for every other."""


def _ticks(limit: float) -> list[int]:
    """Return the powers of two of the legend."""
    step = 1 if limit <= MOST_TICKS else 2
    return list(range(-round(limit), round(limit) + 1, step))


def _row_axis(rows: _Rows) -> alt.Axis:
    """Return the axis with the value of each row; the own one is bold."""
    middles = [rows.top(y) + 0.5 for y in rows.ys]
    labels = [_seconds_text(y) for y in rows.ys]
    weight: Any = "normal"
    if rows.own in rows.ys:
        weight = alt.condition("datum.value == 0.5", alt.value("bold"), alt.value("normal"))
    expression = f"{labels}[indexof({middles}, datum.value)]"
    return alt.Axis(values=middles, labelExpr=expression, grid=False, ticks=False, labelFontWeight=weight)


def _own_frame(rows: _Rows, x_edges: Sequence[float], y_scale: alt.Scale) -> list[alt.Chart]:
    """Return a frame around the own row."""
    if rows.own not in rows.ys:
        return []
    frame = pl.DataFrame({"left": [x_edges[0]], "right": [x_edges[-1]], "low": [0.0], "high": [1.0]})
    base = alt.Chart(inline_csv(frame, digits=9)).encode(
        x=alt.X("left:Q", scale=_log(x_edges)), x2="right:Q", y=alt.Y("low:Q", scale=y_scale), y2="high:Q"
    )
    return [base.mark_rect(fillOpacity=0, stroke=GREY, strokeWidth=2)]


def _break_even(
    cells: Sequence[RatioCell], xs: Sequence[float], rows: _Rows, scales: tuple[list[float], alt.Scale],
    boxes: Sequence[Box],
) -> list[alt.Chart]:  # fmt: skip
    """Return the break-even line with a light outline, visible on every colour, and gaps at the ``boxes``."""
    x_edges, y_scale = scales
    logarithms = [math.log(x) for x in xs]
    segments = []
    for group in rows.groups:
        places = {y: (rows.top(y) + MARGIN, rows.top(y) + 1 - MARGIN) for y in group}
        heights = {
            (math.log(cell.x), place): math.log(cell.ratio)
            for cell in cells
            if cell.ratio is not None and cell.y in places
            for place in places[cell.y]
        }
        ordered = [place for y in group for place in places[y]]
        segments += outside(contour(logarithms, ordered, heights), boxes)
    if not segments:
        return []
    line = pl.DataFrame(
        [{"x": math.exp(a[0]), "y": a[1], "x2": math.exp(b[0]), "y2": b[1]} for a, b in segments]
    )
    base = alt.Chart(inline_csv(line, digits=7)).encode(
        x=alt.X("x:Q", scale=_log(x_edges)), x2="x2:Q", y=alt.Y("y:Q", scale=y_scale), y2="y2:Q"
    )
    return [
        base.mark_rule(color=_PAPER, strokeWidth=6, strokeCap="round"),
        base.mark_rule(color=_INK, strokeWidth=3, strokeCap="round"),
    ]


def _text_boxes(cells: Sequence[RatioCell], rows: _Rows, per_px: tuple[float, float]) -> list[Box]:
    """Return the areas of the cells' numbers with a margin, in the units of the axes; ``per_px`` is a pixel."""
    boxes = []
    for cell in cells:
        x, y = math.log(cell.x), rows.top(cell.y) + 0.5
        wide = (len(cell.text) * DIGIT / 2 + GAP) * per_px[0]
        high = (LABEL / 2 + GAP) * per_px[1]
        boxes.append((x - wide, y - high, x + wide, y + high))
    return boxes


def _edges(values: Sequence[float]) -> list[float]:
    """Return the borders of cells around ``values``: half way between neighbours on a logarithmic axis."""
    if len(values) == 1:
        return [values[0] / 2, values[0] * 2]
    inner = [math.sqrt(a * b) for a, b in itertools.pairwise(values)]
    return [values[0] ** 2 / inner[0], *inner, values[-1] ** 2 / inner[-1]]


def _log(edges: Sequence[float]) -> alt.Scale:
    return alt.Scale(type="log", domain=[edges[0], edges[-1]], nice=False)


def _seconds_text(seconds: float) -> str:
    """Format a time: seconds from 1 s on, else milliseconds."""
    if seconds >= 1:
        return f"{format_significant(seconds, 3)} s"
    return f"{format_significant(seconds * 1e3, 3)} ms"


def _ratio_text(ratio: float | None) -> str:
    """Format a ratio: two decimals below 10, three significant digits from there."""
    if ratio is None:
        return "–"
    return f"{ratio:.2f}" if ratio < 10 else format_significant(ratio, 3)
