"""Many users on one link, by scheduler (chapter 6): tables 6.3 to 6.5, statements of the text, and figures.

- ``cells``: swept keys and cells
- ``measures``: one row of measures for each run
- ``tables``: printed numbers
- ``queries``: lookups and means over numbers of users
- ``tcp_claims``: statements of section 6.4
- ``call_claims``: statements of sections 6.1 and 6.3
- ``interpretations``: the interpretation that the numbers support
- ``saved_runs``: saved measures of runs of 600 s
- ``evidence``: one changed setting at a time
- ``figures``: measured figures
- ``figure_parts``: figures that the thesis draws by hand
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import Claim, Verdict
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Row, match_cells
from bentpipe_studies.tauran_2018.cells import BUFFERS
from bentpipe_studies.tauran_2018.chapter_6 import cells, interpretations
from bentpipe_studies.tauran_2018.chapter_6.call_claims import CLAIMS as OF_CALLS
from bentpipe_studies.tauran_2018.chapter_6.cells import INTERPRETATIONS, MAIN, NEAREST
from bentpipe_studies.tauran_2018.chapter_6.evidence import evidence
from bentpipe_studies.tauran_2018.chapter_6.figures import figures
from bentpipe_studies.tauran_2018.chapter_6.measures import Backlogged, Callers, Terminals
from bentpipe_studies.tauran_2018.chapter_6.queries import InterpretationRuns
from bentpipe_studies.tauran_2018.chapter_6.saved_runs import spreads
from bentpipe_studies.tauran_2018.chapter_6.tables import Chapter6Runs, PublishedNumbers, rows
from bentpipe_studies.tauran_2018.chapter_6.tcp_claims import CLAIMS as OF_TCP

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["CLAIMS", "PARTS", "Chapter6", "chapter_6", "claims_of", "parts", "term_definitions"]

PARTS = ("schedulers", "calls", "bound", "why-schedulers")
CLAIMS = {**OF_CALLS, **OF_TCP}
FULL_S = 600
"""Duration of full runs, as in chapters 4 and 5; the thesis does not state that of chapter 6."""


def store(name: str, *, full: bool) -> str:
    """Return the name of a part's store; runs of 600 s have their own."""
    return f"{name}-full" if full else name


def parts(place: Path, *, full: bool) -> list[Part]:
    """Return the scenarios, at full length or shorter."""
    settings: dict[str, object] = {"duration": f"{FULL_S} s"} if full else {}
    return [Part(store(name, full=full), place / f"{name}.toml", settings=settings) for name in PARTS]


def words(*, full: bool) -> dict[str, dict[str, CellFilter]]:
    """Return the selections of ``--part`` of this chapter."""
    tcp, calls, bound, why = (store(name, full=full) for name in PARTS)
    return {
        "chapter-6": {tcp: cells.tcp(), calls: cells.calls(), bound: cells.bound()},
        "nearest-6": {tcp: cells.nearest_tcp(), calls: cells.nearest_calls()},
        "6.3": {calls: cells.calls()},
        "6.4": {tcp: cells.tcp()},
        "bound": {bound: match_cells()},
        "readings": {tcp: cells.interpretations_of_tcp(), calls: cells.interpretations_of_calls()},
        "why-6": {why: cells.why()},
        "short-6": {tcp: cells.short_tcp(), calls: cells.short_calls()},
    }


@dataclass(frozen=True)
class Chapter6:
    """Findings of chapter 6."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    tables: tuple[TextTable, ...]
    notes: tuple[str, ...]
    charts: tuple[Figure, ...]


def chapter_6(
    measurements: Measurements,
    published: Mapping[str, Any],
    notes: Mapping[str, Any],
    place: Path,
    *,
    full: bool,
) -> Chapter6:
    """Return printed numbers, statements, interpretations and figures of what has run, with saved runs of 600 s."""
    tcp, calls, bound, why = (store(name, full=full) for name in PARTS)
    ran = Chapter6Runs(
        Terminals(measurements, tcp),
        Callers(measurements, calls),
        Backlogged(measurements, bound),
        Terminals(measurements, why),
        full,
    )
    found = [
        row
        for row in rows(PublishedNumbers(published, notes["rows"]), ran)
        if any(one.values for one in row.quantities)
    ]
    claims = {
        interpretation: claims_of(InterpretationRuns(ran, interpretation), published, notes["claims"])
        for interpretation in INTERPRETATIONS
    }
    scored = interpretations.scores(found)
    return Chapter6(
        tuple(row for row in found if _is_shown(row, interpretations.nearest(scored))),
        tuple(
            claim
            for interpretation in INTERPRETATIONS
            if _is_main(interpretation)
            for claim in claims[interpretation]
        ),
        (
            *interpretations.table(scored),
            *interpretations.side_by_side(found),
            *_by_reading(claims),
            *((spreads(published, place),) if ran.tcp.frame.height and not full else ()),
            *evidence(ran),
        ),
        interpretations.nearest_text(scored),
        figures(ran, published),
    )


def _is_shown(row: Row, nearest: str) -> bool:
    """Return whether a row is listed: both main points and the nearest interpretation are; the others have tables."""
    mains = [str(interpretation) for interpretation in INTERPRETATIONS if _is_main(interpretation)]
    return any(row.interpretation in _named(name) for name in (*mains, nearest))


def _is_main(interpretation: cells.Interpretation) -> bool:
    """Return whether the statements of an interpretation are listed.

    They are for the main point with both queue sizes, and for the nearest interpretation.
    """
    return interpretation.point == MAIN or interpretation == NEAREST


def _named(interpretation: str) -> tuple[str, ...]:
    """Return the names of an interpretation without a buffer, and with each."""
    return (interpretation, *(f"{interpretation}, {buffer}" for buffer in BUFFERS))


def claims_of(
    asked: InterpretationRuns, published: Mapping[str, Any], notes: Mapping[str, str]
) -> list[Claim]:
    """Return the statements of one interpretation, if all that they need has run."""
    found = []
    for name, (own, criterion, check, buffered) in CLAIMS.items():
        table, _, key = name.partition(".")
        text = own or _text(published, table, key)
        for buffer in BUFFERS if buffered else BUFFERS[:1]:
            named = f"{asked.interpretation}, {buffer}" if buffered else str(asked.interpretation)
            checks = check(InterpretationRuns(asked.ran, asked.interpretation, buffer))
            claim = Claim(name, text, criterion, named, checks, notes.get(name, ""))
            if claim.verdict is not Verdict.NOT_RUN:
                found.append(claim)
    return found


def _text(published: Mapping[str, Any], *keys: str) -> str:
    """Return a statement by its place in the published file."""
    value: Any = published
    for key in ".".join(keys).split("."):
        value = value[key]
    return str(value)


def _by_reading(claims: Mapping[cells.Interpretation, Sequence[Claim]]) -> tuple[TextTable, ...]:
    """Return the verdicts of statements side by side, if several interpretations have them."""
    there = {interpretation: found for interpretation, found in claims.items() if found}
    if len(there) < 2:
        return ()
    lines = []
    for name in CLAIMS:
        line = {"statement": name}
        for interpretation, found in there.items():
            verdicts = [claim.verdict.value for claim in found if claim.id == name]
            line[str(interpretation)] = " / ".join(verdicts) or "–"
        lines.append(line)
    return (
        TextTable(
            "Statements of chapter 6 by interpretation (by TCP / by link where the buffer matters)",
            tuple(lines),
        ),
    )
