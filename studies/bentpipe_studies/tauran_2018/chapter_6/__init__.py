"""Chapter 6: many users on one link, by scheduler; tables 6.3 to 6.5, what the text claims, and the figures.

``cells`` (the sweeps) <- ``measures`` (a row a run) <- ``tables`` (printed numbers) <- ``asking`` <- ``tcp_claims`` and
``call_claims`` (statements); ``readings`` says which reading of what is left open the numbers support,
``kept`` what runs of 600 s have, ``evidence`` what one setting does, ``figures`` and ``sketches`` draw. This module
puts them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Row, match_cells
from bentpipe_studies.tauran_2018.cells import BUFFERS
from bentpipe_studies.tauran_2018.chapter_6 import cells, interpretations
from bentpipe_studies.tauran_2018.chapter_6.call_claims import CLAIMS as OF_CALLS
from bentpipe_studies.tauran_2018.chapter_6.cells import INTERPRETATIONS, MAIN, NEAREST
from bentpipe_studies.tauran_2018.chapter_6.evidence import evidence
from bentpipe_studies.tauran_2018.chapter_6.figures import figures
from bentpipe_studies.tauran_2018.chapter_6.measures import Backlogged, Callers, Terminals
from bentpipe_studies.tauran_2018.chapter_6.queries import Asked
from bentpipe_studies.tauran_2018.chapter_6.saved_runs import spreads
from bentpipe_studies.tauran_2018.chapter_6.tables import Numbers, Ran, rows
from bentpipe_studies.tauran_2018.chapter_6.tcp_claims import CLAIMS as OF_TCP
from bentpipe_studies.verdicts import Claim, Verdict

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["CLAIMS", "PARTS", "Chapter6", "chapter_6", "claims_of", "parts", "term_definitions"]

PARTS = ("schedulers", "calls", "bound", "why-schedulers")
CLAIMS = {**OF_CALLS, **OF_TCP}
FULL_S = 600
"""As the thesis's runs of chapters 4 and 5; it does not say how long those of chapter 6 are."""


def store(name: str, *, full: bool) -> str:
    """The name of a part's store: runs of 600 s have their own."""
    return f"{name}-full" if full else name


def parts(place: Path, *, full: bool) -> list[Part]:
    """Its scenarios, at full length or shorter."""
    settings: dict[str, object] = {"duration": f"{FULL_S} s"} if full else {}
    return [Part(store(name, full=full), place / f"{name}.toml", settings=settings) for name in PARTS]


def words(*, full: bool) -> dict[str, dict[str, CellFilter]]:
    """What ``--only`` takes of it."""
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
    """What came out of it."""

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
    """What has run: printed numbers, statements, readings and figures; and what is kept in ``place`` of 600 s."""
    tcp, calls, bound, why = (store(name, full=full) for name in PARTS)
    ran = Ran(
        Terminals(measurements, tcp),
        Callers(measurements, calls),
        Backlogged(measurements, bound),
        Terminals(measurements, why),
        full,
    )
    found = [
        row
        for row in rows(Numbers(published, notes["rows"]), ran)
        if any(one.values for one in row.quantities)
    ]
    claims = {
        interpretation: claims_of(Asked(ran, interpretation), published, notes["claims"])
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
        interpretations.said(scored),
        figures(ran, published),
    )


def _is_shown(row: Row, nearest: str) -> bool:
    """Rows of the two points and of the nearest reading; of the others there are tables side by side."""
    mains = [str(interpretation) for interpretation in INTERPRETATIONS if _is_main(interpretation)]
    return any(row.interpretation in _named(name) for name in (*mains, nearest))


def _is_main(interpretation: cells.Interpretation) -> bool:
    """Of the main point with both sizes of queues, and the nearest: those whose statements are listed."""
    return interpretation.point == MAIN or interpretation == NEAREST


def _named(interpretation: str) -> tuple[str, ...]:
    """A reading without a buffer, and with each."""
    return (interpretation, *(f"{interpretation}, {buffer}" for buffer in BUFFERS))


def claims_of(asked: Asked, published: Mapping[str, Any], notes: Mapping[str, str]) -> list[Claim]:
    """Statements of one reading, where all that they are about has run."""
    found = []
    for name, (own, criterion, check, buffered) in CLAIMS.items():
        table, _, key = name.partition(".")
        text = own or _text(published, table, key)
        for buffer in BUFFERS if buffered else BUFFERS[:1]:
            named = f"{asked.interpretation}, {buffer}" if buffered else str(asked.interpretation)
            checks = check(Asked(asked.ran, asked.interpretation, buffer))
            claim = Claim(name, text, criterion, named, checks, notes.get(name, ""))
            if claim.verdict is not Verdict.NOT_RUN:
                found.append(claim)
    return found


def _text(published: Mapping[str, Any], *keys: str) -> str:
    """A statement by its place in the published file."""
    value: Any = published
    for key in ".".join(keys).split("."):
        value = value[key]
    return str(value)


def _by_reading(claims: Mapping[cells.Interpretation, Sequence[Claim]]) -> tuple[TextTable, ...]:
    """Verdicts of statements side by side, where more than one reading has them."""
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
            "Statements of chapter 6 by reading (by TCP / by link where the buffer matters)", tuple(lines)
        ),
    )
