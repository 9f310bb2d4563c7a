"""Statements of chapters 4 and 5 as criteria that can fail: checks, and thresholds with their reasons.

Runs of a seed have the same channel, so every comparison is within a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Check, Fact, Verdict
from bentpipe_studies.study import MainResult
from bentpipe_studies.tauran_2018.cells import SNR, SNRS, TIMERS, VARIANT, case
from bentpipe_studies.tauran_2018.comparison import Checks, StudyRuns, Values, best, over_snrs, ratios, sums
from bentpipe_studies.tauran_2018.extensions import EXTENSION_CRITERIA

__all__ = ["BUFFERED", "CRITERIA", "main_result"]

HALF_OF_40 = 0.2
"""Half of "up to 40 %", at some SNR: the nearest whole step that is neither nothing nor all."""

STRONGLY = 0.1
"""Ratio of a goodput that is more than "slightly"."""

UNCHANGED = 0.1
"""Ratio within which goodput "is approximately the same": below the smallest step between SNRs of table 4.1's means."""

HALF_OF_25 = 0.125
"""Half of "up to 25 %"."""

BEST_MS = (30, 40)

ABOUT_A_TENTH = (0.05, 0.2)
"""Shares nearer to 10 % than to none or to 20 % and more, in ratio."""


def _goodput(m: StudyRuns, variant: str, *, reordering: bool) -> Callable[[int], Values]:
    return lambda snr: m.by_acks("goodput_kbps", snr, variant, reordering=reordering)


def main_result(m: StudyRuns) -> MainResult | None:
    """Return the gain of goodput by the reordering buffer, mean over SNRs, of NewReno and CUBIC."""

    def gain(variant: str) -> Values:
        return over_snrs(lambda snr: m.by_buffer("goodput_kbps", snr, variant))

    gains = {variant: gain(variant) for variant in ("NewReno", "CUBIC")}
    if not all(gains.values()):
        return None
    reno, cubic = (format_significant(math.fsum(values) / len(values), 3) for values in gains.values())
    return MainResult(
        f"With the reordering buffer, goodput is {reno} times as high for NewReno and {cubic} times for CUBIC, "
        "mean over 7 to 13 dB; Tauran found a gain at every SNR, most for CUBIC.",
        "The numbering of the buffer decides the gain: it uses the sequence numbers of TCP, as in figure 4.6.",
    )


def t1(m: StudyRuns) -> Checks:
    """Check goodput without reordering: NewReno gains, CUBIC stays, Hybla loses."""
    reno, cubic, hybla = (_goodput(m, name, reordering=False) for name in ("NewReno", "CUBIC", "Hybla"))
    return (
        Check("NewReno's goodput, mean ratio over SNRs", over_snrs(reno), 1.0),
        Check("NewReno's maximum ratio", best(reno), 1 + HALF_OF_40),
        Check("CUBIC's mean ratio, at least", over_snrs(cubic), 1 - UNCHANGED),
        Check("CUBIC's mean ratio, at most", over_snrs(cubic), 1 + UNCHANGED, at_least=False),
        Check("Hybla's minimum ratio", best(hybla, -1), 1 - HALF_OF_40, at_least=False),
    )


def t2(m: StudyRuns) -> Checks:
    """Check goodput with reordering: all lose, CUBIC most at high SNR."""
    checks = [
        Check(f"{name}'s mean ratio", over_snrs(_goodput(m, name, reordering=True)), 1.0, at_least=False)
        for name in ("NewReno", "CUBIC", "Hybla")
    ]
    cubic = over_snrs(_goodput(m, "CUBIC", reordering=True), (11, 12, 13))
    reno = over_snrs(_goodput(m, "NewReno", reordering=True), (11, 12, 13))
    return (
        *checks,
        Check("CUBIC's from 11 dB on", cubic, 1 - STRONGLY, at_least=False),
        Check("CUBIC's over NewReno's, from 11 dB on", ratios(cubic, reno), 1.0, at_least=False),
    )


