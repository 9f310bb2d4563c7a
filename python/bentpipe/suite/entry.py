"""Entries of the suite: a scenario file each, with a table ``[suite]`` of its source and criteria.

A new entry is one file in ``scenarios/``. The flow under test is ``main``. Flows without ``congestion`` have the
controller of the command.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from bentpipe.metrics.registry import METRICS
from bentpipe.scenario.base import Table
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.suite.criterion import Criterion, Window
from bentpipe.suite.laws import LAWS
from bentpipe.suite.measures import FLOW, MEASURES

__all__ = ["Entry", "SuiteTable", "entries", "read_entry"]

_FOLDER = Path(__file__).parent / "scenarios"


class SuiteTable(Table):
    """Table ``[suite]``: source, deviations and criteria of a scenario."""

    question: str
    """Question that the scenario answers, for tables and pages."""
    source: str
    """Publication of the scenario."""
    remark: str = ""
    """Deviations from the source, with the reason."""
    quick: bool = False
    """Whether ``--quick`` runs the scenario."""
    primary: str
    """Measure of the figure."""
    compared: str = ""
    """Measure of the comparison of two controllers; empty: ``primary``."""
    window: Window | None = None
    """Interval of the run for these measures; None: the whole run."""
    reason: dict[str, str] = Field(default_factory=dict)
    """Known reasons of differences by controller, for criteria without their own."""
    criterion: tuple[Criterion, ...]


@dataclass(frozen=True)
class Entry:
    """Scenario of the suite."""

    name: str
    title: str
    scenario: Mapping[str, Any]
    """Scenario without its table ``[suite]``."""
    suite: SuiteTable

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Criteria in order."""
        reasons = self.suite.reason
        return tuple(one.model_copy(update={"reason": reasons | one.reason}) for one in self.suite.criterion)

    def criteria_of(self, controller: str) -> list[Criterion]:
        """Return the criteria that concern a controller; an empty name is a controller of the user."""
        return [one for one in self.criteria if one.concerns(controller)]

    @property
    def compared(self) -> str:
        """Measure of the comparison of two controllers."""
        return self.suite.compared or self.suite.primary

    @property
    def references(self) -> list[str]:
        """Controllers to whose results criteria are relative."""
        names = [one.relative_to for one in self.criteria if one.relative_to is not None]
        return list(dict.fromkeys(names))


def read_entry(file: Path) -> Entry:
    """Read a scenario file with a table ``[suite]``.

    Raises:
        ScenarioError: the table is missing or has a wrong key, or the scenario has no flow ``main``.
    """
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    table = data.pop("suite", None)
    if not isinstance(table, dict):
        raise ScenarioError([("suite", "missing, expected a table with source and criteria")], file.name)
    try:
        suite = SuiteTable(**table)
    except ScenarioError as error:
        raise error.with_source(file.name) from None
    problems = []
    for key, name in (("primary", suite.primary), ("compared", suite.compared or suite.primary)):
        if name not in MEASURES:
            problems.append((f"suite.{key}", unknown_name(name, MEASURES, "measure")))
    compared = suite.compared or suite.primary
    if compared in MEASURES and not METRICS[compared].better:
        problems.append(("suite.compared", f"found {compared}, expected a measure with a better direction"))
    for number, one in enumerate(suite.criterion, 1):
        key = f"suite.criterion {number}"
        if one.measure not in MEASURES:
            problems.append((key, unknown_name(one.measure, MEASURES, "measure")))
        if one.law is not None and one.law not in LAWS:
            problems.append((key, unknown_name(one.law, LAWS, "law")))
    names = [flow.get("name") for flow in data.get("flow", ()) if isinstance(flow, dict)]
    if FLOW not in names:
        problems.append(("flow", f'found {", ".join(map(str, names)) or "none"}, expected a flow "{FLOW}"'))
    if problems:
        raise ScenarioError(problems, file.name)
    return Entry(file.stem, str(data.get("title", file.stem)), data, suite)


def entries() -> list[Entry]:
    """Return the entries of the package, in the order of their names."""
    return [read_entry(file) for file in sorted(_FOLDER.glob("*.toml"))]
