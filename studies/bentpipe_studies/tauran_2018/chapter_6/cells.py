"""Swept keys of chapter 6 (operating point, queue size, policy, users), and the cells that each part needs."""

from __future__ import annotations

from dataclasses import dataclass

from bentpipe_studies.parts import CellFilter
from bentpipe_studies.study import match_any, match_cells
from bentpipe_studies.tauran_2018.cells import BUFFERS, SNR, VARIANT

__all__ = [
    "BOUND_USERS",
    "CALLERS",
    "COUNT",
    "INTERPRETATIONS",
    "MAIN",
    "NEAREST",
    "POINTS",
    "POLICIES",
    "SIZES",
    "TERMINALS",
    "TIMEOUTS_MS",
    "WITHOUT",
    "Interpretation",
    "bound",
    "calls",
    "interpretations_of_calls",
    "interpretations_of_tcp",
    "nearest_calls",
    "nearest_tcp",
    "short_calls",
    "short_tcp",
    "tcp",
    "why",
]  # fmt: skip

COUNT = "flow.terminal.count"
TERMINALS = (10, 20, 40, 60, 80, 100)
"""Numbers of users of tables 6.4 and 6.5."""

CALLERS = (25, 50, 75, 100, 125, 150, 175, 200)
"""Numbers of users of section 6.3."""

BOUND_USERS = (1, 2, 5, 10, 20, 50, 100, 200)
POLICIES = ("DT_H", "DT_S", "RR", "PF", "CoDeS")
TIMEOUTS_MS = (100, 50, 25)
"""Tested limits of CoDeS, ms."""

LATE = "PF, channel 10 ms late"
WITHOUT = "without"
MAIN = "11 dB"
"""Point with the retry-limit drops of table 6.3 (1.10 to 1.21 %; table 4.1 at 11 dB: 1.14 to 1.16 %)."""

POINTS = (MAIN, "11 dB and the packet", "13 dB", "13 dB and the packet", "13 dB, delayed ACKs", "7 dB")
SIZES = ("", "RTT C")
"""B is RTT x C / sqrt(n), as in equation 6.5, or RTT x C; each of n queues has B / n."""


@dataclass(frozen=True)
class Interpretation:
    """Settings that chapter 6 leaves open: the operating point and the queue size."""

    point: str = MAIN
    size: str = ""

    def __str__(self) -> str:
        point = self.point.replace(" and the ", " + ")
        return f"{point}, {self.size}" if self.size else point

    def policy(self, name: str) -> str:
        """Return a policy with queues of this size; a time limit has no size."""
        return f"{name}, {self.size}" if self.size and not name.startswith("CoDeS") else name

    def tcp(
        self, policy: str, users: int, variant: str = "CUBIC", reordering: str = WITHOUT
    ) -> dict[str, str]:
        """Return a cell of section 6.4."""
        return {**self.call(policy, users), VARIANT: variant, "reordering": reordering}

    def call(self, policy: str, users: int) -> dict[str, str]:
        """Return a cell of section 6.3."""
        return {"point": self.point, "policy": self.policy(policy), COUNT: str(users)}

    @property
    def snr(self) -> str:
        """Reference SNR."""
        return " ".join(self.point.replace(",", "").split()[:2])


INTERPRETATIONS = tuple(Interpretation(point, size) for point in POINTS for size in SIZES)
NEAREST = Interpretation("11 dB and the packet", "RTT C")
"""Interpretation nearest to the published numbers, as ``interpretations`` counts; a second point with all
statements.
"""


def _sized(names: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(Interpretation(size=size).policy(name) for size in SIZES for name in names))


def tcp() -> CellFilter:
    """Return the filter of section 6.4 at the main point."""
    point = {"point": [MAIN], "policy": _sized(POLICIES)}
    return match_any(
        [
            match_cells({**point, VARIANT: ["CUBIC"]}),
            match_cells({**point, VARIANT: ["NewReno"], "reordering": [WITHOUT, BUFFERS[0]]}),
            match_cells(
                {"point": [MAIN], "policy": [LATE], VARIANT: ["CUBIC"], "reordering": [WITHOUT, BUFFERS[0]]}
            ),
        ]
    )


def calls() -> CellFilter:
    """Return the filter of section 6.3 at the main point."""
    timed = [f"CoDeS, {limit} ms" for limit in TIMEOUTS_MS[1:]]
    return match_cells({"point": [MAIN], "policy": [*_sized(POLICIES), *timed]})


def nearest_tcp() -> CellFilter:
    """Return the filter of section 6.4 for the nearest interpretation."""
    there = {"point": [NEAREST.point], "policy": [NEAREST.policy(name) for name in POLICIES]}
    return match_any(
        [
            match_cells({**there, VARIANT: ["CUBIC"]}),
            match_cells({**there, VARIANT: ["NewReno"], "reordering": [WITHOUT, BUFFERS[0]]}),
        ]
    )


def nearest_calls() -> CellFilter:
    """Return the filter of section 6.3 for the nearest interpretation."""
    timed = [f"CoDeS, {limit} ms" for limit in TIMEOUTS_MS[1:]]
    return match_cells(
        {"point": [NEAREST.point], "policy": [*(NEAREST.policy(name) for name in POLICIES), *timed]}
    )


def bound() -> CellFilter:
    """Return the filter of figure 6.3 at the main point."""
    return match_cells({SNR: [MAIN]})


def interpretations_of_tcp() -> CellFilter:
    """Return the filter of tables 6.4 and 6.5 at every point."""
    return match_cells({"policy": _sized(("PF", "DT_S", "RR")), VARIANT: ["CUBIC"]})


def interpretations_of_calls() -> CellFilter:
    """Return the filter of table 6.3 and the numbers beside it at every point."""
    return match_cells({"policy": _sized(("PF", "DT_S", "DT_H", "RR")), COUNT: ["75", "100", "150"]})


def why() -> CellFilter:
    """Return the filter of evidence: RR, PF and CoDeS by setting; their other forms in the setting of the tables."""
    return match_any(
        [match_cells({"policy": ["RR", "PF", "CoDeS"]}), match_cells({"setting": ["as in the tables"]})]
    )


def short_tcp() -> CellFilter:
    """Return a filter of ten users, for a test."""
    return match_cells({"point": [MAIN], "policy": _sized(POLICIES), COUNT: ["10"], VARIANT: ["CUBIC"]})


def short_calls() -> CellFilter:
    """Return a filter of 75 calls, for a test."""
    return match_cells({"point": [MAIN], "policy": list(POLICIES), COUNT: ["75"]})