def t3(m: StudyRuns) -> Checks:
    """Check that reordering still helps with delayed ACKs, except CUBIC at low SNR."""

    def gain(variant: str) -> Callable[[int], Values]:
        return lambda snr: m.by_buffer("goodput_kbps", snr, variant, delayed=True)

    return (
        Check("NewReno, mean ratio over SNRs", over_snrs(gain("NewReno")), 1.0),
        Check("CUBIC from 10 dB on", over_snrs(gain("CUBIC"), (10, 11, 12, 13)), 1.0),
        Check("CUBIC at 7 dB", gain("CUBIC")(7), 1.0, at_least=False),
    )


def t4(m: StudyRuns) -> Checks:
    """Check the best timer by goodput: over all SNRs together, which vary less by chance, and at each."""
    facts: list[Check | Fact] = []
    for variant in ("NewReno", "CUBIC"):

        def goodput(snr: int, timer: int, variant: str = variant) -> Values:
            cell = {SNR: f"{snr} dB", VARIANT: variant, "tcp.delayed_ack.timeout": f"{timer} ms"}
            return m.timers.values(cell, "goodput_kbps")

        goodputs = {timer: over_snrs(partial(goodput, timer=timer)) for timer in TIMERS}
        if not all(goodputs.values()):
            continue
        best_ms = max(TIMERS, key=lambda timer: sum(goodputs[timer]))
        facts.append(_timer(f"{variant}, best timer over all SNRs, ms", [best_ms], "30 … 40"))
        each = [max(TIMERS, key=lambda timer, snr=snr: sum(goodput(snr, timer))) for snr in SNRS]  # type: ignore[misc]
        facts.append(_timer(f"{variant}, at 7 to 13 dB", each, "30 … 40 at each"))
    return tuple(facts)


def _timer(text: str, found: list[int], needed: str) -> Fact:
    inside = sum(timer in BEST_MS for timer in found)
    verdict = Verdict.AGREES if inside == len(found) else Verdict.DIFFERS
    return Fact(text, ", ".join(map(str, found)), needed, verdict, inside)


def t5(m: StudyRuns) -> Checks:
    """Check the timer and time-outs with reordering and delayed ACKs: the timer falls, time-outs rise."""
    checks: list[Check | Fact] = []
    for name in ("NewReno", "CUBIC"):

        def rto(snr: int, name: str = name) -> Values:
            return m.by_acks("rto_ms", snr, name, reordering=True)

        checks.append(Check(f"{name}, mean ratio of the RTO", over_snrs(rto), 1.0, at_least=False))
        if name == "CUBIC":
            checks.append(Check("CUBIC, its minimum", best(rto, -1), 1 - HALF_OF_25, at_least=False))
        checks.append(
            Check(f"{name}, timeouts at all SNRs, ratio", _events(m, "rtos", name, reordering=True), 1.0)
        )
    return tuple(checks)


def _events(m: StudyRuns, measure: str, variant: str, *, reordering: bool) -> Values:
    def counted(delayed: bool) -> Values:
        return sums(lambda snr: m.values(measure, snr, variant, reordering=reordering, delayed=delayed))

    return ratios(counted(True), counted(False))


def t6(m: StudyRuns) -> Checks:
    """Check events without reordering: NewReno's fall with delayed ACKs, CUBIC's little or not."""
    checks: list[Check | Fact] = []
    for measure, label in (("dupack", "DUPACK"), ("rto", "RTO"), ("spurious", "spurious")):
        ratio = _events(m, measure, "NewReno", reordering=False)
        checks.append(Check(f"NewReno, {label}, ratio of shares over all SNRs", ratio, 1.0, at_least=False))
    for measure, label in (("dupack", "DUPACK"), ("spurious", "spurious")):
        ratio = _events(m, measure, "CUBIC", reordering=False)
        checks.append(Check(f"CUBIC, {label}, at most", ratio, 1 + UNCHANGED, at_least=False))
        checks.append(Check(f"CUBIC, {label}, at least (as small as NewReno's)", ratio, 1 - HALF_OF_40))
    return tuple(checks)


