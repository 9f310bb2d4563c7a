"""Output files of a suite: page, figure, JSON document and the scenario of each cell."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from bentpipe.metrics.change_table import format_rows, notes
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.scenario.toml_writer import dumps
from bentpipe.store.files import write_atomic
from bentpipe.suite.checks import CHECKS, check_command
from bentpipe.suite.document import document
from bentpipe.suite.execution import scenario_of
from bentpipe.suite.figures import KEY, draw_suite, ordered_entries
from bentpipe.suite.headline import headline_text, supporting_text
from bentpipe.suite.tables import criterion_table, missed_rows, outcome_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.metrics.compare import Comparison
    from bentpipe.suite.execution import SuitePart
    from bentpipe.suite.results import SuiteResult

__all__ = ["commands_of", "write", "write_scenarios"]

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
        sections.append((name, cell.entry, criterion_table(result, name), errors, own))
    return page.write(
        out / f"{KEY}.html", "suite/page.html", Headline(headline_text(result), supporting_text(result)),
        figure=page.drawing(figure), outcomes=tabular(outcome_rows(result)),
        missed=tabular(missed_rows(result)), sections=sections,
        comparison=None if comparison is None else tabular(format_rows(comparison)),
        notes=[] if comparison is None else notes(comparison), engine=result.engine,
    )  # fmt: skip
