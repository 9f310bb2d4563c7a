"""QUIC and bundles over LEO and GEO (Andreotti 2025, sections 4.2 to 4.4 and chapter 5).

QUIC flows run alone, against QUIC and against TCP.

Values and statements of the thesis are in ``studies/andreotti-2025/published.toml``, explanations of
differences in
``notes.toml`` beside it. Nothing is tuned to a published value.

- ``cells``: keys and cells of the sweeps
- ``claims``: claims c1 to c6 as criteria that can fail
- ``extensions``: tables without published counterpart
- ``emulation``: the short form in real time
- ``dtn``: bundles over QUIC (chapter 5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bentpipe.metrics.compute import jain_index
from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import FLOOR, Claim, Quantity
from bentpipe_studies.andreotti_2025 import dtn
from bentpipe_studies.andreotti_2025.cells import (
    ALONE,
    DELAY,
    GEO,
    INTERPRETATIONS,
    LEO,
    LOSS,
    RATE,
    TCP,
    pair,
    queue,
)
from bentpipe_studies.andreotti_2025.claims import CRITERIA, main_result
from bentpipe_studies.andreotti_2025.extensions import (
    alone_table,
    grid_table,
    late_table,
    tcp_table,
    why_alone_table,
    why_table,
    why_tcp_tables,
)
from bentpipe_studies.evidence import FilteredCubic, UnfrozenHybla
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Findings, PublishedStudy, Row, match_any, match_cells

__all__ = ["STUDY", "Andreotti2025"]

JAIN_TOLERANCE = 1e-4
"""Tolerance of the printed indices: two are truncated, not rounded."""

WHY = ("why", "why-alone", "why-tcp", "why-tcp-split")
"""Parts that are evidence for explanations."""

TOLERANCE = (
    "A published value agrees if it lies in the 95 % prediction interval: mean ± t s √(1 + 1/n) "
    f"over seeds. The interval is at least ± {FLOOR:.0%}, because clocks, log interval and headers "
    "differ by that much. A claim is a list of checks on means over seeds. Each check holds or fails with "
    "its whole 95 % interval; otherwise it is undecided. One seed decides no row. Tolerance of "
    f"Jain's indices recomputed from the published goodputs: {JAIN_TOLERANCE:g}."
)


@dataclass(frozen=True)
class Andreotti2025(PublishedStudy):
    """Study of Andreotti 2025."""

    name: str = "andreotti-2025"
    title: str = "Andreotti 2025: QUIC over LEO and GEO, sections 4.2 to 4.4 and chapter 5"

    def parts(self) -> Sequence[Part]:
        """Return the parts: scenarios, each with a store."""
        nearer = {"filtered-cubic": FilteredCubic, "unfrozen-hybla": UnfrozenHybla}
        plain = [
            Part(name, self.directory / f"{name}.toml")
            for name in (*INTERPRETATIONS.values(), "friendliness", "late-start", *TCP)
        ]
        explanation = [Part(name, self.directory / f"{name}.toml", nearer) for name in WHY]
        return [*plain, *explanation, *dtn.parts(self.directory)]

    def selections(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Return the selections: parts, printed rows, all claims, and single claims."""
        single = dict.fromkeys(INTERPRETATIONS.values(), match_cells())
        leo10, geo10 = {DELAY: [LEO], RATE: ["10 Mbit/s"]}, {DELAY: [GEO], RATE: ["10 Mbit/s"]}
        dict_of = dict.fromkeys
        claims: dict[str, dict[str, CellFilter]] = {
            "c1": dict_of(INTERPRETATIONS.values(), match_cells({**leo10, LOSS: ["0.01 %"]})),
            "c2": dict_of(INTERPRETATIONS.values(), match_cells({**leo10, LOSS: ["0.01 %", "10 %"]})),
            "c3": dict_of(INTERPRETATIONS.values(), match_cells(geo10)),
            "c4": dict_of(
                INTERPRETATIONS.values(), match_cells({**geo10, LOSS: ["0.01 %"], ALONE: ["cubic", "hybla"]})
            ),
            "c5": {"single-flow": match_cells({DELAY: [GEO], RATE: ["100 Mbit/s"]})},
            "c6": {"late-start": match_cells()},
        }
        filters: dict[str, list[CellFilter]] = {}
        for needs in claims.values():
            for part, accepts in needs.items():
                filters.setdefault(part, []).append(accepts)
        return {
            "single": single,
            "friendliness": {"friendliness": match_cells()},
            "tcp": dict.fromkeys(TCP, match_cells()),
            "rows": {
                "friendliness": match_cells({LOSS: ["0.01 %"]}),
                **dict.fromkeys(TCP[:2], match_cells()),
            },
            "late-start": {"late-start": match_cells()},
            "why": dict.fromkeys(WHY, match_cells()),
            "claims": {part: match_any(accepted) for part, accepted in filters.items()},
            **claims,
            **dtn.WORDS,
        }

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Return rows, claims and tables of the selections."""
        selection = set(only) or {
            "rows",
            "claims",
            "single",
            "friendliness",
            "late-start",
            "tcp",
            "why",
            "dtn",
        }
        rows = self.rows(measurements) if selection & {"rows", "friendliness", "tcp"} else ()
        all_claims = "claims" in selection
        claims = [claim for claim in self.claims(measurements) if all_claims or claim.id in selection]
        tables: list[TextTable] = []
        if "single" in selection:
            tables += [
                alone_table(measurements, *interpretation) for interpretation in INTERPRETATIONS.items()
            ]
        if "friendliness" in selection:
            tables += [grid_table(measurements, interpretation) for interpretation in INTERPRETATIONS]
        if "late-start" in selection:
            tables.append(late_table(measurements))
        if "tcp" in selection:
            tables.append(tcp_table(measurements))
        if "why" in selection:
            tables += [why_table(measurements), why_alone_table(measurements), *why_tcp_tables(measurements)]
        if not selection & set(dtn.WORDS):
            return replace(self.answer(rows, claims, tables), main_result=main_result(measurements))
        chapter = dtn.chapter_5(measurements, selection, self.published, self.notes["dtn"])
        findings = self.answer((*rows, *chapter.rows), [*claims, *chapter.claims], [*tables, *chapter.tables])
        # With bundles alone the interpretations are controllers.
        return replace(
            findings,
            notes=(*chapter.notes, *findings.notes),
            charts=chapter.charts,
            main_result=main_result(measurements),
            interpretation_title="interpretation" if rows or claims else "controller",
            rows_title=findings.rows_title if rows else "Numbers in the text of chapter 5, s",
        )

    def answer(self, rows: Sequence[Row], claims: Sequence[Claim], tables: Sequence[TextTable]) -> Findings:
        """Return findings with tolerance, reminders and figures."""
        return Findings(
            tuple(rows),
            tuple(claims),
            tuple(table for table in tables if table.rows),
            TOLERANCE,
            tuple(self.reminders()),
            (("single-flow", "goodput-by-parameter"), ("friendliness", "goodput-shares")),
        )

    def reminders(self) -> list[str]:
        """Return the check of the published values themselves."""
        found = []
        rows = self.published["friendliness"]
        wrong = [row for row in rows if abs((jain_index(row["goodput"]) or 0) - row["jain"]) > JAIN_TOLERANCE]
        text = "".join(
            f"; {row['id']}: {jain_index(row['goodput']):.5f}, published {row['jain']}" for row in wrong
        )
        found.append(
            f"Jain's index recomputed from the published goodputs: {len(rows) - len(wrong)} of "
            f"{len(rows)} rows within {JAIN_TOLERANCE:g}{text}."
        )
        return found

    def rows(self, measurements: Measurements) -> tuple[Row, ...]:
        """Return the printed pairs under both interpretations of the queue."""
        found = []
        for row in self.published["friendliness"]:
            part = row.get("part", "friendliness")
            for interpretation in INTERPRETATIONS:
                cell = pair(interpretation, LEO if row["rtt_ms"] == 30 else GEO, "0.01 %", row["second"])
                if part in TCP:
                    cell = queue(interpretation)
                metrics = measurements.rows(part, cell, "rival")
                jain = tuple(metrics["jain"].to_list()) if metrics.height else ()
                found.append(
                    Row(
                        row["id"],
                        f"{'LEO' if row['rtt_ms'] == 30 else 'GEO'}: {row['first']} against {row['second']}",
                        row["where"],
                        interpretation,
                        (
                            Quantity("first", row["goodput"][0], measurements.goodput(part, cell, "hybla")),
                            Quantity("second", row["goodput"][1], measurements.goodput(part, cell, "rival")),
                            Quantity("jain", row["jain"], jain, upper_bound=1.0),
                        ),
                        self.notes["rows"].get(row["id"], ""),
                    )
                )
        return tuple(found)

    def claims(self, measurements: Measurements) -> tuple[Claim, ...]:
        """Return c1 to c6 as criteria, under the interpretations that can measure them."""
        found = []
        for name, text in self.published["claims"].items():
            criterion, check = CRITERIA[name]
            for interpretation, part in INTERPRETATIONS.items():
                if name == "c5" and interpretation != "netem":
                    continue  # 100 Mb/s is run in the testbed's queue only
                explanation = self.notes["claims"].get(name, "")
                found.append(
                    Claim(
                        name,
                        text,
                        criterion,
                        interpretation,
                        check(measurements, part, interpretation),
                        explanation,
                    )
                )
        return tuple(found)


STUDY = Andreotti2025()
