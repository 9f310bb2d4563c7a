"""Waterfall of the loads at the cell under the pointer, below a ratio map."""

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
"""Phases of a load: name, start, end and colour."""


_MARGIN = 130
"""Width beside the bars for names and durations, CSS pixels."""


@dataclass(frozen=True, slots=True)
class PickedLoad:
    """Load at ``x`` and ``y`` of every panel by the variant ``who``; seconds since its start."""

    x: float
    y: float
    who: str
    sent: float
    """Transmission of the request; connection set-up lasts until then."""
    first_byte: float
    end: float
    note: str = ""
    """Text beside the duration, such as the seed of the load."""


def pick(first: PickedLoad) -> alt.Parameter:
    """Return the selection of the cell under the pointer; it begins with the cell of ``first``."""
    value: Any = [{"x": first.x, "y": first.y}]
    return alt.selection_point(
        name=_PICK, fields=["x", "y"], on="pointerover", nearest=True, clear=False, value=value
    )


def with_loads(figure: Figure, loads: Sequence[PickedLoad], x_labels: str = BYTES) -> Figure:
    """Add the loads of the selected cell (:func:`pick`) below ``figure``."""
    names = list(dict.fromkeys(load.who for load in loads))
    frame = pl.DataFrame(
        [
            {name: getattr(load, name) for name in PickedLoad.__slots__ if name != "note"}
            | {
                "0": 0.0,
                "room": load.end * (1.35 if load.note else 1.2),
                "took": ", ".join(filter(None, (_format_duration(load.end), load.note))),
            }
            for load in loads
        ]
    )
    base = alt.Chart(inline_csv(frame, digits=4)).transform_filter(f'vlSelectionTest("{_PICK}_store", datum)')
    # Words stand one below the other, so that the axis has space in a narrow window.
    axis = alt.Axis(labelExpr="split(datum.label, ' ')", labelLineHeight=12)
    y = alt.Y("who:N", sort=names, title=None, axis=axis)
    bars = [
        base.mark_bar(height=14).encode(
            x=alt.X(f"{begin}:Q", title="time since the object was requested, s", axis=alt.Axis(tickCount=8)),
            x2=f"{end}:Q", y=y, color=alt.datum(name, scale=_colours(), title=None),
        )
        for name, begin, end, _ in _PHASES
    ]  # fmt: skip
    durations = base.mark_text(align="left", dx=6).encode(x="end:Q", y=y, text="took:N")
    # Invisible marks extend the axis, so that the durations have space beside the bars.
    room = base.mark_point(opacity=0).encode(x="room:Q", y=y)
    where = " + ' at ' + ".join(
        f"({labels.replace('datum.value', f'{_PICK}.{axis}[0]')})"
        for axis, labels in (("x", x_labels), ("y", SECONDS))
    )
    title: Any = alt.TitleParams(text=alt.ExprRef(expr=where))
    waterfall = alt.layer(*bars, durations, room).properties(
        width=WIDTH - _MARGIN, height=28 * len(names), title=title
    )
    caption = f"{figure.caption} The waterfall below shows the loads at the cell under the pointer."
    if any(load.note for load in loads):
        caption += " With several seeds it shows the load nearest to the median."
    return replace(figure, caption=caption, chart=alt.vconcat(figure.chart, waterfall, spacing=24))


def _format_duration(seconds: float) -> str:
    return (
        f"{format_significant(seconds, 3)} s"
        if seconds >= 1
        else f"{format_significant(seconds * 1e3, 3)} ms"
    )


def _colours() -> alt.Scale:
    return alt.Scale(domain=[name for name, *_ in _PHASES], range=[shade for *_, shade in _PHASES])
