"""Google QUIC and split TCP over a public SATCOM access (Thomas et al. 2019).

The authors are Thomas, Dubois, Kuhn and Lochin; the report is that of Thomas 2018.

Published values are in ``studies/thomas-2019/published.toml``, explanations of differences in ``notes.toml``
beside it.
Nothing is tuned to a published value.

- ``cells``: keys and cells of the sweeps
- ``claims``: results r1 to r10 as criteria that can fail
- ``orderings``: orders between two samples of times
- ``phases``: start-up and steady state of a flow
- ``extensions``: tables beside the published results
- ``figures``: figures of the study
- ``emulation``: the comparison with a browser in real time
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import Claim
from bentpipe_studies.page_loads import REACHED, slow_start_s
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Findings, PublishedStudy, match_cells
from bentpipe_studies.thomas_2019 import extensions
from bentpipe_studies.thomas_2019.cells import (
    HTTP,
    PAGE,
    QUIC_WINDOW,
    SATCOM_RATE,
    SATCOM_RTT,
    SEGMENT,
    WITH,
    WITHOUT,
)
from bentpipe_studies.thomas_2019.claims import CRITERIA, TCP_INTERPRETATIONS, main_result
from bentpipe_studies.thomas_2019.figures import figures

__all__ = ["STUDY", "Thomas2019"]

PARTS = (
    "satcom", "4g", "tcp", "proxies", "end-to-end", "congested", "startup", "startup-split", "dependent",
    "dependent-unsplit", "head-of-line",
)  # fmt: skip

BOXES = ("page-load-time", "time-to-response", "page-load-distribution")
"""Figures of the stores: figures 2, 6, 7 and 8 of the paper, and 5.3, 5.7 and 5.11 of the report."""

TOLERANCE = (
    "Each result is a list of checks. Medians have the 95 % interval of order statistics (Le "
    "Boudec, theorem 2.1). A check holds or fails if the whole interval does; otherwise it is "
    "undecided. Order P1 of the report: the interval of one median lies below that of the other. "
    f"The rate is reached at the first instant at which the next RTT delivers {REACHED:.0%} of it."
)


@dataclass(frozen=True)
class Thomas2019(PublishedStudy):
    """Study of Thomas et al. 2019."""

    name: str = "thomas-2019"
    title: str = "Thomas et al. 2019: Google QUIC over a public SATCOM access"

    def parts(self) -> Sequence[Part]:
        """Return the parts: scenarios, each with a store."""
        return [Part(name, self.directory / f"{name}.toml") for name in PARTS]

    def selections(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Return the selections: parts, all results, and single results."""
        picture, small = {PAGE: ["target-a"]}, {PAGE: ["target-b"]}
        quic = {**picture, HTTP: [WITH]}
        results: dict[str, dict[str, CellFilter]] = {
            "r1": {"satcom": match_cells(picture)},
            "r2": {"satcom": match_cells(picture)},
            "r3": {"satcom": match_cells(quic)},
            "r4": {"satcom": match_cells(picture)},
            "r5": {"4g": match_cells()},
            "r5b": {"4g": match_cells()},
            "r6": {"satcom": match_cells(small)},
            "r7": {"satcom": match_cells({**picture, HTTP: [WITHOUT]})},
            "r8": {"satcom": match_cells(picture)},
            "r9": {"4g": match_cells({HTTP: [WITHOUT]})},
            "r10": {
                "satcom": match_cells({**picture, HTTP: [WITHOUT]}),
                "end-to-end": match_cells({QUIC_WINDOW: ["60 packets"]}),
            },
        }
        whole = match_cells()
        return {
            "results": {"satcom": whole, "4g": whole, "end-to-end": results["r10"]["end-to-end"]},
            "satcom": {"satcom": whole},
            "4g": {"4g": whole},
            "proxies": {"proxies": whole, "end-to-end": whole},
            "controllers": {"end-to-end": whole, "tcp": whole},
            "start-up": {"end-to-end": whole, "startup": whole, "startup-split": whole},
            "congested": {"congested": whole},
            "pages": {"dependent": whole, "dependent-unsplit": whole},
            "head-of-line": {"head-of-line": whole},
            **results,
        }

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Return results, tables and figures of what has run."""
        selection = set(only)
        all_claims = not selection or "results" in selection
        claims = tuple(claim for claim in self.claims(measurements) if all_claims or claim.id in selection)
        tables: list[TextTable] = [
            extensions.satcom_table(measurements),
            extensions.four_g_table(measurements),
            extensions.model_table(measurements),
            extensions.start_up_table(measurements),
            extensions.controllers_table(measurements),
            extensions.tcp_table(measurements),
            extensions.rtt_table(measurements),
            extensions.congested_table(measurements),
            extensions.dependent_table(measurements),
            extensions.head_of_line_table(measurements),
        ]
        return Findings(
            (),
            claims,
            tuple(table for table in tables if table.rows),
            TOLERANCE,
            tuple(self.reminders(measurements)),
            tuple((part, key) for part in ("satcom", "4g") for key in BOXES),
            charts=figures(measurements),
            interpretation_title="controller",
            main_result=main_result(measurements),
        )

    def claims(self, measurements: Measurements) -> list[Claim]:
        """Return r1 to r10, once for each controller that TCP may have had."""
        found = []
        for name, text in self.published["results"].items():
            criterion, check = CRITERIA[name]
            for interpretation in TCP_INTERPRETATIONS.get(name, ("",)):
                explanation = self.notes["results"].get(name, "")
                found.append(
                    Claim(
                        name,
                        text,
                        criterion,
                        interpretation,
                        check(measurements, interpretation),
                        explanation,
                    )
                )
        return found

    def reminders(self, measurements: Measurements) -> list[str]:
        """Return notes on the published values themselves, and on what a figure rests on."""
        one, two = (slow_start_s(SATCOM_RATE, SATCOM_RTT, 32 * SEGMENT, way) for way in (True, False))
        equation = (
            f"Equation 2.1 (25 Mb/s, 750 ms, initial window 32 x 1460 B) gives {one:.2f} s with the "
            f"one-way BDP, as written. With the two-way BDP it gives {two:.2f} s. The report prints "
            "4.5 s, the paper 3.5 s."
        )
        found = [
            equation,
            (
                "The variation between sessions is a model of this study: waits for frames of 26.5 "
                "and 10 ms, and pauses."
            ),
        ]
        lost = extensions.lost_packets(measurements)
        if lost:
            found.append(f"Lost packets of the runs with one loss: {', '.join(map(str, lost))}.")
        return found


STUDY = Thomas2019()
"""The study, as the command line finds it."""