def t8(m: StudyRuns) -> Checks:
    """Check the order of retransmissions with delayed ACKs: Hybla, CUBIC, NewReno."""

    def least(more: str, fewer: str) -> Values:
        def ratio(snr: int) -> Values:
            both = (
                m.values("retransmissions", snr, name, reordering=False, delayed=True)
                for name in (more, fewer)
            )
            return ratios(*both)

        return best(ratio, -1)

    return tuple(
        Check(f"{more} over {fewer}, minimum ratio over all SNRs", least(more, fewer), 1.0)
        for more, fewer in (("Hybla", "CUBIC"), ("CUBIC", "NewReno"))
    )


def t9(m: StudyRuns) -> Checks:
    """Check that with reordering delayed ACKs raise SRTT, and lower RTTVAR and so the RTO."""

    def ratio(measure: str) -> Values:
        return over_snrs(lambda snr: m.by_acks(measure, snr, "CUBIC", reordering=True))

    return (
        Check("CUBIC, SRTT, mean ratio over SNRs", ratio("srtt_ms"), 1.0),
        Check("RTTVAR", ratio("rttvar_ms"), 1.0, at_least=False),
        Check("RTO", ratio("rto_ms"), 1.0, at_least=False),
    )


def t10(m: StudyRuns) -> Checks:
    """Check that with reordering time-outs over retransmissions rise with delayed ACKs."""

    def share(delayed: bool, name: str) -> Values:
        timeouts, sent = (
            sums(lambda snr, measure=measure: m.values(measure, snr, name, reordering=True, delayed=delayed))  # type: ignore[misc]
            for measure in ("rtos", "retransmissions")
        )
        return ratios(timeouts, sent)

    return tuple(
        Check(f"{name}, ratio of shares over all SNRs", ratios(share(True, name), share(False, name)), 1.0)
        for name in ("NewReno", "CUBIC")
    )


def wait(m: StudyRuns) -> Checks:
    """Check the share of waits within a pair above 10 ms."""
    found = m.values("pairs_within_10_ms", 13, "CUBIC", reordering=True, delayed=True)
    share = tuple(1 - value for value in found)
    low, high = ABOUT_A_TENTH
    text = "CUBIC at 13 dB with reordering, share of pairs"
    return (Check(f"{text}, at least", share, low), Check(f"{text}, at most", share, high, at_least=False))


def d1(m: StudyRuns) -> Checks:
    """Check that D-SACK changes goodput by 3 % at most."""
    checks: list[Check | Fact] = []
    for variant in ("NewReno", "CUBIC"):
        for reordering in (False, True):

            def ratio(snr: int, variant: str = variant, reordering: bool = reordering) -> Values:
                cell = case(snr, variant, reordering=reordering, buffer=m.buffer)
                on = m.dsack.values(
                    {key: value for key, value in cell.items() if "ack" not in key}, "goodput_kbps"
                )
                return ratios(on, m.values("goodput_kbps", snr, variant, reordering=reordering))

            mean, how = over_snrs(ratio), "with" if reordering else "without"
            text = f"{variant} {how} reordering, mean ratio over SNRs"
            checks.append(Check(f"{text}, at least", mean, 0.97))
            checks.append(Check(f"{text}, at most", mean, 1.03, at_least=False))
    return tuple(checks)


def _buffer(m: StudyRuns, measure: str, variant: str) -> Values:
    def counted(reordering: bool) -> Values:
        return sums(lambda snr: m.values(measure, snr, variant, reordering=reordering))

    return ratios(counted(True), counted(False))


