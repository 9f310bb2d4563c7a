"""Tables 6.3, 6.4 and 6.5 and numbers in the text of chapter 6, by interpretation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from bentpipe.metrics.intervals import CONFIDENCE
from bentpipe.metrics.verdicts import Quantity, Tolerance
from bentpipe_studies.study import Row
from bentpipe_studies.tauran_2018.cells import BUFFERS
from bentpipe_studies.tauran_2018.chapter_6.cells import (
    CALLERS,
    INTERPRETATIONS,
    TERMINALS,
    WITHOUT,
    Interpretation,
)
from bentpipe_studies.tauran_2018.chapter_6.measures import Backlogged, Callers, Terminals

__all__ = [
    "TABLES",
    "Chapter6Runs",
    "PublishedNumbers",
    "carried",
    "goodputs",
    "limit_of_users",
    "rows",
    "saturated",
    "spread",
]

FEW = Tolerance("within 35 %", scale=1.35)
"""With 10 and 20 users the link is not full, and goodput is that of flows in chapter 4: another speed moves
it as far.
"""

FULL = Tolerance("within 10 %", scale=1.1)
"""From 40 users on the link is full. Its coded bits a packet are within 5 %; the thesis prints two digits."""

SHARES = Tolerance("within 5 points", points=5.0)
"""As in section 3.3.3: the design's targets, which no 600 s meet exactly."""

DROPS = Tolerance("within 0.4 points", points=0.4)
"""Neighbours in table 4.1 around 11 dB differ by 0.3 to 0.4 points."""

LOSSES = Tolerance("within 2 points", points=2.0)
"""The thesis prints whole percent; a load 1 % higher is 1 point."""

DELAYS = Tolerance("within 35 %", scale=1.35)
"""The thesis states "up to 500 ms" and "around 300 ms" of a figure."""

LIMIT = Tolerance("within 5 %", scale=1.05)
"""As the mean coded bits, from which it follows."""

USERS = Tolerance("within 25 users", points=25.0)
"""The thesis tests every 25."""

SHOWN = ("PF", "DT_S", "RR")
TABLES = {"table_6_4": ("6.4", (WITHOUT,)), "table_6_5": ("6.5", BUFFERS)}
MEASURES = {"mean": "mean", "least": "min", "most": "max", "sd": "sd"}
CAUSED = {"pf": "PF", "dt_s": "DT_S", "rr": "RR", "dt_h": "DT_H"}


@dataclass(frozen=True)
class Chapter6Runs:
    """Runs of chapter 6."""

    tcp: Terminals
    calls: Callers
    bound: Backlogged
    whys: Terminals
    full: bool
    """Whether runs last 600 s, as the thesis's; shorter runs spread goodputs further."""


@dataclass(frozen=True)
class PublishedNumbers:
    """Published numbers, and explanations of differences."""

    published: Mapping[str, Any]
    notes: Mapping[str, str]

    def row(
        self, key: str, label: str, source: str, interpretation: object, quantities: Sequence[Quantity]
    ) -> Row:
        """Return a row with its explanation."""
        return Row(key, label, source, str(interpretation), tuple(quantities), self.notes.get(key, ""))


def rows(numbers: PublishedNumbers, ran: Chapter6Runs) -> Iterator[Row]:
    """Yield all rows by interpretation; without runs they have no values."""
    for interpretation in INTERPRETATIONS:
        yield from goodputs(numbers, ran, interpretation)
        yield from _shares(numbers, ran, interpretation)
        yield from _calls(numbers, ran, interpretation)
        yield from _tcp(numbers, ran, interpretation)


def goodputs(
    numbers: PublishedNumbers,
    ran: Chapter6Runs,
    interpretation: Interpretation,
    measures: Sequence[str] = tuple(MEASURES),
) -> Iterator[Row]:
    """Yield tables 6.4 and 6.5, or some of their measures."""
    for table, (source, bufferings) in TABLES.items():
        printed = numbers.published["tcp_users"][table]
        for buffering in bufferings:
            for measure in measures:
                key = MEASURES[measure]
                if measure == "sd" and not ran.full:
                    continue
                for index, users in enumerate(TERMINALS):
                    quantities = [
                        Quantity(
                            name, float(printed[key][name.lower()][index]), values,
                            tolerance=_tolerance(measure, users, len(values)), lower_bound=0.0,
                        )
                        for name in SHOWN
                        for values in (ran.tcp.values(interpretation.tcp(name, users, reordering=buffering), measure),)
                    ]  # fmt: skip
                    named = interpretation if buffering == WITHOUT else f"{interpretation}, {buffering}"
                    title = f"{key} at {users} users, Mb/s"
                    yield numbers.row(f"{source} {measure}", title, f"table {source}", named, quantities)


