"""QUIC over LEO and GEO: alone, against QUIC, against TCP; bundles (Andreotti 2025, sections 4.2 to 4.4, chapter 5).

Numbers and statements of the thesis are in ``studies/andreotti-2025/published.toml``, sentences on differences in
``notes.toml`` beside it. Statements become criteria that can fail in ``claims.py``.
Nothing is tuned to a published value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bentpipe.metrics.compute import jain_index
from bentpipe.metrics.format import TextTable
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
from bentpipe_studies.andreotti_2025.claims import CRITERIA
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
from bentpipe_studies.verdicts import FLOOR, Claim, Quantity

__all__ = ["STUDY", "Andreotti2025"]

JAIN_TOLERANCE = 1e-4
"""Of the printed indices: two are truncated, not rounded."""

WHY = ("why", "why-alone", "why-tcp", "why-tcp-split")
"""Parts that are evidence."""

TOLERANCE = (
    "A published number agrees when it lies where one more run would with 95 %: the mean ± t s √(1 + 1/n) over seeds, "
    f"and at least ± {FLOOR:.0%} (clocks, log interval and headers differ by that much). A claim is a list of checks "
    "on means over seeds; each holds or fails with its whole 95 % interval, else it is undecided. With one seed no "
    f"row can be decided. Jain's indices recomputed from the printed goodputs: within {JAIN_TOLERANCE:g}."
)


@dataclass(frozen=True)
class Andreotti2025(PublishedStudy):
    """The study."""

    name: str = "andreotti-2025"
    title: str = "Andreotti 2025: QUIC over LEO and GEO, sections 4.2 to 4.4 and chapter 5"

    def parts(self) -> Sequence[Part]:
        """One store each."""
        nearer = {"filtered-cubic": FilteredCubic, "unfrozen-hybla": UnfrozenHybla}
        plain = [
            Part(name, self.directory / f"{name}.toml")
            for name in (*INTERPRETATIONS.values(), "friendliness", "late-start", *TCP)
        ]
        explanation = [Part(name, self.directory / f"{name}.toml", nearer) for name in WHY]
        return [*plain, *explanation, *dtn.parts(self.directory)]

    def selections(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Parts, printed rows, claims, and single claims."""
        single = dict.fromkeys(INTERPRETATIONS.values(), match_cells())
        leo10, geo10 = {DELAY: [LEO], RATE: ["10 Mbit/s"]}, {DELAY: [GEO], RATE: ["10 Mbit/s"]}
        both = dict.fromkeys
        claims: dict[str, dict[str, CellFilter]] = {
            "c1": both(INTERPRETATIONS.values(), match_cells({**leo10, LOSS: ["0.01 %"]})),
            "c2": both(INTERPRETATIONS.values(), match_cells({**leo10, LOSS: ["0.01 %", "10 %"]})),
            "c3": both(INTERPRETATIONS.values(), match_cells(geo10)),
            "c4": both(
                INTERPRETATIONS.values(), match_cells({**geo10, LOSS: ["0.01 %"], ALONE: ["cubic", "hybla"]})
            ),
            "c5": {"single-flow": match_cells({DELAY: [GEO], RATE: ["100 Mbit/s"]})},
            "c6": {"late-start": match_cells()},
        }
        needed: dict[str, list[CellFilter]] = {}
        for needs in claims.values():
            for part, wanted in needs.items():
                needed.setdefault(part, []).append(wanted)
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
            "claims": {part: match_any(tests) for part, tests in needed.items()},
            **claims,
            **dtn.WORDS,
        }

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Rows, claims, and what stands alone."""
        asked = set(only) or {"rows", "claims", "single", "friendliness", "late-start", "tcp", "why", "dtn"}
        rows = self.rows(measurements) if asked & {"rows", "friendliness", "tcp"} else ()
        every = "claims" in asked
        claims = [claim for claim in self.claims(measurements) if every or claim.id in asked]
        tables: list[TextTable] = []
        if "single" in asked:
            tables += [
                alone_table(measurements, *interpretation) for interpretation in INTERPRETATIONS.items()
            ]
        if "friendliness" in asked:
            tables += [grid_table(measurements, interpretation) for interpretation in INTERPRETATIONS]
        if "late-start" in asked:
            tables.append(late_table(measurements))
        if "tcp" in asked:
            tables.append(tcp_table(measurements))
        if "why" in asked:
            tables += [why_table(measurements), why_alone_table(measurements), *why_tcp_tables(measurements)]
        if not asked & set(dtn.WORDS):
            return self.answer(rows, claims, tables)
        chapter = dtn.found(measurements, asked, self.published, self.notes["dtn"])
        found = self.answer((*rows, *chapter.rows), [*claims, *chapter.claims], [*tables, *chapter.tables])
        # With bundles alone the readings are of the controller.
        return replace(
            found,
            notes=(*chapter.notes, *found.notes),
            charts=chapter.charts,
            interpretation_title="reading" if rows or claims else "controller",
            rows_title=found.rows_title if rows else "Numbers in the text of chapter 5, s",
        )

    def answer(self, rows: Sequence[Row], claims: Sequence[Claim], tables: Sequence[TextTable]) -> Findings:
        """All of it, with what belongs to every answer."""
        return Findings(
            tuple(rows),
            tuple(claims),
            tuple(table for table in tables if table.rows),
            TOLERANCE,
            tuple(self.reminders()),
            (("single-flow", "goodput-against"), ("friendliness", "friendliness")),
        )

    def reminders(self) -> list[str]:
        """What is checked of the published numbers themselves, and rows that are not run."""
        found = []
        rows = self.published["friendliness"]
        wrong = [row for row in rows if abs((jain_index(row["goodput"]) or 0) - row["jain"]) > JAIN_TOLERANCE]
        text = "".join(
            f"; {row['id']}: {jain_index(row['goodput']):.5f}, printed {row['jain']}" for row in wrong
        )
        found.append(
            f"Jain's index recomputed from the printed goodputs: {len(rows) - len(wrong)} of {len(rows)} rows "
            f"within {JAIN_TOLERANCE:g}{text}."
        )
        return found

    def rows(self, measurements: Measurements) -> tuple[Row, ...]:
        """The printed pairs, each in both readings."""
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
        """c1 to c6 as criteria, in the readings in which they can be measured."""
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
