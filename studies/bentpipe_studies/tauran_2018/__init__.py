"""TCP over a constellation and Adaptive-HARQ on a satellite channel (Tauran 2018, chapters 3 to 6).

The channel is that of land mobile satellite (LMS) services.

Values and statements of the thesis are in ``studies/tauran-2018/published.toml``, explanations of differences
in
``notes.toml`` beside it. The channel traces of the thesis are not public, so the model was fitted to its
figures at 7,
10 and 13 dB. Numbers that had a part in the fit are calibrated: they are no evidence.

- ``cells``: keys and cells of the sweeps
- ``runs``: one row of measures for each run
- ``rows``: tables 4.1, 4.2 and 5.1 and numbers in the text
- ``comparison``: ratios of cells within a seed
- ``claims``: statements of chapters 4 and 5 as criteria
- ``extensions``: statements on other variants, rates, users, constellation and equation 3.3
- ``evidence``: one changed setting at a time
- ``orbits``: delays over the constellation
- ``figures``: figures of chapters 3 to 5
- ``packet_sequences``: packet sequence diagrams of chapter 3
- ``chapter_6``: schedulers (chapter 6)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bentpipe.metrics.verdicts import Claim, Verdict
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Findings, PublishedStudy, match_cells
from bentpipe_studies.tauran_2018 import chapter_6 as users
from bentpipe_studies.tauran_2018.cells import ACKS, BUFFERS, SNR, VARIANT
from bentpipe_studies.tauran_2018.claims import BUFFERED, CRITERIA, main_result
from bentpipe_studies.tauran_2018.comparison import StudyRuns
from bentpipe_studies.tauran_2018.evidence import evidence
from bentpipe_studies.tauran_2018.figures import figures
from bentpipe_studies.tauran_2018.orbits import Orbits
from bentpipe_studies.tauran_2018.rows import rows
from bentpipe_studies.tauran_2018.runs import Runs

__all__ = ["STUDY", "Tauran2018"]

PARTS = (
    "ladders", "probe", "tables", "timers", "dsack", "lossless", "users", "others", "equation", "moving",
    "why", "why-cubic",
)  # fmt: skip

TOLERANCE = (
    "Tolerances: the decoded share within 1 point, and the mean coded bits within 5 %. Another "
    "sample of the channel, its speed and the margin of the code change them by as much. Goodput: "
    "within 35 % from 10 dB on and within a factor of 2 below, because the speed changes it by as "
    "much. The whole 95 % interval of the mean over seeds must lie in this range. Shares of "
    "events (RTO, DUPACK, spurious) are shares of sent packets. They and all other values agree "
    "if they lie in the prediction interval. A standard deviation over n users has a relative "
    "error of 1 / sqrt(2 (n - 1)), in the thesis too. With one seed it therefore agrees within a "
    "factor of exp(1.96 / sqrt(n - 1)), 1.92 at 10 users and 1.22 at 100. Values used for the fit "
    "(shares, bits and goodput at 7, 10 and 13 dB) are calibrated: they agree, but are no "
    "evidence."
)


SLIPS = (
    "This study ignores inconsistencies of the thesis. The decoded shares of NewReno in table 4.2 "
    "equal those of CUBIC in table 4.1, digit for digit. RTO events rise with "
    "reordering on p. 67, but those of NewReno at 7 dB fall from 0.74 to 0.62 %. Delay removes "
    "all gain of reordering at low SNR on p. 69, but the tables have +93 and +70 % at 7 dB. "
    "Equation 3.3 confirms 40 Mb/s without loss, although it is undefined there."
)


@dataclass(frozen=True)
class Tauran2018(PublishedStudy):
    """Study of Tauran 2018."""

    name: str = "tauran-2018"
    title: str = "Tauran 2018: TCP over Adaptive-HARQ on a land mobile satellite channel, chapters 3 to 6"
    full: bool = False
    """Whether chapter 6 has runs of 600 s."""

    def parts(self) -> Sequence[Part]:
        """Return the parts: scenarios, each with a store."""
        parts_ = [Part(name, self.directory / f"{name}.toml") for name in PARTS]
        return [*parts_, *users.parts(self.directory, full=self.full)]

    def selections(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Return the selections: parts and tables."""
        plain = {ACKS: ["true"], VARIANT: ["NewReno", "CUBIC"]}
        return {
            "probe": {"probe": match_cells()},
            "tables": {"tables": match_cells()},
            "4.1": {"tables": match_cells({**plain, "reordering": ["without"]})},
            "4.2": {"tables": match_cells({**plain, "reordering": list(BUFFERS)})},
            "5.1": {"tables": match_cells({ACKS: ["false"], "reordering": ["without"]})},
            "ladders": {"ladders": match_cells()},
            "timers": {"timers": match_cells()},
            "d-sack": {"dsack": match_cells(), "tables": match_cells(plain)},
            "lossless": {"lossless": match_cells()},
            "users": {"users": match_cells(), "tables": match_cells({SNR: ["7 dB", "10 dB", "13 dB"]})},
            "others": {"others": match_cells(), "tables": match_cells({ACKS: ["true"], VARIANT: ["Hybla"]})},
            "equation": {"equation": match_cells()},
            "orbits": {},
            "why": {"why": match_cells(), "why-cubic": match_cells(), "moving": match_cells()},
            "short": {
                "probe": match_cells({SNR: ["7 dB", "13 dB"]}),
                "tables": match_cells({**plain, SNR: ["7 dB", "13 dB"]}),
            },
            **users.words(full=self.full),
        }

    def to_full_length(self) -> Tauran2018:
        """Return the study with runs of 600 s in chapter 6."""
        return replace(self, full=True)

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Return printed numbers, statements and figures of what has run."""
        orbits = Orbits(not only or "orbits" in only)
        material = StudyRuns(
            tables=Runs(measurements, "tables"), timers=Runs(measurements, "timers"), dsack=Runs(measurements, "dsack"),
            lossless=Runs(measurements, "lossless"), users=Runs(measurements, "users"),
            others=Runs(measurements, "others"),
            equation=Runs(measurements, "equation"), orbits=orbits,
        )  # fmt: skip
        probes = Runs(measurements, "probe")
        found = rows(self.published, self.notes["rows"], material.tables, probes, material.lossless)
        claims = tuple(claim for claim in self.claims(material) if claim.verdict is not Verdict.NOT_RUN)
        last = users.chapter_6(measurements, self.published, self.notes, self.directory, full=self.full)
        return Findings(
            (*(row for row in found if any(one.values for one in row.quantities)), *last.rows),
            (*claims, *last.claims),
            (*evidence(measurements), *last.tables),
            TOLERANCE,
            (SLIPS, *last.notes),
            charts=(*figures(measurements, material, self.published), *last.charts),
            rows_title="Tables 4.1, 4.2, 5.1, 6.3, 6.4, 6.5 and numbers in the text: published and measured",
            interpretation_title="interpretation",
            main_result=main_result(material),
        )

    def claims(self, material: StudyRuns) -> list[Claim]:
        """Return statements of the text as criteria."""
        found = []
        for name, (text_, criterion, check) in CRITERIA.items():
            table, _, key = name.partition(".")
            text = text_ or self.published[table][key]
            explanation = self.notes["claims"].get(name, "")
            for buffer in BUFFERS if name in BUFFERED else BUFFERS[:1]:
                checks = check(replace(material, buffer=buffer))
                interpretation = buffer if name in BUFFERED else ""
                found.append(Claim(name, text, criterion, interpretation, checks, explanation))
        return found


STUDY = Tauran2018()
"""The study, as the command line finds it."""
