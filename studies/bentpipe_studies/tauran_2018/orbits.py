"""Delays over the thesis's constellation, by the engine of ``bentpipe orbit``: figure 3.3 and its three patterns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, axis, colour, inline_csv
from bentpipe.plan.network.constellation_routes import find_routes
from bentpipe.runners import engine
from bentpipe.scenario.network.orbit import Orbit

if TYPE_CHECKING:
    from bentpipe.plan.network.constellation_routes import Handover, RouteTimeline

__all__ = ["PAIRS", "Orbits"]

PAIRS = (("Paris", "Sydney"), ("New York", "Singapore"), ("Toulouse", "Tokyo"))
"""The thesis does not name its places: three pairs so far apart that their delays are near its 70 to 100 ms."""

DURATION_S, STEP_S = 6000, 1


@dataclass(frozen=True)
class Orbits:
    """Pairs of places over 100 minutes; empty unless selected."""

    selected: bool

    @cached_property
    def found(self) -> dict[str, RouteTimeline]:
        """Routes by pair."""
        return {f"{a} – {b}": _find_routes(a, b) for a, b in PAIRS} if self.selected else {}

    def handovers(self) -> list[Handover]:
        """Return the handovers of all pairs."""
        return [one for found in self.found.values() for one in found.handovers]

    def straightness(self) -> dict[str, float]:
        """Return by pair the median ratio of delay variance between two handovers that a straight line explains."""
        return {pair: _median(_explained_ratios(found)) for pair, found in self.found.items()}

    def figure(self) -> Figure | None:
        """Return figure 3.3; ``None`` unless selected."""
        rows = [
            {"series": pair, "piece": str(piece), "time_s": at, "ms": delay}
            for pair, found in self.found.items()
            for piece, points in enumerate(_pieces(found))
            for at, delay in points
        ]
        if not rows:
            return None
        frame = pl.DataFrame(rows)
        chart = (
            alt.Chart(inline_csv(frame, digits=6))
            .mark_line(clip=True)
            .encode(
                x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(nice=False, domain=[0, DURATION_S])),
                y=alt.Y("ms:Q", **axis(frame["ms"].to_list(), "one-way delay, ms")),
                color=colour(list(self.found), title=None), detail="piece:N",
            )
            .properties(width=WIDTH - 120, height=280)
        )  # fmt: skip
        caption = (
            "Figure 3.3 of the thesis, which does not name its places: shortest routes over 66 "
            "satellites at 800 km. Each step is a handover."
        )
        return Figure("figure-3-3", "3.3 Delay over the constellation", caption, chart, frame.height)


def _find_routes(one: str, other: str) -> RouteTimeline:
    table = {
        "constellation": "tauran-66", "from": one, "to": other, "step": f"{STEP_S} s", "coverage_gaps": "outage",
    }  # fmt: skip
    return find_routes(Orbit.model_validate(table), DURATION_S * 10**9, Path(), engine.orbit)


def _pieces(found: RouteTimeline) -> list[list[tuple[float, float]]]:
    """Return time, s, and delay, ms, between route changes."""
    ends = [*(route.at_ns for route in found.routes), found.duration_ns]
    points = [(step * found.step_ns, delay) for step, delay in enumerate(found.delay_ns) if delay is not None]
    return [
        [(at / 1e9, delay / 1e6) for at, delay in points if begin <= at < end]
        for begin, end in pairwise(ends)
    ]


MIN_POINTS = 5
"""Minimum number of points of a line."""


def _explained_ratios(found: RouteTimeline) -> list[float]:
    parts = []
    for points in _pieces(found):
        if len(points) < MIN_POINTS:
            continue
        x, y = (pl.Series([point[i] for point in points]) for i in (0, 1))
        dx, dy = x - x.mean(), y - y.mean()
        whole = float((dy * dy).sum())
        if whole > 0:
            parts.append(float((dx * dy).sum()) ** 2 / float((dx * dx).sum()) / whole)
    return parts


def _median(values: list[float]) -> float:
    return float(pl.Series(values).median() or 0.0)  # type: ignore[arg-type]