def spread(users: int) -> Tolerance:
    """Return the 95 % tolerance between standard deviations of two samples of ``users`` normal numbers.

    (n - 1) s² / sigma² is chi-squared with n - 1 degrees and a variance of 2 (n - 1). The relative error of s is 1 /
    sqrt(2 (n - 1)), and that of the ratio of two samples 1 / sqrt(n - 1). The tolerance is a factor of exp(1.96 /
    sqrt(n - 1)), 1.92 for 10 and 1.22 for 100 (the F distribution has 2.01 and 1.22). Half of the last printed digit is
    added.
    """
    error = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) / math.sqrt(users - 1)
    factor = math.exp(error)
    return Tolerance(f"within a factor of {factor:.2f}: two samples of {users}", scale=factor, points=0.0005)


def _tolerance(measure: str, users: int, seeds: int) -> Tolerance | None:
    if measure == "sd":
        return spread(users) if seeds < 2 else None  # several say themselves how far one more run lies
    return FULL if users >= 40 and measure == "mean" else FEW


def _shares(numbers: PublishedNumbers, ran: Chapter6Runs, interpretation: Interpretation) -> Iterator[Row]:
    printed = numbers.published["voip"]["table_6_3"]
    for number in range(5):
        measure, tolerance = ("given_up", DROPS) if number == 4 else (f"decoded_{number}", SHARES)
        quantities = [
            Quantity(name, float(printed[key][number]), ran.calls.values(interpretation.call(name, 75), measure), 100.0,
                     tolerance, lower_bound=0.0)
            for key, name in CAUSED.items()
        ]  # fmt: skip
        label = "retry-limit drops, %" if number == 4 else f"decoded after {number} retransmissions, %"
        key = "6.3 given up" if number == 4 else "6.3"
        yield numbers.row(key, f"{label}, 75 calls", "table 6.3", interpretation, quantities)


def _calls(numbers: PublishedNumbers, ran: Chapter6Runs, interpretation: Interpretation) -> Iterator[Row]:
    voip, more = numbers.published["voip"], numbers.published["voip_more"]
    for key, name in (("dt_s", "DT_S"), ("pf", "PF")):
        values = ran.calls.values(interpretation.call(name, 75), "loss")
        quantity = Quantity(
            "", float(voip["loss_at_75_users_percent"][key]), values, 100.0, LOSSES, lower_bound=0.0
        )
        yield numbers.row(
            f"loss {name}", f"lost of 75 calls, {name}, %", "p. 101", interpretation, [quantity]
        )
    most = most_of(ran.calls, interpretation, "PF", "useful_mbps")
    spectral = voip["spectral"]
    quantity = Quantity("", float(spectral["pf_useful_mbps"]), most, tolerance=FULL)
    yield numbers.row(
        "useful", "maximum useful load of calls, PF, Mb/s", "figure 6.9", interpretation, [quantity]
    )
    quantity = Quantity(
        "", float(spectral["at_coded_mbps"]), _coded(ran.calls, interpretation, "PF"), tolerance=FULL
    )
    yield numbers.row(
        "coded", "coded load at the maximum useful load, PF, Mb/s", "figure 6.9", interpretation, [quantity]
    )
    quantity = Quantity(
        "", float(more["limit_users"]), carried(ran.calls, interpretation, "PF"), tolerance=USERS
    )
    yield numbers.row("carried", "calls with 3 % of loss, PF", "p. 100, 103", interpretation, [quantity])


def _tcp(numbers: PublishedNumbers, ran: Chapter6Runs, interpretation: Interpretation) -> Iterator[Row]:
    further, more = numbers.published["further"]["packet_time_ms"], numbers.published["channel_claims"]
    limit = float(more["dupack_users"]["limit"])
    quantity = Quantity("", limit, limit_of_users(ran.tcp, interpretation), tolerance=LIMIT)
    label = "number of users above which RR spaces packets by a third of 20 ms"
    yield numbers.row("19 users", label, "equation 6.9", interpretation, [quantity])
    total = saturated(ran.tcp, interpretation, "PF", WITHOUT)
    quantity = Quantity(
        "", float(numbers.published["tcp_users"]["total_goodput_mbps_pf"]), total, tolerance=FULL
    )
    yield numbers.row("total", "maximum total goodput, PF, Mb/s", "figure 6.20", interpretation, [quantity])
    totals = numbers.published["tcp_users_more"]["saturated_total_mbps"]
    quantities = [
        Quantity(
            name, sum(totals[key]) / len(totals[key]),
            _means_of(ran.tcp, interpretation, name, "total", totals["users"]), tolerance=FULL,
        )
        for name, key in (("PF", "pf_without_reordering"), ("RR", "rr"))
    ]  # fmt: skip
    label = "total goodput, mean over 40 to 100 users, Mb/s"
    yield numbers.row("saturated", label, "table 6.4", interpretation, quantities)
    for name, buffering, printed in (
        ("RR", WITHOUT, further["rr_dt_h_up_to"]),
        ("DT_H", WITHOUT, further["rr_dt_h_up_to"]),
        ("PF", BUFFERS[0], further["pf_reordering"]),
    ):
        source = "figure 6.21" if buffering == WITHOUT else "figure 6.29"
        for key, measure, title in TIMES:
            ways = [
                ran.tcp.values(interpretation.tcp(name, n, reordering=buffering), measure) for n in TERMINALS
            ]
            quantity = Quantity("", float(printed), _largest(ways), tolerance=DELAYS)
            label = f"maximum mean {title}, {name}, {buffering}, ms"
            yield numbers.row(key, label, source, interpretation, [quantity])


