"""Map of ratios over two logarithmic axes, with the break-even line."""

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
from bentpipe.figures.style import BLUE, BYTES, RED, SECONDS, WIDTH, inline_csv
from bentpipe.metrics.intervals import format_significant

MAX_FACTOR = 8.0
"""Ratios beyond this factor (and its inverse) share the darkest colour; the number in the cell remains."""

MIN_FACTOR = 1.25
"""Smallest range of the colours, so that noise in ratios near 1 does not look like a result."""

LABEL, DIGIT = 11, 6.2
"""Height of a number in a cell, and the width of a digit of that font, CSS pixels."""

GAP = 3.5
"""Gap between a number and the line, including half of the line's width, CSS pixels."""

ROW, LOW_ROW = 34, 22
"""Height of a row of cells with and without numbers, CSS pixels."""

MIN_CELL = 26
"""Narrowest cell with a number, CSS pixels; a panel with narrower cells has no numbers."""

MIN_PAIR_WIDTH = 600
"""Smallest width of two panels in a row, CSS pixels."""

_INK, _PAPER, _MIDDLE = "#1c2330", "#ffffff", "#f2f0eb"


@dataclass(frozen=True, slots=True)
class RatioCell:
    """Cell of a map: ``x`` in bytes or the unit of its axis, ``y`` in seconds, and the ratio; ``None`` if unknown."""

    x: float
    y: float
    ratio: float | None
    panel: str = ""


def ratio_map(
    cells: Sequence[RatioCell], key: str, title: str, caption: str, *, above: str, below: str,
    x_title: str = "object size", y_title: str = "round-trip time", x_labels: str = BYTES,
    pick: alt.Parameter | None = None,
) -> Figure:  # fmt: skip
    """Draw a map of ``cells``, one panel for each value of ``panel``, all with the same colours.

    The line is the break-even line (ratio 1) by interpolation between the centres of cells, linear in the logarithms
    of all three quantities.

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
        pick: selection of the cell under the pointer, by ``x``, ``y`` and ``panel``.

    Raises:
        ValueError: no cell has a ratio, or a ratio is not above 0.
    """
    ratios = [cell.ratio for cell in cells if cell.ratio is not None]
    if not ratios or min(ratios) <= 0:
        raise ValueError("a map needs ratios, and all above 0")
    factor = max(MIN_FACTOR, min(MAX_FACTOR, max(*ratios, 1 / min(ratios))))
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
    return Figure(key, title, f"{caption} {legend}".strip(), chart(WIDTH), len(cells), drawn_for=chart)


