"""Results of a suite: for each scenario and controller the criteria with their values and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.verdicts import Verdict
from bentpipe.store.files import EmptyStoreError
from bentpipe.store.reader import open_store
from bentpipe.suite.criterion import Criterion, OracleClass, cell_text, expected_text, judge, window_of
from bentpipe.suite.laws import LAWS
from bentpipe.suite.measures import measure_values

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.plan import Plan
    from bentpipe.store.reader import Store
    from bentpipe.suite.config import Controller
    from bentpipe.suite.entry import Entry
    from bentpipe.suite.execution import SuitePart

__all__ = ["CellResult", "CriterionResult", "Outcome", "SuiteResult", "read_results"]


class Outcome(StrEnum):
    """Outcome of a scenario with a controller, the worst first."""

    ERROR = "error"
    """A run failed."""
    FAILS = "fails"
    """An exact value or a bound is not met."""
    DIFFERS = "differs"
    """A trend differs."""
    UNDECIDED = "undecided"
    """The seeds do not decide a criterion."""
    PASSES = "passes"
    UNPUBLISHED = "no published value"
    """No criterion concerns the controller."""


@dataclass(frozen=True)
class CriterionResult:
    """Criterion in one cell of the scenario's sweep, with values and verdict."""

    controller: str
    """Canonical name of a built-in controller; empty: a class of the user."""
    criterion: Criterion
    cell: Mapping[str, str]
    values: tuple[float, ...]
    """One value for each seed, in the unit of the measure's registry; relative ones are ratios."""
    expected: float | None
    """Value of the law."""
    verdict: Verdict
    detail: str = ""
    """Measured and required values of a check."""

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Mean and its interval over seeds."""
        return mean_ci(self.values) if self.values else None

    @property
    def factor(self) -> float:
        """Factor from a value to the displayed unit."""
        if self.criterion.baseline or self.criterion.measure not in METRICS:
            return 1.0
        return METRICS[self.criterion.measure].scale

    @property
    def is_failure(self) -> bool:
        """Whether an exact value or a bound is not met."""
        return self.verdict is Verdict.DIFFERS and self.criterion.oracle != OracleClass.TREND

    @property
    def is_check(self) -> bool:
        """Whether it is a check of the controller alone."""
        return bool(self.detail)

    @property
    def window(self) -> tuple[float, float] | None:
        """Start and end of the window in s."""
        return window_of(self.criterion)

    @property
    def source(self) -> str:
        """Source of the expected value."""
        return self.criterion.source

    @property
    def reason(self) -> str:
        """Detail of a check, or known reason of a difference."""
        if self.detail:
            return self.detail
        return self.criterion.reason.get(self.controller, "") if self.verdict is Verdict.DIFFERS else ""

    def expectation(self) -> str:
        """Return the expectation as text in the displayed unit."""
        return expected_text(self.criterion, self.factor, self.expected)


@dataclass(frozen=True)
class CellResult:
    """Scenario with a controller."""

    entry: Entry
    controller: Controller
    seeds: int
    """Largest number of seeds of a cell of the sweep."""
    criteria: tuple[CriterionResult, ...]
    primary: Mapping[str, tuple[float, ...]]
    """Values of the primary measure by cell (as text), one for each seed."""
    compared: Mapping[str, tuple[float, ...]]
    """Values of the compared measure, in the same form."""
    error: str = ""

    @property
    def outcome(self) -> Outcome:
        """Worst outcome of the criteria."""
        if self.error:
            return Outcome.ERROR
        if not self.criteria:
            return Outcome.UNPUBLISHED
        if any(one.is_failure for one in self.criteria):
            return Outcome.FAILS
        verdicts = {one.verdict for one in self.criteria}
        if Verdict.DIFFERS in verdicts:
            return Outcome.DIFFERS
        if verdicts & {Verdict.UNDECIDED, Verdict.NOT_RUN}:
            return Outcome.UNDECIDED
        return Outcome.PASSES


@dataclass(frozen=True)
class SuiteResult:
    """All cells of a suite, by scenario, then by controller."""

    cells: tuple[CellResult, ...]
    engine: str

    def of(self, entry: str, controller: str) -> CellResult | None:
        """Return the cell of a scenario and a controller."""
        found = (one for one in self.cells if (one.entry.name, one.controller.label) == (entry, controller))
        return next(found, None)

    @property
    def entries(self) -> list[str]:
        """Names of the scenarios in order."""
        return list(dict.fromkeys(one.entry.name for one in self.cells))

    @property
    def controllers(self) -> list[str]:
        """Labels of the controllers in order."""
        return list(dict.fromkeys(one.controller.label for one in self.cells))


class _Values:
    """Values of measures in the stores of the parts, read once."""

    def __init__(self, parts: Sequence[SuitePart], out: Path) -> None:
        self._stores: dict[tuple[str, str], Store | None] = {}
        self._parts, self._out = {(one.entry.name, one.controller.label): one for one in parts}, out
        self._found: dict[tuple[Any, ...], dict[str, float]] = {}
        self._runs = {key: _runs_by_cell(part.plan) for key, part in self._parts.items()}

    def store(self, key: tuple[str, str]) -> Store | None:
        """Return the store of a scenario and a controller; None without a finished run."""
        if key not in self._stores:
            try:
                self._stores[key] = open_store(self._parts[key].store_path(self._out))
            except EmptyStoreError:
                self._stores[key] = None
        return self._stores[key]

    def of(
        self, key: tuple[str, str], cell: Mapping[str, str], measure: str, window: tuple[float, float] | None
    ) -> tuple[float, ...]:
        """Return the values of a measure in one cell, in the order of seeds."""
        place = (key, measure, window)
        if place not in self._found:
            store = self.store(key)
            frame = None if store is None else measure_values(store, measure, window)
            self._found[place] = {} if frame is None else dict(frame.select("run", "value").iter_rows())
        found = self._found[place]
        return tuple(found[run] for run in self._runs[key][tuple(cell.items())] if run in found)


def read_results(
    parts: Sequence[SuitePart],
    out: Path,
    failures: Mapping[tuple[str, str], str],
    engine: str,
    checks: Sequence[CellResult] = (),
) -> SuiteResult:
    """Read the stores of the parts and judge them.

    Args:
        parts: parts of the suite.
        out: directory of the stores.
        failures: first error by scenario and controller.
        engine: version of the engine.
        checks: cells of the checks, which have no store.
    """
    values = _Values(parts, out)
    cells = [
        _cell(part, values, failures.get((part.entry.name, part.controller.label), ""))
        for part in parts
        if not part.is_reference
    ]
    return SuiteResult((*checks, *cells), engine)


def _cell(part: SuitePart, values: _Values, error: str) -> CellResult:
    entry, controller = part.entry, part.controller
    key = (entry.name, controller.label)
    cells = _cells(part.plan)
    found = []
    for criterion in entry.criteria_of(controller.built_in):
        for cell in cells:
            if any(cell.get(name) != value for name, value in criterion.where.items()):
                continue
            law = LAWS[criterion.law] if criterion.law is not None else None
            expected = law(controller.built_in, cell) if law is not None else None
            if law is not None and expected is None:
                continue
            measured = values.of(key, cell, criterion.measure, window_of(criterion))
            if criterion.baseline:
                reference = (entry.name, criterion.relative_to or controller.label)
                other = {**cell, **criterion.relative_cell}
                base = values.of(reference, other, criterion.measure, window_of(criterion))
                mean = mean_ci(base).estimate if base else 0.0
                measured = tuple(value / mean for value in measured) if mean else ()
            verdict = judge(criterion, measured, expected)
            found.append(CriterionResult(controller.built_in, criterion, cell, measured, expected, verdict))
    window = None if entry.suite.window is None else entry.suite.window.seconds
    primary = {cell_text(cell): values.of(key, cell, entry.suite.primary, window) for cell in cells}
    compared = {cell_text(cell): values.of(key, cell, entry.compared, window) for cell in cells}
    seeds = max(len(cell.seeds) for cell in part.plan.cells)
    return CellResult(entry, controller, seeds, tuple(found), primary, compared, error)


def _cells(plan: Plan) -> list[dict[str, str]]:
    """Return the cells of the sweep in order, as texts."""
    cells = [_texts(plan, run.cell) for run in plan.runs]
    return [cell for number, cell in enumerate(cells) if cell not in cells[:number]]


def _runs_by_cell(plan: Plan) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Return the ids of the runs by the items of their cell, in the order of seeds."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in plan.runs:
        found.setdefault(tuple(_texts(plan, run.cell).items()), []).append(run.id)
    return found


def _texts(plan: Plan, cell: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of the axes of a sweep as a scenario file spells them, without the keys behind a label."""
    axes = plan.document.data.get("sweep", {})
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in cell.items()
        if key in axes
    }
