"""Results r1 to r10 as criteria that can fail: checks, and thresholds with their reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise

from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.samples import median_ratio
from bentpipe.metrics.verdicts import Check, Fact, Verdict
from bentpipe_studies.page_loads import times
from bentpipe_studies.parts import Measurements
from bentpipe_studies.study import MainResult
from bentpipe_studies.thomas_2019 import orderings
from bentpipe_studies.thomas_2019.cells import (
    CONTROLLERS,
    G4_RTT,
    SATCOM_RTT,
    TCP_4G,
    WITH,
    WITHOUT,
    end_to_end,
    g4,
    satcom,
)
from bentpipe_studies.thomas_2019.extensions import model_ratios
from bentpipe_studies.thomas_2019.phases import growth, parts_of_load

__all__ = ["CRITERIA", "TCP_INTERPRETATIONS", "main_result"]

Checks = tuple[Check | Fact, ...]

TWICE = (1.5, 2.5)
"""Ratios that are nearer to 2 than to 1 or 3."""

START_UP = 2 / 3
"""Ratio of a download that counts as "more than two thirds" of it."""

MUCH_LESS = 0.25
"""Ratio of a round trip below which a gap is "much less" than one."""

ABOUT_90_MS = (70.0, 110.0)
"""A gap of "around 90 ms": within a quarter of the round trip of 80 ms."""

SLIGHTLY = (1.0, 1.5)
"""Ratio of two times of which one is slightly better: nearer to 1 than to the 2 of target A."""

ALMOST = 0.9
"""Ratio of quantiles with one distribution ahead that counts as almost dominant."""

TWO_VALUED = 0.1
"""Minimum gap between the two values of a TTR, in round trips; 30 to 70 % of the loads are on each side."""

CLIMBS = 1.1
"""Ratio of the rate between 3 and 4 s to that between 1 and 2 s that counts as climbing."""


def _satcom(
    measurements: Measurements, page: str, load: int, column: str = "plt_s"
) -> tuple[tuple[float, ...], ...]:
    """Return the times of both browsers: QUIC's and TCP's."""
    return tuple(times(measurements, "satcom", satcom(page, http), load, column) for http in (WITH, WITHOUT))


def r1(measurements: Measurements, _reading: str) -> Checks:
    """Check that QUIC takes twice as long, with disjoint intervals, at loads 2 and 3."""
    checks: list[Check | Fact] = []
    for load in (2, 3):
        quic, tcp = _satcom(measurements, "target-a", load)
        checks.append(orderings.ratio(f"load {load}, median PLT ratio, QUIC to TCP", quic, tcp, *TWICE))
        checks.append(orderings.ordered(f"load {load}, median PLT, TCP and QUIC, s", tcp, quic))
    return tuple(checks)


def main_result(measurements: Measurements) -> MainResult | None:
    """Return the ratio of page load times, QUIC to split TCP, and its dependence on the proxy."""
    found = [_satcom(measurements, "target-a", load) for load in (2, 3)]
    quic, tcp = (tuple(chain.from_iterable(times)) for times in zip(*found, strict=True))
    if not quic or len(quic) != len(tcp):
        return None
    ratio = format_significant(median_ratio(quic, tcp).estimate, 3)
    sentence = (
        f"Page loads over QUIC take {ratio} times as long as over split TCP; Thomas et al. found about twice."
    )
    ratios = {(row["model"], row["quic"]): row["ratio"] for row in model_ratios(measurements)}
    other = ratios.get(("pooled, IW 10", "BBRv1, IW 32"))
    assumption = "The proxy decides the ratio: as the paper supposes, it starts at line rate."
    if other is not None:
        text = format_significant(other, 3)
        assumption += f" Through a proxy with an initial window of 10 segments, the ratio is {text}."
    return MainResult(sentence, assumption)


def r2(measurements: Measurements, _reading: str) -> Checks:
    """Check that load 1 is the same."""
    one, two = _satcom(measurements, "target-a", 1)
    return (
        orderings.overlapping("load 1, median PLT of the two browsers, s", one, two),
        orderings.same("load 1, Welch's test", one, two),
    )


def r3(measurements: Measurements, _reading: str) -> Checks:
    """Check that two thirds of QUIC's download are start-up."""
    parts = [parts_of_load(measurements, "satcom", satcom("target-a", WITH), load) for load in (2, 3)]
    return tuple(
        Check(
            f"load {load}, start-up of the download (responseStart to loadEventEnd)",
            tuple(part.start_up_s / part.download_s for part in found),
            START_UP,
        )
        for load, found in zip((2, 3), parts, strict=True)
    )


