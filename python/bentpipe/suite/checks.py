"""Checks of ``bentpipe check-controller`` as a scenario of the suite: its exact part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.metrics.verdicts import Verdict
from bentpipe.runners import engine
from bentpipe.runners.worker_process import format_error
from bentpipe.suite.config import CHECKS as CHECKS_NAME
from bentpipe.suite.criterion import Criterion
from bentpipe.suite.entry import Entry, SuiteTable
from bentpipe.suite.results import CellResult, CriterionResult

if TYPE_CHECKING:
    from bentpipe.suite.config import Controller

__all__ = ["CHECKS", "DEVIATION", "check_cell", "check_command"]

DEVIATION = "; documented deviation: "
"""Text between the values of a check and the reason of its exemption."""

CHECKS = Entry(
    CHECKS_NAME,
    "Checks of the controller alone",
    {},
    SuiteTable(
        question="Does the controller alone meet RFC 9743 and the cases of its own specification?",
        source="RFC 9743 sections 5 to 7; cases of the specification of each built-in controller",
        remark="A check has the value 1 if it passes. Deviations that the controller documents are trends.",
        primary="checks",
        quick=True,
        criterion=(),
    ),
)
"""Scenario of the checks. They run on a model of a path in the engine, without a store."""


def check_cell(controller: Controller) -> CellResult:
    """Run the checks of a controller."""
    error, rows = "", []
    try:
        rows = engine.check_controller(controller.user_class or controller.built_in, {})
    except Exception as failure:  # noqa: BLE001 - a class of the user raised it
        error = format_error(failure)
    found = []
    for row in rows:
        exemption = row.get("exemption")
        keys = {"measure": row["name"], "class": "trend" if exemption else "exact", "at_least": 1.0}
        criterion = Criterion(**keys, source=row["source"])
        passed = bool(row["passed"])
        detail = f"{row['detail']}{DEVIATION}{exemption}" if exemption else row["detail"]
        verdict = Verdict.AGREES if passed else Verdict.DIFFERS
        values = (float(passed),)
        found.append(CriterionResult(controller.built_in, criterion, {}, values, None, verdict, detail))
    return CellResult(CHECKS, controller, 1, tuple(found), {}, {}, error)


def check_command(controller: Controller) -> str:
    """Return the command that repeats the checks."""
    return f"bentpipe check-controller {controller.location or controller.label}"
