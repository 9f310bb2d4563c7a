"""Chapter 5 of the study: bundles over QUIC under delay, loss and disruption.

``cells`` (what is swept, what each word needs) <- ``measures`` (of a client's bundles) <- ``criteria`` (d1 to d10) <-
``readings`` (what the thesis leaves open, one thing at a time); ``tables``; ``figures`` (5.1 to 5.7, by reading).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable
from bentpipe_studies.andreotti_2025.dtn import cells, interpretations, tables
from bentpipe_studies.andreotti_2025.dtn import claims as dtn_claims
from bentpipe_studies.andreotti_2025.dtn.cells import LONG, SHORT
from bentpipe_studies.andreotti_2025.dtn.claims import Asked
from bentpipe_studies.andreotti_2025.dtn.figures import figures
from bentpipe_studies.andreotti_2025.dtn.measures import Bundles
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Row, match_cells
from bentpipe_studies.verdicts import Claim

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["WORDS", "Found", "found", "parts"]

WORDS: Mapping[str, Mapping[str, CellFilter]] = {
    **cells.WORDS,
    "dtn-readings": interpretations.wanted(),
    "dtn-first": {tables.FIRST: match_cells()},
}
"""What chapter 5 draws and says; every cell of its grid; one run for a test; its readings; its first seconds at 2 s."""


def parts(place: Path) -> Sequence[Part]:
    """One store each."""
    plain = [Part(name, place / f"{name}.toml") for name in (SHORT, LONG)]
    return [
        *plain,
        Part(tables.FIRST, place / f"{tables.FIRST}.toml", interpretations.NEARER),
        *interpretations.parts(place),
    ]


@dataclass(frozen=True)
class Found:
    """What has run of chapter 5."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    tables: tuple[TextTable, ...]
    notes: tuple[str, ...]
    charts: tuple[Figure, ...]


def found(
    measurements: Measurements, asked: set[str], published: Mapping[str, Any], notes: Mapping[str, str]
) -> Found:
    """Numbers of the text, statements, every cell, figures; readings and the first seconds where they are asked for."""
    whole = [*tables.cells(measurements)]
    read = interpretations.judged(measurements) if "dtn-readings" in asked else {}
    whole += interpretations.tables(read)
    if "dtn-first" in asked:
        whole += tables.first(measurements)
    panels = {name.upper(): Asked(Bundles(measurements), name) for name in cells.CONTROLLERS}
    if read:
        panels["what supports most, together"] = interpretations.combined_runs(measurements)
    return Found(
        dtn_claims.rows(measurements, published, notes),
        dtn_claims.claims(measurements, published, notes),
        tuple(whole),
        interpretations.said(read),
        tuple(figures(panels)),
    )
