"""Bundles over QUIC under delay, loss and disruption (chapter 5).

- ``cells``: swept cells, and the cells that each selection needs
- ``measures``: measures of the bundles of a client
- ``claims``: statements d1 to d10 as criteria
- ``interpretations``: what the thesis leaves open, one change at a time
- ``tables``: tables of all cells and of the first acknowledgement
- ``figures``: figures 5.1 to 5.7, by interpretation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import Claim
from bentpipe_studies.andreotti_2025.dtn import cells, interpretations, tables
from bentpipe_studies.andreotti_2025.dtn import claims as dtn_claims
from bentpipe_studies.andreotti_2025.dtn.cells import LONG, SHORT
from bentpipe_studies.andreotti_2025.dtn.claims import InterpretationRuns
from bentpipe_studies.andreotti_2025.dtn.figures import figures
from bentpipe_studies.andreotti_2025.dtn.measures import Bundles
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Row, match_cells

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["WORDS", "Chapter5", "chapter_5", "parts"]

WORDS: Mapping[str, Mapping[str, CellFilter]] = {
    **cells.WORDS,
    "dtn-readings": interpretations.cell_filters(),
    "dtn-first": {tables.FIRST: match_cells()},
}
"""Selections: the cells that chapter 5 draws and states, the whole grid, one run for a test, interpretations,
first seconds.
"""


def parts(directory: Path) -> Sequence[Part]:
    """Return the parts: scenarios, each with a store."""
    plain = [Part(name, directory / f"{name}.toml") for name in (SHORT, LONG)]
    return [
        *plain,
        Part(tables.FIRST, directory / f"{tables.FIRST}.toml", interpretations.NEARER),
        *interpretations.parts(directory),
    ]


@dataclass(frozen=True)
class Chapter5:
    """Findings of chapter 5."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    tables: tuple[TextTable, ...]
    notes: tuple[str, ...]
    charts: tuple[Figure, ...]


def chapter_5(
    measurements: Measurements, selection: set[str], published: Mapping[str, Any], notes: Mapping[str, str]
) -> Chapter5:
    """Return the findings of chapter 5; interpretations and the first seconds only if selected."""
    text_tables = [*tables.cells(measurements)]
    verdicts = interpretations.evaluate(measurements) if "dtn-readings" in selection else {}
    text_tables += interpretations.tables(verdicts)
    if "dtn-first" in selection:
        text_tables += tables.first(measurements)
    panels = {name.upper(): InterpretationRuns(Bundles(measurements), name) for name in cells.CONTROLLERS}
    if verdicts:
        panels["combination with the most support"] = interpretations.combined_runs(measurements)
    return Chapter5(
        dtn_claims.rows(measurements, published, notes),
        dtn_claims.claims(measurements, published, notes),
        tuple(text_tables),
        interpretations.supporting_text(verdicts),
        tuple(figures(panels)),
    )