def r1(m: StudyRuns) -> Checks:
    """Check that reordering raises goodput at every SNR, CUBIC's most at high SNR."""

    def gain(name: str, snr: int) -> Values:
        return m.by_buffer("goodput_kbps", snr, name)

    checks = [
        Check(f"{name}, minimum ratio over all SNRs", best(lambda snr, name=name: gain(name, snr), -1), 1.0)  # type: ignore[misc]
        for name in ("NewReno", "CUBIC")
    ]
    return (
        *checks,
        Check("CUBIC's at 13 dB over that at 7 dB", ratios(gain("CUBIC", 13), gain("CUBIC", 7)), 1.0),
        Check("CUBIC's at 13 dB over NewReno's", ratios(gain("CUBIC", 13), gain("NewReno", 13)), 1.0),
        Check("with it, CUBIC over NewReno, mean over SNRs", over_snrs(lambda snr: ratios(
            m.values("goodput_kbps", snr, "CUBIC", reordering=True),
            m.values("goodput_kbps", snr, "NewReno", reordering=True))), 1.0),
    )  # fmt: skip


def r1b(m: StudyRuns) -> Checks:
    """Check table 4.1: CUBIC above NewReno without reordering."""
    values = over_snrs(
        lambda snr: ratios(
            m.values("goodput_kbps", snr, "CUBIC", reordering=False),
            m.values("goodput_kbps", snr, "NewReno", reordering=False),
        )
    )
    return (Check("CUBIC over NewReno without reordering, mean over SNRs", values, 1.0),)


def r2(m: StudyRuns) -> Checks:
    """Check that CUBIC's DUPACK falls, its RTO rises, and both together fall."""

    def both(reordering: bool) -> Values:
        kinds = [sums(lambda snr, kind=kind: m.values(kind, snr, "CUBIC", reordering=reordering))  # type: ignore[misc]
                 for kind in ("dupack", "rto")]  # fmt: skip
        return tuple(map(sum, zip(*kinds, strict=True))) if all(kinds) else ()

    return (
        Check("DUPACK, ratio of shares over all SNRs", _buffer(m, "dupack", "CUBIC"), 1.0, at_least=False),
        Check("RTO", _buffer(m, "rto", "CUBIC"), 1.0),
        Check("both together", ratios(both(True), both(False)), 1.0, at_least=False),
    )


def r3(m: StudyRuns) -> Checks:
    """Check that CUBIC's spurious share rises, and that NewReno's falls (table 4.2)."""
    return (
        Check("CUBIC, ratio of shares over all SNRs", _buffer(m, "spurious", "CUBIC"), 1.0),
        Check("NewReno (table 4.2)", _buffer(m, "spurious", "NewReno"), 1.0, at_least=False),
    )


def r4(m: StudyRuns) -> Checks:
    """Check that drops at good SNR are mostly congestion."""
    congested = m.values("overflow", 13, "CUBIC", reordering=True)
    failed = m.values("dropped", 13, "CUBIC", reordering=True)
    share = tuple(one / max(one + other, 1) for one, other in zip(congested, failed, strict=True))
    return (Check("CUBIC at 13 dB with reordering, share of overflows among drops", share, 0.5),)


def r5(m: StudyRuns) -> Checks:
    """Check that the utilisation rises, and reaches its maximum at times."""
    use = over_snrs(lambda snr: m.by_buffer("use_mbps", snr, "CUBIC"))
    peak = m.values("peak_mbps", 13, "CUBIC", reordering=True)
    return (
        Check("CUBIC, bits on the link, mean ratio over SNRs", use, 1.0),
        Check("CUBIC at 13 dB with reordering, maximum in 1 s, Mb/s (9/10 of 50)", peak, 45.0),
    )


def r6(m: StudyRuns) -> Checks:
    """Check that both together lie between reordering alone and delayed ACKs alone."""

    def gain(snr: int) -> Values:
        return m.by_buffer("goodput_kbps", snr, "CUBIC", delayed=True)

    loss = over_snrs(_goodput(m, "CUBIC", reordering=True))
    return (
        Check("CUBIC, both over reordering alone, mean over SNRs", loss, 1.0, at_least=False),
        Check("CUBIC, both over delayed ACKs alone, from 10 dB on", over_snrs(gain, (10, 11, 12, 13)), 1.0),
        Check("the same at 7 dB", gain(7), 1.0, at_least=False),
    )


