"""Output files of a suite: page, figure, JSON document and the scenario of each cell."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.change_table import format_rows, notes
from bentpipe.metrics.format import format_mean
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.verdicts import Verdict
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.scenario.toml_writer import dumps
from bentpipe.store.files import write_atomic
from bentpipe.suite.checks import CHECKS, check_command
from bentpipe.suite.criterion import cell_text
from bentpipe.suite.document import document
from bentpipe.suite.execution import scenario_of
from bentpipe.suite.figures import KEY, draw_suite, ordered_entries
from bentpipe.suite.headline import headline_text, supporting_text
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.metrics.compare import Comparison
    from bentpipe.suite.execution import SuitePart
    from bentpipe.suite.results import CellResult, CriterionResult, SuiteResult

__all__ = ["commands_of", "criterion_rows", "outcome_rows", "write", "write_scenarios"]

SCENARIOS = "scenarios"
"""Directory of the scenarios below the output directory."""


def write_scenarios(parts: Sequence[SuitePart], out: Path) -> None:
    """Write the scenario of each part, which ``bentpipe run`` reads."""
    for part in parts:
        file = _scenario_file(part, out)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, dumps(scenario_of(part.entry, part.controller)).encode())


def _scenario_file(part: SuitePart, out: Path) -> Path:
    return out / SCENARIOS / f"{part.entry.name}-{part.controller.label}.toml"


def commands_of(
    result: SuiteResult, parts: Sequence[SuitePart], out: Path, seeds: int | None
) -> dict[tuple[str, str], str]:
    """Return the command that repeats each cell, by scenario and controller."""
    found = {
        (CHECKS.name, cell.controller.label): check_command(cell.controller)
        for cell in result.cells
        if cell.entry is CHECKS
    }
    for part in parts:
        words = ["bentpipe", "run", str(_scenario_file(part, out))]
        if part.controller.location:
            words += ["--controller", f"{part.controller.label}={part.controller.location}"]
        if seeds is not None:
            words += ["--seeds", str(seeds)]
        found[part.entry.name, part.controller.label] = shlex.join(words)
    return found


def outcome_rows(result: SuiteResult) -> list[dict[str, Any]]:
    """Return the table of outcomes: a row for each scenario, the worst first, and a column for each controller."""
    rows = []
    for entry in ordered_entries(result):
        row: dict[str, Any] = {"scenario": entry}
        for controller in result.controllers:
            cell = result.of(entry, controller)
            row[controller] = None if cell is None else _outcome_text(cell)
        rows.append(row)
    return rows


def _outcome_text(cell: CellResult) -> str:
    """Return the outcome, with the first criterion that is not met."""
    if cell.outcome not in (Outcome.FAILS, Outcome.DIFFERS):
        return cell.outcome.value
    one = next(
        one
        for one in cell.criteria
        if one.verdict is Verdict.DIFFERS and (one.is_failure or cell.outcome is Outcome.DIFFERS)
    )
    return f"{cell.outcome}: {_measured(one)} for {one.expectation()}"


def _measured(one: CriterionResult) -> str:
    return "–" if one.interval is None else format_mean(one.interval, one.factor, 3)


def criterion_rows(result: SuiteResult, entry: str) -> list[dict[str, Any]]:
    """Return a row for each criterion of a scenario, controller and cell of its sweep."""
    rows = []
    for controller in result.controllers:
        cell = result.of(entry, controller)
        for one in cell.criteria if cell is not None else ():
            metric = METRICS.get(one.criterion.measure)
            unit = one.criterion.measure if metric is None else metric.axis
            if one.criterion.baseline:
                unit = f"ratio to {one.criterion.baseline}"
            case = cell_text(one.cell)
            rows.append({
                "controller": controller,
                "case": case or None,
                "measure": unit,
                "measured": _measured(one),
                "published": one.expectation(),
                "class": one.criterion.oracle,
                "verdict": one.verdict.value,
                "source": one.source or result_source(cell),
                "reason": one.reason or None,
            })  # fmt: skip
    empty = {key for key in ("case", "reason") if all(row[key] is None for row in rows)}
    return [{key: value for key, value in row.items() if key not in empty} for row in rows]


def result_source(cell: CellResult | None) -> str:
    """Return the source of the scenario."""
    return "" if cell is None else cell.entry.suite.source


def write(
    result: SuiteResult,
    parts: Sequence[SuitePart],
    out: Path,
    seeds: int | None,
    comparison: Comparison | None,
) -> Path:
    """Write page, figure and document into ``out``; return the path of the page."""
    figure = draw_suite(result)
    figure.write_all([out / f"{KEY}.svg", out / f"{KEY}.pdf"])
    commands = commands_of(result, parts, out, seeds)
    text = json.dumps(document(result, commands), indent=1, ensure_ascii=False)
    write_atomic(out / f"{KEY}.json", f"{text}\n".encode())
    page = Page("Controllers' suite")
    sections = []
    for name in ordered_entries(result):
        cell = next(cell for cell in result.cells if cell.entry.name == name)
        errors = [
            f"{one.controller.label}: {one.error}"
            for one in result.cells
            if one.entry.name == name and one.error
        ]
        own = [
            commands[name, controller] for controller in result.controllers if (name, controller) in commands
        ]
        rows = tabular(criterion_rows(result, name))
        sections.append((name, cell.entry, rows, errors, own))
    return page.write(
        out / f"{KEY}.html", "suite/page.html", Headline(headline_text(result), supporting_text(result)),
        figure=page.drawing(figure), outcomes=tabular(outcome_rows(result)), sections=sections,
        comparison=None if comparison is None else tabular(format_rows(comparison)),
        notes=[] if comparison is None else notes(comparison), engine=result.engine,
    )  # fmt: skip
