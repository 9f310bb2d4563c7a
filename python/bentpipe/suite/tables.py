"""Tables of a suite: outcomes, missed criteria, and the criteria of one scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import format_mean
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.verdicts import Verdict
from bentpipe.report.html_table import Heading, HtmlTable, TabularCell, TabularRow
from bentpipe.suite.checks import DEVIATION
from bentpipe.suite.criterion import cell_text
from bentpipe.suite.figures import ordered_entries
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.suite.results import CriterionResult, SuiteResult

__all__ = ["criterion_table", "missed_rows", "outcome_rows", "reason_lines"]


def outcome_rows(result: SuiteResult) -> list[dict[str, Any]]:
    """Return the outcomes: a row for each scenario, the worst first, and a column for each controller.

    A dash stands for a scenario without a criterion for the controller.
    """
    rows = []
    for entry in ordered_entries(result):
        row: dict[str, Any] = {"scenario": entry}
        for controller in result.controllers:
            cell = result.of(entry, controller)
            known = cell is not None and cell.outcome is not Outcome.UNPUBLISHED
            row[controller] = cell.outcome.value if cell is not None and known else None
        rows.append(row)
    return rows


def _missed(result: SuiteResult) -> list[tuple[str, str, CriterionResult]]:
    """Return scenario, controller and the first missed criterion of both, the worst scenarios first."""
    found = []
    for entry in ordered_entries(result):
        for controller in result.controllers:
            cell = result.of(entry, controller)
            criteria = () if cell is None else cell.criteria
            missed = [one for one in criteria if one.verdict is Verdict.DIFFERS]
            if missed:
                found.append((entry, controller, min(missed, key=lambda one: not one.is_failure)))
    return found


def missed_rows(result: SuiteResult) -> list[dict[str, Any]]:
    """Return the first missed criterion of each scenario and controller, the worst scenarios first."""
    return [
        {
            "scenario": entry,
            "controller": controller,
            "case": cell_text(one.cell),
            "measure": _measure_text(one),
            "measured": _measured(one),
            "published": _published(one),
        }
        for entry, controller, one in _missed(result)
    ]


def reason_lines(result: SuiteResult) -> list[str]:
    """Return the known reasons of the missed criteria, one line each."""
    return [
        f"{entry}, {controller}: {one.reason.rpartition(DEVIATION)[2]}"
        for entry, controller, one in _missed(result)
        if one.reason
    ]


def _measure_text(one: CriterionResult) -> str:
    """Return the name of a measure with its unit."""
    if one.criterion.baseline:
        return f"ratio to {one.criterion.baseline}"
    metric = METRICS.get(one.criterion.measure)
    return one.criterion.measure if metric is None else metric.axis


def _measured(one: CriterionResult) -> str:
    if one.is_check:
        return "passes" if one.verdict is Verdict.AGREES else "fails"
    return "–" if one.interval is None else format_mean(one.interval, one.factor, 3)


def _published(one: CriterionResult) -> str:
    return "passes" if one.is_check else one.expectation()


def criterion_table(result: SuiteResult, entry: str) -> HtmlTable | None:
    """Return the criteria of a scenario: a row for each criterion and cell of the sweep, a column for each controller.

    The notes are the sources other than the scenario's, the known reasons of differences, and the details of checks
    that are not passed. None: no criterion concerns the controllers.
    """
    rows: dict[tuple[str, str, str, str], dict[str, CriterionResult]] = {}
    for controller in result.controllers:
        cell = result.of(entry, controller)
        for one in cell.criteria if cell is not None else ():
            rows.setdefault(_row_key(one), {})[controller] = one
    if not rows:
        return None
    measures = list(dict.fromkeys(key[0] for key in rows))
    ordered = sorted(rows.items(), key=lambda row: measures.index(row[0][0]))
    has_cases = any(case for (_, case, _, _), _ in ordered)
    names = ["measure", *(["case"] if has_cases else []), "published", "class", *result.controllers]
    lines: list[TabularRow] = []
    before = ""
    for (measure, case, published, _), found in ordered:
        texts = [
            "" if measure == before else measure,
            *([case] if has_cases else []),
            published,
            _class_text(found),
        ]
        values = [_value_cell(found.get(controller)) for controller in result.controllers]
        lines.append(TabularRow([*texts, *values], bool(before) and measure != before))
        before = measure
    notes = [*_sources(ordered), *_reasons(result.controllers, [found for _, found in ordered])]
    return HtmlTable([Heading(name, text=True) for name in names], lines, notes=notes)


def _row_key(one: CriterionResult) -> tuple[str, str, str, str]:
    """Return measure, case, published value and source; the value of a law is in the cell of its controller."""
    window = one.window
    measure = _measure_text(one)
    if window is not None:
        measure += f", {window[0]:g} to {window[1]:g} s"
    if one.is_check:
        return measure, "", one.source, ""
    published = f"{one.criterion.law} ± {one.criterion.tolerance}" if one.criterion.law else _published(one)
    return measure, cell_text(one.cell), published.replace("_", " "), one.source


def _sources(ordered: Sequence[tuple[tuple[str, str, str, str], Any]]) -> list[str]:
    """Return each source of a criterion once, behind its published value."""
    notes = [f"Source of {published}: {source}" for (_, _, published, source), _ in ordered if source]
    return list(dict.fromkeys(notes))


def _class_text(found: Mapping[str, CriterionResult]) -> str:
    return " or ".join(sorted({one.criterion.oracle.value for one in found.values()}))


def _value_cell(one: CriterionResult | None) -> str | TabularCell:
    """Return measured value, value of the law, and a verdict other than "agrees"; colours are those of verdicts."""
    if one is None:
        return ""
    law = f"for {one.expectation().partition(' ')[0]}" if one.criterion.law else ""
    mark = one.verdict.value if one.verdict in (Verdict.AGREES, Verdict.DIFFERS) else ""
    word = "" if one.verdict is Verdict.AGREES else "fails" if one.is_failure else one.verdict.value
    value = "" if one.is_check and word else _measured(one)
    return TabularCell(" ".join(filter(None, (value, law, word))), mark=mark)


def _reasons(controllers: Sequence[str], rows: Sequence[Mapping[str, CriterionResult]]) -> list[str]:
    """Return each reason of a difference once, with its controller; of an exempt check only the reason."""
    found = []
    for controller in controllers:
        for one in (row[controller] for row in rows if controller in row):
            if one.reason and one.verdict is Verdict.DIFFERS:
                name = f", {one.criterion.measure}" if one.is_check else ""
                found.append(f"{controller}{name}: {one.reason.rpartition(DEVIATION)[2]}")
    return list(dict.fromkeys(found))