def r4(measurements: Measurements, _reading: str) -> Checks:
    """Check that QUIC's TTR is a little shorter."""
    most = MUCH_LESS * SATCOM_RTT * 1e3
    return tuple(
        orderings.gap(f"load {load}, TTR of TCP minus TTR of QUIC", tcp, quic, 0.0, most)
        for load in (2, 3)
        for quic, tcp in [_satcom(measurements, "target-a", load, "ttr_s")]
    )


def _g4(
    measurements: Measurements, tcp: str, load: int, column: str = "plt_s"
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return (
        times(measurements, "4g", g4(WITH, tcp), load, column),
        times(measurements, "4g", g4(WITHOUT, tcp), load, column),
    )


def r5(measurements: Measurements, interpretation: str) -> Checks:
    """Check that QUIC is slightly better over 4G, without order."""
    checks: list[Check | Fact] = []
    for load in (2, 3):
        quic, tcp = _g4(measurements, interpretation, load)
        checks += [
            orderings.ratio(f"load {load}, median PLT ratio, TCP to QUIC", tcp, quic, *SLIGHTLY),
            orderings.overlapping(f"load {load}, median PLT, QUIC and TCP, s", quic, tcp),
            orderings.undominated(f"load {load}, dominance, QUIC and TCP", quic, tcp),
        ]
    return tuple(checks)


def r5b(measurements: Measurements, interpretation: str) -> Checks:
    """Check the gap of 90 ms between TTRs."""
    return tuple(
        orderings.gap(f"load {load}, TTR of TCP minus TTR of QUIC", tcp, quic, *ABOUT_90_MS)
        for load in (2, 3)
        for quic, tcp in [_g4(measurements, interpretation, load, "ttr_s")]
    )


def r6(measurements: Measurements, _reading: str) -> Checks:
    """Check that target B is slightly better with QUIC, and almost dominated at load 2."""
    checks: list[Check | Fact] = [
        orderings.ratio(f"load {load}, median PLT ratio, TCP to QUIC", tcp, quic, *SLIGHTLY)
        for load in (2, 3)
        for quic, tcp in [_satcom(measurements, "target-b", load)]
    ]
    quic, tcp = _satcom(measurements, "target-b", 2)
    ahead = tuple(float(a <= b) for a, b in zip(sorted(quic), sorted(tcp), strict=False))
    share = sum(ahead) / len(ahead) if ahead else 0.0
    verdict = Verdict.AGREES if share >= ALMOST else Verdict.DIFFERS
    checks.append(
        Fact(
            "load 2, share of PLT quantiles with QUIC ahead",
            f"{share:.0%}" if ahead else orderings.NO_SAMPLE,
            f"≥ {ALMOST:.0%}",
            verdict if ahead else Verdict.NOT_RUN,
            share if ahead else None,
        )
    )
    return tuple(checks)


def two_valued(values: Sequence[float]) -> tuple[float, float]:
    """Return the widest gap between neighbouring values, seconds, and the ratio of values below it."""
    ordered = sorted(values)
    gaps = [(b - a, (i + 1) / len(ordered)) for i, (a, b) in enumerate(pairwise(ordered))]
    return max(gaps, default=(0.0, 1.0))


def r7(measurements: Measurements, _reading: str) -> Checks:
    """Check that TCP's TTR has two values."""
    values = times(measurements, "satcom", satcom("target-a", WITHOUT), 2, "ttr_s")
    text, needed = "load 2, widest gap between TTRs of TCP, and the share below it", "≥ 75 ms, 30 … 70 %"
    if len(values) < 2:
        return (Fact(text, orderings.NO_SAMPLE, needed, Verdict.NOT_RUN),)
    wide, below = two_valued(values)
    split = wide >= TWO_VALUED * SATCOM_RTT and 0.3 <= below <= 0.7
    found = f"{format_significant(wide * 1e3, 3)} ms, {below:.0%}"
    return (Fact(text, found, needed, Verdict.AGREES if split else Verdict.DIFFERS, wide * 1e3),)


def r8(measurements: Measurements, _reading: str) -> Checks:
    """Check that neither distribution of TTR dominates."""
    return tuple(
        orderings.undominated(f"load {load}, dominance in TTR, QUIC and TCP", quic, tcp)
        for load in (2, 3)
        for quic, tcp in [_satcom(measurements, "target-a", load, "ttr_s")]
    )


def r9(measurements: Measurements, interpretation: str) -> Checks:
    """Check that TCP's rate rises from 1 to 4 s."""
    text = "load 2, TCP rate ratio, 3 to 4 s to 1 to 2 s"
    return (Check(text, growth(measurements, "4g", g4(WITHOUT, interpretation), 2), CLIMBS),)


def r10(measurements: Measurements, interpretation: str) -> Checks:
    """Check that split TCP is ahead of both transports with an initial window of 60 packets."""
    split = times(measurements, "satcom", satcom("target-a", WITHOUT), 1)
    return tuple(
        orderings.ordered(
            f"median PLT, split TCP and {label} end to end, s",
            split,
            times(measurements, "end-to-end", end_to_end(http, interpretation, "60 packets"), 1),
        )
        for http, label in (("3", "QUIC"), ("2", "TCP"))
    )


TCP_INTERPRETATIONS = {"r5": TCP_4G, "r5b": TCP_4G, "r9": TCP_4G, "r10": CONTROLLERS}
"""Results that depend on an unknown controller, and its candidates."""

CRITERIA: dict[str, tuple[str, Callable[[Measurements, str], Checks]]] = {
    "r1": ("loads 2 and 3: ratio of medians 1.5 to 2.5, TCP faster in order P1", r1),
    "r2": ("load 1: median intervals overlap, and Welch's p ≥ 0.05", r2),
    "r3": ("loads 2 and 3: mean share of the download before 90 % of the rate ≥ 2/3", r3),
    "r4": ("loads 2 and 3: median TTR difference, TCP minus QUIC, between 0 and RTT/4", r4),
    "r5": ("loads 2 and 3: ratio of medians TCP to QUIC 1 to 1.5, intervals overlap, no dominance", r5),
    "r5b": (
        (f"loads 2 and 3: median TTR difference, TCP minus QUIC, 90 ms ± a quarter of {G4_RTT * 1e3:.0f} ms"),
        r5b,
    ),
    "r6": (
        ("loads 2 and 3: ratio of medians TCP to QUIC 1 to 1.5; load 2: QUIC ahead at 90 % of the quantiles"),
        r6,
    ),
    "r7": (
        "load 2: widest gap between TTRs ≥ RTT/10, with 30 to 70 % of the values below it",
        r7,
    ),
    "r8": ("loads 2 and 3: no dominance between the distributions of TTR", r8),
    "r9": ("load 2: mean TCP rate from 3 to 4 s ≥ 1.1 times that from 1 to 2 s", r9),
    "r10": (
        ("load 1: split TCP faster in order P1 than end-to-end QUIC and TCP with an initial window of 60"),
        r10,
    ),
}
"""Criteria of the results: text and checks."""
