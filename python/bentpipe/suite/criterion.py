"""Criteria of a suite scenario: the expected value of a measure, with its source, class and tolerance."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Check, Quantity, Tolerance, Verdict, combine_verdicts
from bentpipe.scenario.base import DurationText, ProbabilityText, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ["Criterion", "OracleClass", "Window", "cell_text", "expected_text", "judge", "window_of"]


class OracleClass(StrEnum):
    """Strength of an expected value."""

    EXACT = "exact"
    """A deterministic or closed-form value: a deviation beyond the tolerance is a failure."""
    BOUND = "bound"
    """A limit of a specification or of physics: its violation is a failure."""
    TREND = "trend"
    """A value or an order that another implementation measured: a deviation is a difference, not a failure."""


class Window(Table):
    """Interval of a run."""

    start: DurationText
    end: DurationText

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in s."""
        return self.start.ns / 1e9, self.end.ns / 1e9


class Criterion(Table):
    """Expected value of a measure.

    Exactly one kind of expectation is set: limits (``at_least``, ``at_most``), a published value or a law.
    """

    measure: str
    """Name of a measure (:mod:`bentpipe.suite.measures`)."""
    oracle: Annotated[OracleClass, Field(alias="class")]
    """Class of the expected value."""
    source: str = ""
    """Source of the expected value; empty: that of the scenario."""
    controllers: tuple[str, ...] = ()
    """Built-in controllers that the criterion concerns; empty: all, also those of users."""
    where: dict[str, str] = Field(default_factory=dict)
    """Cells of the scenario's sweep: dotted keys and values; empty: all."""
    window: Window | None = None
    """Interval of the run for measures over time; None: the whole run."""
    at_least: float | None = None
    at_most: float | None = None
    published: float | None = None
    tolerance: ProbabilityText | None = None
    """Relative tolerance of a published value or a law; required with them."""
    law: str | None = None
    """Name of a law (:mod:`bentpipe.suite.laws`), which has the expected value of a cell."""
    relative_to: str | None = None
    """Controller whose mean of the same cell divides the values."""
    relative_cell: dict[str, str] = Field(default_factory=dict)
    """Keys and values of the sweep that lead to another cell, whose mean divides the values; empty: none."""
    reason: dict[str, str] = Field(default_factory=dict)
    """Known reasons of a difference by controller."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        kinds = [
            self.at_least is not None or self.at_most is not None,
            self.published is not None,
            self.law is not None,
        ]
        if sum(kinds) != 1:
            raise ValueError("expected exactly one of at_least/at_most, published, law")
        if (self.tolerance is None) == (kinds[1] or kinds[2]):
            raise ValueError("expected a tolerance with published or law, and only there")
        if self.relative_to is not None and self.relative_cell:
            raise ValueError("expected at most one of relative_to, relative_cell")
        return self

    @property
    def baseline(self) -> str:
        """Controller or cell whose mean divides the values, as text; empty: none."""
        return self.relative_to or cell_text(self.relative_cell)

    def concerns(self, controller: str) -> bool:
        """Return whether the criterion applies to a built-in controller, or to one of the user (empty name)."""
        return not self.controllers or controller in self.controllers


def cell_text(cell: Mapping[str, str]) -> str:
    """Return a cell as text, with the last words of its keys."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in cell.items())


def expected_text(criterion: Criterion, factor: float, expected: float | None = None) -> str:
    """Return the expectation as text: ``≤ 8``, ``6.70 ± 5 %``.

    Args:
        criterion: the criterion.
        factor: factor from a value to the displayed unit.
        expected: value of the law in this cell.
    """
    value = expected if criterion.law is not None else criterion.published
    if value is not None:
        return f"{format_significant(value * factor, 3)} ± {criterion.tolerance}"
    limits = [("≥", criterion.at_least), ("≤", criterion.at_most)]
    text = ", ".join(
        f"{sign} {format_significant(limit * factor, 3)}" for sign, limit in limits if limit is not None
    )
    return f"{text} × {criterion.baseline}" if criterion.baseline else text


def judge(criterion: Criterion, values: Sequence[float], expected: float | None = None) -> Verdict:
    """Return the verdict on the values of one cell, one for each seed.

    Limits hold if the whole interval of the mean meets them. A published value or a law agrees if the interval of the
    mean lies within the tolerance.

    Args:
        criterion: the criterion.
        values: values over seeds, divided by the mean of the baseline if there is one.
        expected: value of the law in this cell.
    """
    given = tuple(values)
    value = expected if criterion.law is not None else criterion.published
    if value is not None and criterion.tolerance is not None:
        margin = abs(value) * float(criterion.tolerance.value)
        tolerance = Tolerance(f"± {criterion.tolerance}", points=margin)
        return Quantity(criterion.measure, value, given, tolerance=tolerance).verdict
    checks = []
    if criterion.at_least is not None:
        checks.append(Check("", given, criterion.at_least))
    if criterion.at_most is not None:
        checks.append(Check("", given, criterion.at_most, at_least=False))
    return combine_verdicts([check.verdict for check in checks])


def window_of(criterion: Criterion) -> tuple[float, float] | None:
    """Return start and end of the window in s; None: the whole run."""
    return None if criterion.window is None else criterion.window.seconds
