"""Statements beyond the tables: other variants, rates and users, the constellation, and equation 3.3."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Check, Fact, Verdict
from bentpipe_studies.tauran_2018.cells import ACKS, FITTED_DB, SEGMENT, SNR, VARIANT, case
from bentpipe_studies.tauran_2018.comparison import Checks, StudyRuns, Values, over_snrs, ratios

__all__ = ["EXTENSION_CRITERIA", "LOSSES", "equation_kbps"]

RATE = "rate"
UNCHANGED = 0.1
"""Ratio within which goodput is the same, as in ``claims``."""

SAME_AS_50 = "50 Mb/s"

STRAIGHT = 0.9
"""Ratio of the variance between two handovers that a straight line explains: all but a tenth is "linear"."""

A_FEW_MS = (1.0, 10.0)
"""Range of "a few ms": a packet notices it, and it has one digit."""

VERY_UNLIKELY = 0.1
"""Maximum ratio of large handovers."""

LOSSES = ("0.01 %", "0.1 %", "1 %")
SQUARE_ROOT = 1.25
"""Factor within which the square-root law must hold.

The law is for losses at even intervals (1.22 where random ones have 1.31) and without time-outs, which take
as much
again at 1 %.
"""

RTT_S = 0.1705
"""Two ways of 85 ms, and the time of a packet on the link, s."""


def others(m: StudyRuns) -> Checks:
    """Check that the buffer helps Westwood and Hybla too."""

    def westwood(snr: int) -> Values:
        on, off = (
            m.others.values(
                {SNR: f"{snr} dB", VARIANT: "Westwood+", "reordering": how, RATE: SAME_AS_50}, "goodput_kbps"
            )
            for how in (m.buffer, "without")
        )
        return ratios(on, off)

    hybla = over_snrs(lambda snr: m.by_buffer("goodput_kbps", snr, "Hybla"))
    return (
        Check(
            "Westwood+, goodput ratio with to without the buffer, mean at 7, 10, 13 dB",
            over_snrs(westwood, FITTED_DB),
            1.0,
        ),
        Check("Hybla, mean over SNRs", hybla, 1.0),
    )


def rates(m: StudyRuns) -> Checks:
    """Check that the buffer helps at other rates of the link too, and CUBIC most."""
    checks: list[Check | Fact] = []
    for rate in ("10 Mb/s", "100 Mb/s"):

        def gain(snr: int, variant: str, rate: str = rate) -> Values:
            on, off = (
                m.others.values(
                    {SNR: f"{snr} dB", VARIANT: variant, "reordering": how, RATE: rate}, "goodput_kbps"
                )
                for how in (m.buffer, "without")
            )
            return ratios(on, off)

        means = {name: over_snrs(partial(gain, variant=name), FITTED_DB) for name in ("NewReno", "CUBIC")}
        checks += [
            Check(f"{rate}, {name}, ratio with to without the buffer", mean, 1.0)
            for name, mean in means.items()
        ]
        checks.append(
            Check(
                f"{rate}, CUBIC's at 13 dB over NewReno's",
                ratios(gain(13, "CUBIC"), gain(13, "NewReno")),
                1.0,
            )
        )
    return tuple(checks)


def users(m: StudyRuns) -> Checks:
    """Check that delayed ACKs have the same sign with ten users as with one."""
    checks: list[Check | Fact] = []
    for variant in ("NewReno", "CUBIC"):
        for reordering in (False, True):

            def ten(snr: int, variant: str = variant, reordering: bool = reordering) -> Values:
                on, off = (
                    m.users.values(
                        case(snr, variant, reordering=reordering, delayed=delayed, buffer=m.buffer),
                        "goodput_kbps",
                    )
                    for delayed in (True, False)
                )
                return ratios(on, off)

            def one(snr: int, variant: str = variant, reordering: bool = reordering) -> Values:
                return m.by_acks("goodput_kbps", snr, variant, reordering=reordering)

            alone = over_snrs(one, FITTED_DB)
            if not alone:
                continue
            mean = math.fsum(alone) / len(alone)
            found, text = (
                over_snrs(ten, FITTED_DB),
                f"{variant} {'with' if reordering else 'without'} reordering",
            )
            if abs(mean - 1) <= UNCHANGED:
                checks.append(Check(f"{text}, unchanged with one user, at least", found, 1 - UNCHANGED))
                checks.append(Check(f"{text}, at most", found, 1 + UNCHANGED, at_least=False))
            else:
                checks.append(
                    Check(f"{text}, same side of 1 as with one user", found, 1.0, at_least=mean > 1)
                )
    return tuple(checks)


def g1(m: StudyRuns) -> Checks:
    """Check that the delay is linear between route changes."""
    return tuple(
        _fact(
            f"{pair}, share of the variance explained by a straight line",
            part,
            f"≥ {STRAIGHT}",
            part >= STRAIGHT,
        )
        for pair, part in m.orbits.straightness().items()
    )


def g2(m: StudyRuns) -> Checks:
    """Check that a small handover lowers the delay by a few ms."""
    low, high = A_FEW_MS
    facts = []
    for pair, found in m.orbits.found.items():
        drops = sorted((one.before_ns - one.after_ns) / 1e6 for one in found.handovers if one.size == "small")
        if drops:
            middle = drops[len(drops) // 2]
            text = f"{pair}, drop at a small handover, median of {len(drops)}, ms"
            facts.append(_fact(text, middle, f"{low:g} … {high:g}", low <= middle <= high))
    return tuple(facts)


def g3(m: StudyRuns) -> Checks:
    """Check that large handovers are very unlikely."""
    all_ = m.orbits.handovers()
    if not all_:
        return ()
    share = sum(one.size == "large" for one in all_) / len(all_)
    text = f"share of large handovers among {len(all_)}"
    return (_fact(text, share, f"≤ {VERY_UNLIKELY}", share <= VERY_UNLIKELY),)


def _fact(text: str, value: float, needed: str, holds: bool) -> Fact:
    return Fact(text, format_significant(value), needed, Verdict.AGREES if holds else Verdict.DIFFERS, value)


def equation_kbps(loss: float, segments_an_ack: int, rtt_s: float = RTT_S) -> float:
    """Return the rate of equation 3.3, kb/s: sqrt(3 / 2 b) MSS / (RTT sqrt p).

    Args:
        loss: packet loss ratio p.
        segments_an_ack: segments for each ACK, b.
        rtt_s: round-trip time, seconds.
    """
    return math.sqrt(3 / (2 * segments_an_ack) / loss) * SEGMENT * 8 / rtt_s / 1e3


def equation(m: StudyRuns) -> Checks:
    """Check that NewReno under random loss has the rate of equation 3.3."""
    checks: list[Check | Fact] = []
    for delayed in (True, False):
        for loss in LOSSES:
            cell = {"path.constellation.down.loss": loss, ACKS: "false" if delayed else "true"}
            expected = equation_kbps(float(loss.split()[0]) / 100, 2 if delayed else 1)
            ratio = tuple(value / expected for value in m.equation.values(cell, "goodput_kbps"))
            how = "delayed ACKs" if delayed else "one ACK per segment (3/2 instead of 3/4)"
            checks.append(Check(f"{loss}, {how}, at least", ratio, 1 / SQUARE_ROOT))
            checks.append(Check(f"{loss}, {how}, at most", ratio, SQUARE_ROOT, at_least=False))
    return tuple(checks)


EXTENSION_CRITERIA: dict[str, tuple[str, str, Callable[[StudyRuns], Checks]]] = {
    "constellation_claims.g1": ("", "median over handovers: straight line explains 9/10 of the variance", g1),
    "constellation_claims.g2": ("", "median drop of 1 to 10 ms", g2),
    "constellation_claims.g3": ("", "at most 1/10 of all handovers", g3),
    "equation_3_3": ("TCP's throughput is sqrt(3/4) MSS / (RTT sqrt p) (equation 3.3)",
                     "NewReno's goodput over the equation's within 25 % at random loss", equation),
    "further.other_variants": ("reordering helps Westwood and Hybla too (p. 67)", "ratios of goodput ≥ 1", others),
    "setup.lms_rate_mbps": ("higher and lower rates of the link give the same conclusions (p. 59)",
                            "ratios of goodput at 10 and 100 Mb/s as in r1", rates),
    "further.delack_users": ("delayed ACKs with several users: the same tendencies as with one (p. 84)",
                             ("ratios of goodput: unchanged within 10 % as with one user, or on "
                             "the same side of 1"), users),
}  # fmt: skip
"""Criteria as in :data:`bentpipe_studies.tauran_2018.claims.CRITERIA`."""
