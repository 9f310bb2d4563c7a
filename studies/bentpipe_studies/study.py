"""What a study is: its parts, what each word after ``--only`` needs, and what it makes of the measurements."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.package_data import path_of
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.verdicts import Claim, Quantity, Verdict, combine_verdicts

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure
    from bentpipe.metrics.format import TextTable

__all__ = [
    "Findings",
    "PublishedStudy",
    "Row",
    "Study",
    "match_any",
    "match_cells",
    "read_toml",
    "select_parts",
    "study_directory",
    "sweep_text",
]


def study_directory(name: str) -> Path:
    """The folder of a study's scenarios and published figures. Raises ScenarioError when it is not there."""
    place = path_of("studies")
    if place is None or not (place / name).is_dir():
        raise ScenarioError([("", f"the folder studies/{name} is not there: this package is not whole")])
    return place / name


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def sweep_text(value: object) -> str:
    """A value of a sweep as the store's columns have it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def match_cells(values: Mapping[str, Sequence[str]] | None = None) -> CellFilter:
    """Cells in which each key has one of its values; a key that the sweep does not have is no restriction."""
    wanted = dict(values or {})
    return lambda cell: all(
        key not in cell or sweep_text(cell[key]) in allowed for key, allowed in wanted.items()
    )


@dataclass(frozen=True)
class Row:
    """A published row beside its measurement in one reading."""

    id: str
    label: str
    source: str
    interpretation: str
    quantities: tuple[Quantity, ...]
    explanation: str = ""

    @property
    def verdict(self) -> Verdict:
        """On all its numbers together."""
        return combine_verdicts([quantity.verdict for quantity in self.quantities])


@dataclass(frozen=True)
class Findings:
    """What came out."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    tables: tuple[TextTable, ...]
    tolerance: str
    notes: tuple[str, ...] = ()
    figures: tuple[tuple[str, str], ...] = field(default=())
    """(part, key of a figure) for the page."""
    charts: tuple[Figure, ...] = field(default=())
    """Figures of the study's own, which no store draws."""
    rows_title: str = "Printed rows: goodput of the first and the second flow, Mb/s, and Jain's index"
    """What stands above the rows in the terminal."""
    interpretation_title: str = "queue"
    """What the readings of a row or claim are readings of."""


@dataclass(frozen=True)
class PublishedStudy:
    """What every study has: a folder with its scenarios, what was published, and why results differ."""

    name: str
    title: str

    @cached_property
    def place(self) -> Path:
        """The folder."""
        return study_directory(self.name)

    @cached_property
    def published(self) -> dict[str, Any]:
        """What was published."""
        return read_toml(self.place / "published.toml")

    @cached_property
    def notes(self) -> dict[str, Any]:
        """Why results differ, by id."""
        return read_toml(self.place / "notes.toml")

    def to_full_length(self) -> Study:
        """The study with every point and runs as long as the publication's. Raises ScenarioError: it has no more."""
        raise ScenarioError(
            [("full", f"{self.name} has no longer form: it is always whole")], SOURCE_ARGUMENT
        )


class Study(Protocol):
    """A published study."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def title(self) -> str:
        """What stands above it."""
        ...

    def parts(self) -> Sequence[Part]:
        """Its scenarios."""
        ...

    def words(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """What ``--only`` takes, and the cells of the parts that each word needs."""
        ...

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Published against measured, of what ``only`` names (everything when empty)."""
        ...

    def to_full_length(self) -> Study:
        """The same with every point and runs as long as the publication's. Raises ScenarioError: it has no more."""
        ...


def select_parts(study: Study, only: str | None) -> tuple[list[str], dict[str, CellFilter]]:
    """The words of ``only`` (comma-separated; all without) and the cells they need, by part.

    Raises:
        ScenarioError: a word that the study does not have.
    """
    known = study.words()
    words = [word.strip() for word in only.split(",") if word.strip()] if only else []
    for word in words:
        if word not in known:
            raise ScenarioError([("only", unknown_name(word, list(known), "part"))], SOURCE_ARGUMENT)
    needs: dict[str, list[CellFilter]] = {}
    for word in words or list(known):
        for part, wanted in known[word].items():
            needs.setdefault(part, []).append(wanted)
    return words, {part: match_any(tests) for part, tests in needs.items()}


def match_any(tests: Sequence[CellFilter]) -> CellFilter:
    """Cells that one of several tests wants."""
    return lambda cell: any(test(cell) for test in tests)