def t7(m: StudyRuns) -> Checks:
    """Check growth without loss: slow start is slower for all, congestion avoidance for CUBIC and not NewReno."""
    checks: list[Check | Fact] = []
    for variant in ("NewReno", "CUBIC", "Hybla"):
        on, off = _window(m, variant, "slow_start_s", True), _window(m, variant, "slow_start_s", False)
        checks.append(Check(f"{variant}, time to 200 packets, ratio", ratios(on, off), 1.0 + UNCHANGED))
    for variant, slower in (("CUBIC", True), ("NewReno", False)):
        on, off = _window(m, variant, "growth", True), _window(m, variant, "growth", False)
        text = f"{variant}, growth of the window in congestion avoidance, ratio"
        if slower:
            checks.append(Check(text, ratios(on, off), 1 - UNCHANGED, at_least=False))
        else:
            checks.append(Check(text, ratios(on, off), 1 - UNCHANGED))
    return tuple(checks)


def _window(m: StudyRuns, variant: str, measure: str, delayed: bool) -> Values:
    cell = {VARIANT: variant, "tcp.delayed_ack.off": "false" if delayed else "true"}
    return m.lossless.values(cell, measure)


CRITERIA: dict[str, tuple[str, str, Callable[[StudyRuns], Checks]]] = {
    "reordering_claims.r1": ("", "goodput ratio per seed, with to without the buffer, ≥ 1", r1),
    "reordering_claims.r1b": (
        "without reordering, CUBIC also has more goodput than NewReno (table 4.1)", "ratio ≥ 1", r1b),
    "reordering_claims.r2": ("", "ratios of shares, with to without the buffer", r2),
    "reordering_claims.r3": ("", "ratios of shares, with to without the buffer", r3),
    "reordering_claims.r4": ("", "more than half", r4),
    "reordering_claims.r5": ("", "ratio ≥ 1, and at least one second at 9/10 of the rate", r5),
    "reordering_claims.r6": ("", "ratios of goodput", r6),
    "d_sack.t1": ("", "ratio of goodput within 3 %, mean over SNRs", d1),
    "delack.t1": ("", "goodput ratios, with to without delayed ACKs; half of 40 % at some SNR; CUBIC within 10 %", t1),
    "delack.t2": ("", "ratios ≤ 1, CUBIC's from 11 dB on ≤ 0.9 and below NewReno's", t2),
    "delack.t3": ("", "ratios of goodput with and without the buffer, both with delayed ACKs", t3),
    "delack.t4": ("", "timer with the maximum mean goodput, over all SNRs and at each", t4),
    "delack.t5": ("", "ratio of mean RTO ≤ 1, half of 25 % at some SNR; ratio of timeouts ≥ 1", t5),
    "delack_more.t6": ("", "ratios of shares with and without delayed ACKs", t6),
    "delack_more.t7": ("", "time to a window and growth after the first loss, each 10 % slower or not", t7),
    "delack_more.t8": ("", "minimum ratio over SNRs ≥ 1", t8),
    "delack_more.t9": ("", "ratios of means over all samples", t9),
    "delack_more.t10": ("", "ratio of timeouts over retransmissions ≥ 1", t10),
    "further.delack_pair_wait": ("wait within a pair of a delayed ACK", "5 to 20 % above 10 ms", wait),
    **EXTENSION_CRITERIA,
}  # fmt: skip
"""Statements by their place in the published file: text where that has none, what is checked, and the code."""

BUFFERED = {
    *(f"reordering_claims.r{number}" for number in range(1, 7)),
    "d_sack.t1", "delack.t2", "delack.t3", "delack.t5", "delack_more.t9", "delack_more.t10",
    "further.delack_pair_wait", "further.other_variants", "setup.lms_rate_mbps", "further.delack_users",
}  # fmt: skip
"""Those that have to do with the reordering buffer: they are judged by both of its numberings."""
