"""Interface of a study: its parts, the selections of ``--part``, and its findings."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bentpipe.metrics.verdicts import Claim, Quantity, Verdict, combine_verdicts
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.package_data import path_of
from bentpipe_studies.parts import CellFilter, Measurements, Part

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure
    from bentpipe.metrics.format import TextTable

__all__ = [
    "Findings",
    "MainResult",
    "PublishedStudy",
    "Row",
    "Study",
    "decidable_selections",
    "match_any",
    "match_cells",
    "read_toml",
    "select_parts",
    "study_directory",
    "sweep_text",
]


def study_directory(name: str) -> Path:
    """Return the directory of a study's scenarios and published values.

    Raises:
        ScenarioError: the directory is missing.
    """
    studies = path_of("studies")
    if studies is None or not (studies / name).is_dir():
        raise ScenarioError([("", f"the directory studies/{name} is missing; reinstall bentpipe")])
    return studies / name


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def sweep_text(value: object) -> str:
    """Return a swept value as the text that a column of the store has."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def match_cells(values: Mapping[str, Sequence[str]] | None = None) -> CellFilter:
    """Return a filter of cells in which each key has one of its values.

    A key that the sweep lacks restricts nothing.
    """
    restrictions = dict(values or {})
    return lambda cell: all(
        key not in cell or sweep_text(cell[key]) in allowed for key, allowed in restrictions.items()
    )


@dataclass(frozen=True)
class Row:
    """Published row beside its measurement under one interpretation."""

    id: str
    label: str
    source: str
    interpretation: str
    quantities: tuple[Quantity, ...]
    explanation: str = ""

    @property
    def verdict(self) -> Verdict:
        """Combined verdict of all its numbers."""
        return combine_verdicts([quantity.verdict for quantity in self.quantities])


@dataclass(frozen=True)
class MainResult:
    """Main result of a study as a person would state it: the measured number beside the published one."""

    sentence: str
    assumption: str = ""
    """Sentence about the assumption that decides the result."""


@dataclass(frozen=True)
class Findings:
    """Findings of a study."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    tables: tuple[TextTable, ...]
    tolerance: str
    notes: tuple[str, ...] = ()
    figures: tuple[tuple[str, str], ...] = field(default=())
    """Figures of stores for the page: (part, key of a figure)."""
    charts: tuple[Figure, ...] = field(default=())
    """Figures of the study itself, which no store has."""
    rows_title: str = "Published values: goodput of the first and the second flow, Mb/s, and Jain's index"
    """Title of the rows in the terminal."""
    interpretation_title: str = "queue"
    """Name of the ambiguity that an interpretation of a row or claim resolves."""
    main_result: MainResult | None = None
    """Main result of the study; None while its runs are missing."""
    needs_other_parts: bool = False
    """True if missing runs belong to parts that ``--part`` left out."""

    @property
    def items(self) -> tuple[Row | Claim, ...]:
        """Rows and claims."""
        return (*self.rows, *self.claims)

    def decided(self) -> Findings:
        """Return the findings without rows and claims whose runs are missing."""
        rows = tuple(row for row in self.rows if row.verdict is not Verdict.NOT_RUN)
        claims = tuple(claim for claim in self.claims if claim.verdict is not Verdict.NOT_RUN)
        return replace(self, rows=rows, claims=claims)


@dataclass(frozen=True)
class PublishedStudy:
    """Base class of studies: a directory with scenarios, published values and explanations of differences."""

    name: str
    title: str

    @cached_property
    def directory(self) -> Path:
        """Directory of the study."""
        return study_directory(self.name)

    @cached_property
    def published(self) -> dict[str, Any]:
        """Published values (``published.toml``)."""
        return read_toml(self.directory / "published.toml")

    @cached_property
    def notes(self) -> dict[str, Any]:
        """Explanations of differences, by id (``notes.toml``)."""
        return read_toml(self.directory / "notes.toml")

    def to_full_length(self) -> Study:
        """Return the study with every point and runs as long as those of the publication.

        Raises:
            ScenarioError: the study has no longer form.
        """
        raise ScenarioError([("full", f"{self.name} has no longer form")], SOURCE_ARGUMENT)


class Study(Protocol):
    """Published study."""

    @property
    def name(self) -> str:
        """Name of the study."""
        ...

    @property
    def title(self) -> str:
        """Title of the study."""
        ...

    def parts(self) -> Sequence[Part]:
        """Return the parts: scenarios, each with a store."""
        ...

    def selections(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Return the selections of ``--part``, and the filter of cells of each part that a selection needs."""
        ...

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Return published values beside measured ones for the selections in ``only`` (all when empty)."""
        ...

    def to_full_length(self) -> Study:
        """Return the study with every point and runs as long as those of the publication.

        Raises:
            ScenarioError: the study has no longer form.
        """
        ...


def select_parts(study: Study, only: str | None) -> tuple[list[str], dict[str, CellFilter]]:
    """Return the selections of ``only`` (comma-separated; all without) and the filter of cells for each part.

    Raises:
        ScenarioError: the study lacks one of the selections.
    """
    known = study.selections()
    names = [name.strip() for name in only.split(",") if name.strip()] if only else []
    for name in names:
        if name not in known:
            raise ScenarioError([("part", unknown_name(name, list(known), "part"))], SOURCE_ARGUMENT)
    filters: dict[str, list[CellFilter]] = {}
    for name in names or list(known):
        for part, cell_filter in known[name].items():
            filters.setdefault(part, []).append(cell_filter)
    return names, {part: match_any(tests) for part, tests in filters.items()}


def decidable_selections(study: Study, measurements: Measurements, selected: Sequence[str]) -> list[str]:
    """Return the selections whose parts all have a store, and those of ``selected``.

    Args:
        study: the study.
        measurements: its stores.
        selected: selections of ``--part``; empty: all. A selection without parts needs no store and is
            returned only if it is selected.
    """
    return [
        name
        for name, parts in study.selections().items()
        if name in selected
        or (parts and all(measurements.store(part) is not None for part in parts))
        or not (parts or selected)
    ]


def match_any(filters: Sequence[CellFilter]) -> CellFilter:
    """Return a filter of cells that one of several filters accepts."""
    return lambda cell: any(accepts(cell) for accepts in filters)