TIMES = (
    ("packet time", "way_ms", "packet delay from the RTT"),
    ("delivery time", "delivery_ms", "packet delay until in-order delivery"),
)
"""The thesis's time includes retransmissions (p. 107), which no RTT sample does (RFC 6298, section 3)."""


def _means_of(
    runs: Terminals, interpretation: Interpretation, policy: str, measure: str, users: Sequence[int]
) -> tuple[float, ...]:
    """Return the mean over numbers of users without a buffer, by seed, if all have run."""
    found = [runs.values(interpretation.tcp(policy, n), measure) for n in users]
    if not all(found) or len({len(values) for values in found}) != 1:
        return ()
    return tuple(math.fsum(values) / len(values) for values in zip(*found, strict=True))


def most_of(runs: Callers, interpretation: Interpretation, policy: str, measure: str) -> tuple[float, ...]:
    """Return the maximum over users, by seed; empty if no load that fills the link has run."""
    found = {n: values for n in CALLERS if (values := runs.values(interpretation.call(policy, n), measure))}
    return _largest(list(found.values())) if max(found, default=0) >= OVERLOAD else ()


def _coded(runs: Callers, interpretation: Interpretation, policy: str) -> tuple[float, ...]:
    """Return the coded load at the number of users with the largest useful load, by seed."""
    if not most_of(runs, interpretation, policy, "useful_mbps"):
        return ()
    cells = [interpretation.call(policy, n) for n in CALLERS]
    useful, coded = ([runs.values(cell, name) for cell in cells] for name in ("useful_mbps", "load_mbps"))
    both = [list(zip(*pair, strict=True)) for pair in zip(useful, coded, strict=True) if all(pair)]
    return tuple(max(seeds)[1] for seeds in zip(*both, strict=True))


OVERLOAD = 150
"""Number of calls that fill the link under every policy."""


def saturated(
    runs: Terminals, interpretation: Interpretation, policy: str, buffering: str
) -> tuple[float, ...]:
    """Return the maximum of the total goodput of all users, by seed."""
    return _largest(
        [runs.values(interpretation.tcp(policy, n, reordering=buffering), "total") for n in TERMINALS]
    )


def _largest(found: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Return the maximum by seed, if all have run."""
    if not all(found) or len({len(values) for values in found}) != 1:
        return ()
    return tuple(max(values) for values in zip(*found, strict=True))


def limit_of_users(runs: Terminals, interpretation: Interpretation) -> tuple[float, ...]:
    """Return equation 6.9 with the bits of a packet under round robin: 20 ms over three times its airtime."""
    return tuple(
        20e-3 * 50e6 / (3 * bits) for bits in runs.values(interpretation.tcp("RR", 20), "bits") if bits
    )


def carried(
    runs: Callers, interpretation: Interpretation, policy: str, most: float = 3.0
) -> tuple[float, ...]:
    """Return the number of users at which the loss passes 3 %, interpolated, by seed; empty if it never does."""
    found = [(n, values) for n in CALLERS if (values := runs.values(interpretation.call(policy, n), "loss"))]
    if not found or len({len(values) for _, values in found}) > 1:
        return ()
    answers = []
    for seed in range(len(found[0][1])):
        points = [(n, values[seed]) for n, values in found]
        at = next((i for i, (_, loss) in enumerate(points) if loss > most), None)
        if at is None:
            return ()
        if at == 0:
            answers.append(float(points[0][0]))
            continue
        (n, low), (m, high) = points[at - 1], points[at]
        answers.append(n + (m - n) * (most - low) / (high - low))
    return tuple(answer for answer in answers if math.isfinite(answer))
