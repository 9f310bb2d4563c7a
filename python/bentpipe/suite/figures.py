"""Figure of a suite: small multiples of the primary measure, one panel for each scenario, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import GREY, WIDTH, colour, inline_csv
from bentpipe.metrics.intervals import mean_ci
from bentpipe.metrics.registry import METRICS
from bentpipe.suite.criterion import cell_text
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from bentpipe.suite.results import SuiteResult

__all__ = ["KEY", "draw_suite", "ordered_entries"]

KEY = "suite"
"""Key of the figure."""

COLUMNS = 2
"""Panels beside each other."""

LABELS = 160
"""Width of the labels of rows, CSS pixels."""

MANY_ROWS = 24
"""Number of cells and controllers from which the controllers of a cell share one row."""


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
                    "case": _case_values(name),
                    "keys": _case_keys(name),
                    "mean": mean.estimate * measure.scale,
                    "low": (bounds[0] or 0.0) * measure.scale,
                    "high": (bounds[1] or 0.0) * measure.scale,
                    "title": measure.axis,
                })  # fmt: skip
    return rows


def _case_values(case: str) -> str:
    """Return the values of a cell's text, which the rows of a panel have as labels."""
    return ", ".join(part.partition(" ")[2] for part in case.split(", ")) or " "


def _case_keys(case: str) -> str:
    """Return the keys of a cell's text, the title of the rows."""
    return ", ".join(part.partition(" ")[0].replace("_", " ") for part in case.split(", "))


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
            case = _case_values(cell_text(one.cell))
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
    scale = alt.Scale(domainMin=0, zero=True, nice=True)
    row, height = _row_encoding(cases, labels)
    name = alt.Title(entry, subtitle=rows[0]["keys"]) if len(cases) > 1 else alt.Title(entry)
    tips = [
        "controller:N",
        "case:N",
        *(alt.Tooltip(f"{key}:Q", format=".4g") for key in ("mean", "low", "high")),
    ]
    base = alt.Chart(inline_csv(pl.DataFrame(rows).drop("title", "keys")))
    points = base.mark_point(filled=True, size=44, opacity=1).encode(
        x=alt.X("mean:Q", title=title, scale=scale), color=colour(labels, "controller"), tooltip=tips, **row
    )
    bars = base.mark_rule(strokeWidth=2, clip=True).encode(
        x=alt.X("low:Q", scale=scale, title=title), x2="high:Q", color=colour(labels, "controller"), **row
    )
    ticks = (
        alt.Chart(inline_csv(pl.DataFrame(published, schema=_PUBLISHED)))
        .mark_tick(thickness=1.5, size=11, color=GREY)
        .encode(
            x=alt.X("value:Q", scale=scale, title=title), tooltip=["controller:N", "case:N", "text:N"], **row
        )
    )
    layers = [ticks, bars, points] if published else [bars, points]
    return alt.layer(*layers).properties(title=name, width=WIDTH / COLUMNS - LABELS - 40, height=height)


def _row_encoding(cases: list[str], labels: list[str]) -> tuple[dict[str, Any], int]:
    """Return the encoding of the rows of a panel, and its height."""
    # A browser's font can be wider than the one that the drawing was measured with.
    longest = max(len(one) for one in (labels if len(cases) == 1 else cases))
    axis = alt.Axis(labelLimit=LABELS, minExtent=min(LABELS, 7 * longest))
    if len(cases) == 1:
        return {"y": alt.Y("controller:N", sort=labels, title=None, axis=axis)}, 16 * len(labels) + 8
    row = {"y": alt.Y("case:N", sort=cases, title=None, axis=axis)}
    if len(cases) * len(labels) >= MANY_ROWS:
        return row, 18 * len(cases) + 8
    return row | {"yOffset": alt.YOffset("controller:N", sort=labels)}, 14 * len(labels) * len(cases) + 8
