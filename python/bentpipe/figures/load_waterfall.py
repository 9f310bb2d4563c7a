"""A map that answers to the pointer: below it stand the two loads of the cell that is pointed at, as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, BYTES, GREY, ORANGE, SECONDS, WIDTH, inline_csv
from bentpipe.metrics.intervals import format_significant

__all__ = ["PickedLoad", "pick", "with_loads"]

_PICK = "pointed"
_PHASES = (
    ("connection", "0", "sent", GREY),
    ("request", "sent", "first_byte", ORANGE),
    ("response", "first_byte", "end", BLUE),
)
"""What is done in each stretch of a load, between which of its instants."""


_SAID = 130
"""Pixels beside the bars for who loads and how long it took."""


@dataclass(frozen=True, slots=True)
class PickedLoad:
    """A load of the cell at ``x`` and ``y`` of a ``panel``, by ``who``; s since the object was wanted."""

    x: float
    y: float
    panel: str
    who: str
    sent: float
    """The request left: until then a connection was made."""
    first_byte: float
    end: float


def pick(first: PickedLoad) -> alt.Parameter:
    """The cell that is pointed at, that of ``first`` to begin with."""
    value: Any = [{"x": first.x, "y": first.y, "panel": first.panel}]
    return alt.selection_point(
        name=_PICK, fields=["x", "y", "panel"], on="pointerover", nearest=True, clear=False, value=value
    )


def with_loads(figure: Figure, loads: Sequence[PickedLoad], x_labels: str = BYTES) -> Figure:
    """``figure``, whose cells are picked by :func:`pick`, above the loads of the one that is."""
    names = list(dict.fromkeys(load.who for load in loads))
    frame = pl.DataFrame(
        [
            {name: getattr(load, name) for name in PickedLoad.__slots__} | {"0": 0.0, "took": _took(load.end)}
            for load in loads
        ]
    )
    base = alt.Chart(inline_csv(frame, digits=4)).transform_filter(f'vlSelectionTest("{_PICK}_store", datum)')
    y = alt.Y("who:N", sort=names, title=None)
    bars = [
        base.mark_bar(height=14).encode(
            x=alt.X(f"{begin}:Q", title="time since the object was wanted, s", axis=alt.Axis(tickCount=8)),
            x2=f"{end}:Q", y=y, color=alt.datum(name, scale=_colours(), title=None),
        )
        for name, begin, end, _ in _PHASES
    ]  # fmt: skip
    said = base.mark_text(align="left", dx=6).encode(x="end:Q", y=y, text="took:N")
    where = " + ' at ' + ".join(
        f"({labels.replace('datum.value', f'{_PICK}.{axis}[0]')})"
        for axis, labels in (("x", x_labels), ("y", SECONDS))
    )
    title: Any = alt.TitleParams(text=alt.ExprRef(expr=f"{_PICK}.panel[0] + ': ' + {where}"))
    waterfall = alt.layer(*bars, said).properties(width=WIDTH - _SAID, height=28 * len(names), title=title)
    caption = f"{figure.caption} Below: the two loads of the cell that the pointer is at."
    return replace(figure, caption=caption, chart=alt.vconcat(figure.chart, waterfall, spacing=24))


def _took(seconds: float) -> str:
    return (
        f"{format_significant(seconds, 3)} s"
        if seconds >= 1
        else f"{format_significant(seconds * 1e3, 3)} ms"
    )


def _colours() -> alt.Scale:
    return alt.Scale(domain=[name for name, *_ in _PHASES], range=[shade for *_, shade in _PHASES])
