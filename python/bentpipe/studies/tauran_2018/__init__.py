"""TCP over a constellation and Adaptive-HARQ on a land mobile satellite channel (Tauran 2018, chapters 4 and 5).

Numbers and statements of the thesis are in ``studies/tauran-2018/published.toml``, sentences on differences in
``notes.toml`` beside it. The channel traces of the thesis are not public, so the model was fitted to its figures at 7,
10 and 13 dB: what had a part in that is calibrated, and agrees with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bentpipe.studies.parts import Measured, Part, Wanted
from bentpipe.studies.study import Findings, Published, matching
from bentpipe.studies.tauran_2018.cells import ACKS, SNR, VARIANT
from bentpipe.studies.tauran_2018.rows import rows
from bentpipe.studies.tauran_2018.runs import Runs

__all__ = ["STUDY", "Tauran2018"]

PARTS = ("probe", "tables")

TOLERANCE = (
    "What is claimed of a number, and why: the share decoded within 1 point and the mean coded bits within 5 % "
    "(another sample of the channel, its speed and the code's margin move them by as much), goodput within 35 % from "
    "10 dB on and within a factor of 2 below (the speed moves it by as much). The mean over seeds must lie there with "
    "its whole 95 % interval. Everything else agrees when it lies where one more run would. What had a part in the "
    "fit (shares, bits and goodput at 7, 10 and 13 dB) is calibrated: it would agree, but proves nothing."
)


@dataclass(frozen=True)
class Tauran2018(Published):
    """The study."""

    name: str = "tauran-2018"
    title: str = "Tauran 2018: TCP over Adaptive-HARQ on a land mobile satellite channel, chapters 4 and 5"

    def parts(self) -> Sequence[Part]:
        """One store each."""
        return [Part(name, self.place / f"{name}.toml") for name in PARTS]

    def words(self) -> Mapping[str, Mapping[str, Wanted]]:
        """Parts and tables."""
        plain = {ACKS: ["off"], VARIANT: ["NewReno", "CUBIC"]}
        return {
            "probe": {"probe": matching()},
            "tables": {"tables": matching()},
            "4.1": {"tables": matching({**plain, "reordering": ["without"]})},
            "4.2": {"tables": matching({**plain, "reordering": ["with"]})},
            "5.1": {"tables": matching({ACKS: ["40 ms"], "reordering": ["without"]})},
            "short": {
                "probe": matching({SNR: ["7 dB", "13 dB"]}),
                "tables": matching({**plain, SNR: ["7 dB", "13 dB"]}),
            },
        }

    def findings(self, measured: Measured, only: Sequence[str]) -> Findings:  # noqa: ARG002
        """Printed numbers beside what has run."""
        runs = Runs(measured, "tables")
        found = rows(self.published, self.notes["rows"], runs, Runs(measured, "probe"))
        measured_rows = tuple(row for row in found if any(one.values for one in row.quantities))
        return Findings(
            measured_rows,
            (),
            (),
            TOLERANCE,
            rows_title="Tables 4.1, 4.2 and 5.1 and numbers in the text: printed and measured",
            reading_title="reordering",
        )


STUDY = Tauran2018()
"""The study, as the command line finds it."""
