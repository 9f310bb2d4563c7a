"""Figure of a suite: small multiples of the primary measure, one panel for each scenario, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, colour, inline_csv
from bentpipe.metrics.intervals import mean_ci
from bentpipe.metrics.registry import METRICS
from bentpipe.suite.criterion import cell_text
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from bentpipe.suite.results import SuiteResult

__all__ = ["KEY", "draw_suite", "ordered_entries"]

KEY = "suite"
"""Key of the figure."""

COLUMNS = 3
"""Panels beside each other."""


_PUBLISHED: dict[str, Any] = {
    "controller": pl.String,
    "case": pl.String,
    "value": pl.Float64,
    "text": pl.String,
}


def ordered_entries(result: SuiteResult) -> list[str]:
    """Return the scenarios, those with the worst outcome first; equal ones in their order."""
    rank = {outcome: number for number, outcome in enumerate(Outcome)}

    def worst(entry: str) -> int:
        return min(rank[cell.outcome] for cell in result.cells if cell.entry.name == entry)

    return sorted(result.entries, key=worst)


def draw_suite(result: SuiteResult) -> Figure:
    """Return the figure: a point with its interval for each controller and cell of the scenario's sweep."""
    panels, count = [], 0
    labels = result.controllers
    for entry in ordered_entries(result):
        rows = _rows(result, entry)
        if rows:
            count += len(rows)
            panels.append(_panel(entry, rows, _published(result, entry), labels))
    chart = alt.concat(*panels, columns=COLUMNS, spacing=24)
    caption = (
        "Points are means over seeds with 95 % intervals. Ticks are published values and limits; their sources are in "
        "the tables."
    )
    return Figure(KEY, "Scenarios, the worst first", caption, chart, count)


def _rows(result: SuiteResult, entry: str) -> list[dict[str, Any]]:
    rows = []
    for controller in result.controllers:
        cell = result.of(entry, controller)
        if cell is None:
            continue
        if cell.entry.suite.primary not in METRICS:
            continue
        measure = METRICS[cell.entry.suite.primary]
        for name, values in cell.primary.items():
            if values:
                mean = mean_ci(values)
                bounds = (mean.low, mean.high) if mean.known else (mean.estimate, mean.estimate)
                rows.append({
                    "controller": controller,
                    "case": name or " ",
                    "mean": mean.estimate * measure.scale,
                    "low": (bounds[0] or 0.0) * measure.scale,
                    "high": (bounds[1] or 0.0) * measure.scale,
                    "title": measure.axis,
                })  # fmt: skip
    return rows


def _published(result: SuiteResult, entry: str) -> list[dict[str, Any]]:
    """Return the published values and limits of the primary measure over the whole run."""
    rows = []
    for controller in result.controllers:
        cell = result.of(entry, controller)
        for one in cell.criteria if cell is not None else ():
            criterion = one.criterion
            if cell is None or criterion.measure != cell.entry.suite.primary:
                continue
            if criterion.baseline or criterion.window is not None:
                continue
            values = (one.expected, criterion.published, criterion.at_least, criterion.at_most)
            case = cell_text(one.cell) or " "
            rows += [
                {
                    "controller": controller,
                    "case": case,
                    "value": value * one.factor,
                    "text": one.expectation(),
                }
                for value in values
                if value is not None
            ]
    return rows


def _panel(entry: str, rows: list[dict[str, Any]], published: list[dict[str, Any]], labels: list[str]) -> Any:
    title = rows[0]["title"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    source = inline_csv(pl.DataFrame(rows).drop("title"))
    base = alt.Chart(source)
    scale = alt.Scale(domainMin=0, zero=True)
    y = alt.Y("case:N", sort=cases, title=None, axis=alt.Axis(labelLimit=110)) if len(cases) > 1 else None
    offset = alt.YOffset("controller:N", sort=labels) if len(cases) > 1 else None
    row = (
        {"y": y, "yOffset": offset}
        if y is not None
        else {"y": alt.Y("controller:N", sort=labels, title=None)}
    )
    tips = [
        "controller:N",
        "case:N",
        *(alt.Tooltip(f"{key}:Q", format=".4g") for key in ("mean", "low", "high")),
    ]
    points = base.mark_point(filled=True, size=44, opacity=1).encode(
        x=alt.X("mean:Q", title=title, scale=scale), color=colour(labels, "controller"), tooltip=tips, **row
    )
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=scale, title=title), x2="high:Q", color=colour(labels, "controller"), **row
    )
    step = 14 if len(cases) > 1 else 16
    height = step * (len(labels) * len(cases) if len(cases) > 1 else len(labels)) + 8
    ticks = (
        alt.Chart(inline_csv(pl.DataFrame(published, schema=_PUBLISHED)))
        .mark_tick(thickness=1.5, size=11)
        .encode(
            x=alt.X("value:Q", scale=scale, title=title), tooltip=["controller:N", "case:N", "text:N"], **row
        )
    )
    layers = [ticks, bars, points] if published else [bars, points]
    return alt.layer(*layers).properties(title=entry, width=WIDTH / COLUMNS - 130, height=height)