def _panel(
    cells: Sequence[RatioCell], name: str, factor: float, width: float, titles: tuple[str, str, str],
    pick: alt.Parameter | None,
) -> Any:  # fmt: skip
    xs, ys = sorted({cell.x for cell in cells}), sorted({cell.y for cell in cells})
    x_edges, y_edges = _edges(xs), _edges(ys)
    limit = math.log2(factor)
    numbered = width / len(xs) >= MIN_CELL
    height_px = (ROW if numbered else LOW_ROW) * len(ys)
    per_px = (math.log(x_edges[-1] / x_edges[0]) / width, math.log(y_edges[-1] / y_edges[0]) / height_px)
    boxes = _text_boxes(cells, per_px) if numbered else []
    rows = []
    for cell in cells:
        i, j = xs.index(cell.x), ys.index(cell.y)
        height = None if cell.ratio is None else math.log2(cell.ratio)
        rows.append(
            {
                "x": cell.x, "y": cell.y, "panel": name, "left": x_edges[i], "right": x_edges[i + 1], "low": y_edges[j],
                "high": y_edges[j + 1], "height": height, "text": _ratio_text(cell.ratio),
                "deep": int(height is not None and height < -0.6 * limit),
            }
        )  # fmt: skip
    frame = pl.DataFrame(rows, schema_overrides={"height": pl.Float64})
    data = inline_csv(frame, digits=9)
    x_title, y_title, x_labels = titles
    x = alt.X("left:Q", title=x_title, scale=_log(x_edges),
              axis=alt.Axis(values=xs, labelExpr=x_labels, grid=False, labelAngle=-40, labelAlign="right",
                            labelOverlap=False))  # fmt: skip
    y = alt.Y("low:Q", title=y_title, scale=_log(y_edges),
              axis=alt.Axis(values=ys, labelExpr=SECONDS, grid=False))  # fmt: skip
    hue = alt.Color(
        "height:Q",
        scale=alt.Scale(domain=[-limit, 0, limit], range=[BLUE, _MIDDLE, RED], interpolate="lab", clamp=True),
        legend=alt.Legend(
            title="ratio", labelExpr="format(pow(2, datum.value), '.2~f')", gradientLength=min(220, width - 40),
            values=[-limit, -limit / 2, 0, limit / 2, limit], orient="top",
        ),
    )  # fmt: skip
    base = alt.Chart(data)
    x_mid = alt.X("x:Q", scale=_log(x_edges), title=titles[0])
    y_mid = alt.Y("y:Q", scale=_log(y_edges), title=titles[1])
    layers = [
        base.transform_filter("isValid(datum.height)")
        .mark_rect(stroke=_PAPER, strokeWidth=1)
        .encode(x=x, x2="right:Q", y=y, y2="high:Q", color=hue),
        *_break_even(cells, xs, ys, (x_edges, y_edges), boxes),
        *(
            # page.js reads the number of columns from the style.
            base.mark_text(fontSize=LABEL, color=ink, style=f"of-{len(xs)}")
            .transform_filter(f"datum.deep == {deep}")
            .encode(x=x_mid, y=y_mid, text="text:N")
            for deep, ink in enumerate((_INK, _PAPER)) if numbered
        ),
    ]  # fmt: skip
    if pick is not None:
        # An invisible top layer selects the nearest cell, regardless of the mark under the pointer.
        layers.append(base.mark_point(opacity=0).encode(x=x_mid, y=y_mid).add_params(pick))
    chart: Any = alt.layer(*layers).properties(width=width, height=height_px)
    return chart.properties(title=name) if name else chart


def _break_even(
    cells: Sequence[RatioCell],
    xs: Sequence[float],
    ys: Sequence[float],
    edges: tuple[list[float], list[float]],
    boxes: Sequence[Box],
) -> list[alt.Chart]:
    """Return the break-even line with a light outline, visible on every colour, and gaps at the ``boxes``."""
    heights = {(math.log(c.x), math.log(c.y)): math.log(c.ratio) for c in cells if c.ratio is not None}
    segments = outside(contour([math.log(x) for x in xs], [math.log(y) for y in ys], heights), boxes)
    if not segments:
        return []
    line = pl.DataFrame(
        [
            {"x": math.exp(a[0]), "y": math.exp(a[1]), "x2": math.exp(b[0]), "y2": math.exp(b[1])}
            for a, b in segments
        ]
    )
    base = alt.Chart(inline_csv(line, digits=7)).encode(
        x=alt.X("x:Q", scale=_log(edges[0])), x2="x2:Q", y=alt.Y("y:Q", scale=_log(edges[1])), y2="y2:Q"
    )
    return [
        base.mark_rule(color=_PAPER, strokeWidth=5, strokeCap="round"),
        base.mark_rule(color=_INK, strokeWidth=2, strokeCap="round"),
    ]


def _text_boxes(cells: Sequence[RatioCell], per_px: tuple[float, float]) -> list[Box]:
    """Return the areas of the cells' numbers with a margin, in logarithms; a pixel is ``per_px`` of them."""
    boxes = []
    for cell in cells:
        x, y = math.log(cell.x), math.log(cell.y)
        wide = (len(_ratio_text(cell.ratio)) * DIGIT / 2 + GAP) * per_px[0]
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


def _ratio_text(ratio: float | None) -> str:
    """Format a ratio: two decimals below 10, three significant digits from there."""
    if ratio is None:
        return "–"
    return f"{ratio:.2f}" if ratio < 10 else format_significant(ratio, 3)
