"""Chapter 6's sweeps: operating points, sizes of queues, policies, users; and the cells that each part needs."""

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
"""Users of tables 6.4 and 6.5."""

CALLERS = (25, 50, 75, 100, 125, 150, 175, 200)
"""Users of section 6.3."""

BOUND_USERS = (1, 2, 5, 10, 20, 50, 100, 200)
POLICIES = ("DT_H", "DT_S", "RR", "PF", "CoDeS")
TIMEOUTS_MS = (100, 50, 25)
"""Limits of CoDeS that are tried."""

LATE = "PF, channel 10 ms late"
WITHOUT = "without"
MAIN = "11 dB"
"""The point whose failures table 6.3 has (1.10 to 1.21 %; table 4.1 at 11 dB: 1.14 to 1.16 %)."""

POINTS = (MAIN, "11 dB and the packet", "13 dB", "13 dB and the packet", "13 dB, delayed ACKs", "7 dB")
SIZES = ("", "RTT C")
"""B is RTT x C / sqrt(n), as equation 6.5 has it, or RTT x C; each of n queues has B / n."""


@dataclass(frozen=True)
class Interpretation:
    """What chapter 6 leaves open: the operating point, and the size of the queues."""

    point: str = MAIN
    size: str = ""

    def __str__(self) -> str:
        point = self.point.replace(" and the ", " + ")
        return f"{point}, {self.size}" if self.size else point

    def policy(self, name: str) -> str:
        """A policy with queues of this size; a limit of time has none."""
        return f"{name}, {self.size}" if self.size and not name.startswith("CoDeS") else name

    def tcp(
        self, policy: str, users: int, variant: str = "CUBIC", reordering: str = WITHOUT
    ) -> dict[str, str]:
        """A cell of section 6.4."""
        return {**self.call(policy, users), VARIANT: variant, "reordering": reordering}

    def call(self, policy: str, users: int) -> dict[str, str]:
        """A cell of section 6.3."""
        return {"point": self.point, "policy": self.policy(policy), COUNT: str(users)}

    @property
    def snr(self) -> str:
        """Its reference SNR."""
        return " ".join(self.point.replace(",", "").split()[:2])


INTERPRETATIONS = tuple(Interpretation(point, size) for point in POINTS for size in SIZES)
NEAREST = Interpretation("11 dB and the packet", "RTT C")
"""The one whose numbers are nearest to the published ones, which ``readings`` counts: a second point, with all that the
statements are about."""


def _sized(names: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(Interpretation(size=size).policy(name) for size in SIZES for name in names))


def tcp() -> CellFilter:
    """Section 6.4 at the main point."""
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
    """Section 6.3 at the main point."""
    timed = [f"CoDeS, {limit} ms" for limit in TIMEOUTS_MS[1:]]
    return match_cells({"point": [MAIN], "policy": [*_sized(POLICIES), *timed]})


def nearest_tcp() -> CellFilter:
    """Section 6.4 at the nearest reading."""
    there = {"point": [NEAREST.point], "policy": [NEAREST.policy(name) for name in POLICIES]}
    return match_any(
        [
            match_cells({**there, VARIANT: ["CUBIC"]}),
            match_cells({**there, VARIANT: ["NewReno"], "reordering": [WITHOUT, BUFFERS[0]]}),
        ]
    )


def nearest_calls() -> CellFilter:
    """Section 6.3 at the nearest reading."""
    timed = [f"CoDeS, {limit} ms" for limit in TIMEOUTS_MS[1:]]
    return match_cells(
        {"point": [NEAREST.point], "policy": [*(NEAREST.policy(name) for name in POLICIES), *timed]}
    )


def bound() -> CellFilter:
    """Figure 6.3 at the main point."""
    return match_cells({SNR: [MAIN]})


def interpretations_of_tcp() -> CellFilter:
    """Tables 6.4 and 6.5 at every point."""
    return match_cells({"policy": _sized(("PF", "DT_S", "RR")), VARIANT: ["CUBIC"]})


def interpretations_of_calls() -> CellFilter:
    """Table 6.3 and what is printed beside it at every point."""
    return match_cells({"policy": _sized(("PF", "DT_S", "DT_H", "RR")), COUNT: ["75", "100", "150"]})


def why() -> CellFilter:
    """Evidence: RR, PF and CoDeS by setting; other forms of these where all else is as in the tables."""
    return match_any(
        [match_cells({"policy": ["RR", "PF", "CoDeS"]}), match_cells({"setting": ["as in the tables"]})]
    )


def short_tcp() -> CellFilter:
    """Ten users, for a test."""
    return match_cells({"point": [MAIN], "policy": _sized(POLICIES), COUNT: ["10"], VARIANT: ["CUBIC"]})


def short_calls() -> CellFilter:
    """75 calls, for a test."""
    return match_cells({"point": [MAIN], "policy": list(POLICIES), COUNT: ["75"]})
