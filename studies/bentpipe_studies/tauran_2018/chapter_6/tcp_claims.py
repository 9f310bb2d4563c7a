"""Statements of section 6.4 as criteria that can fail: checks, and thresholds with their reasons."""

from __future__ import annotations

from collections.abc import Callable

from bentpipe.metrics.verdicts import Check, Fact
from bentpipe_studies.tauran_2018.chapter_6.cells import POLICIES, TERMINALS
from bentpipe_studies.tauran_2018.chapter_6.queries import (
    InterpretationRuns,
    differences,
    geometric,
    mean,
    ratios,
)
from bentpipe_studies.tauran_2018.comparison import Checks, Values

__all__ = ["CLAIMS"]

SAME = 0.1
"""Ratio within which goodput is the same: more than two printed digits (0.005 of 0.16 are 3 %) and the spread
of seeds.
"""

FEW, BUSY, MANY, FULL = (10, 20), (40, 60, 80, 100), (60, 80, 100), (80, 100)
SPREAD = (1.1, 1.4)
""""Between 10 % and 40 %"."""

LOW = 0.5
"""Maximum ratio of a delay that is "low" beside another."""

NO_DISADVANTAGE = 0.95
"""Ratio of a loss that is "not significant": below the effect of two printed digits and another 600 s of the
channel.
"""

ALIKE = 1.35
"""Shares that look alike in a figure: as ``tables.DELAYS``."""

PART = 50.0
"""The main part of 100 %."""

NO_ADVANTAGE = 2.0
"""Points of the share decoded at first, as of calls (``call_claims``)."""

HOW = {False: "without reordering", True: "with reordering"}


def _over(
    a: InterpretationRuns, measure: str, one: str, other: str, reordering: bool, variant: str = "CUBIC"
) -> Callable[[int], Values]:
    def find(users: int) -> Values:
        return ratios(
            *(a.tcp(measure, name, users, reordering=reordering, variant=variant) for name in (one, other))
        )

    return find


def t1(a: InterpretationRuns) -> Checks:
    """Check that without reordering PF and RR gain most, RR ahead with few users."""
    checks: list[Check | Fact] = []
    for variant in ("NewReno", "CUBIC"):
        for name in ("PF", "RR"):
            gain = geometric(_over(a, "mean", name, "DT_H", False, variant), TERMINALS)
            checks.append(Check(f"{variant}, {name} over DT_H, mean over users", gain, 1.0))
    checks += [
        Check(f"CUBIC, PF over {other}", geometric(_over(a, "mean", "PF", other, False), TERMINALS), 1.0)
        for other in ("DT_S", "CoDeS")
    ]
    ahead = _over(a, "mean", "RR", "PF", False)
    checks += [Check(f"CUBIC, RR over PF, {users} users", ahead(users), 1.0) for users in FEW]
    full = geometric(_over(a, "mean", "RR", "PF", False), MANY)
    checks.append(Check("CUBIC, RR over PF, 60 to 100 users", full, 1.0, at_least=False))
    return tuple(checks)


def t2(a: InterpretationRuns) -> Checks:
    """Check that with reordering PF alone gains."""
    checks: list[Check | Fact] = []
    for variant in ("NewReno", "CUBIC"):
        if variant == "NewReno" and a.buffer != "by TCP":
            continue
        gain = geometric(_over(a, "mean", "PF", "DT_H", True, variant), TERMINALS)
        checks.append(Check(f"{variant}, PF over DT_H, mean over users", gain, 1.0))
        for other in ("RR", "DT_S", "CoDeS"):
            best = geometric(_over(a, "mean", other, "PF", True, variant), TERMINALS)
            checks.append(Check(f"{variant}, {other} over PF", best, 1.0, at_least=False))
    alike = geometric(_over(a, "mean", "RR", "DT_H", True), TERMINALS)
    checks.append(Check("CUBIC, RR over DT_H, similar, at most", alike, 1 + SAME, at_least=False))
    checks.append(Check("CUBIC, RR over DT_H, similar, at least", alike, 1 - SAME))
    return tuple(checks)


def t3(a: InterpretationRuns) -> Checks:
    """Check the worst PF flow against the best DT_S flow, where the thesis's tables have it above: 10 of 12 rows."""
    checks: list[Check | Fact] = []
    for reordering, users in ((False, BUSY), (True, TERMINALS)):
        for n in users:
            worst, best = (
                a.tcp(measure, name, n, reordering=reordering)
                for measure, name in (("least", "PF"), ("most", "DT_S"))
            )
            checks.append(Check(f"{HOW[reordering]}, {n} users", ratios(worst, best), 1.0))
    return tuple(checks)


def t4(a: InterpretationRuns) -> Checks:
    """Check the best PF flow over the worst; in runs of 600 s only."""
    if not a.ran.full:
        return ()

    def apart(users: int) -> Values:
        return ratios(*(a.tcp(measure, "PF", users) for measure in ("most", "least")))

    found = geometric(apart, TERMINALS)
    return (
        Check("the best over the worst, mean over users, at least", found, SPREAD[0]),
        Check("at most", found, SPREAD[1], at_least=False),
    )


def u12(a: InterpretationRuns) -> Checks:
    """Check RR's spread over users, where the thesis's own table has it lowest."""
    if not a.ran.full:
        return ()
    return tuple(
        Check(f"RR over {other}, without reordering, {text}", geometric(_over(a, "sd", "RR", other, False), users), 1.0,
              at_least=False)
        for other, users, text in (("PF", TERMINALS, "mean over users"), ("DT_S", BUSY, "40 to 100 users"))
    )  # fmt: skip


def u13(a: InterpretationRuns) -> Checks:
    """Check PF's spread over the others'."""
    if not a.ran.full:
        return ()
    return tuple(
        Check(f"PF over {other}, {HOW[reordering]}, mean over users",
              geometric(_over(a, "sd", "PF", other, reordering), TERMINALS), 1.0)
        for reordering in (False, True)
        for other in ("RR", "DT_S")
    )  # fmt: skip


def u14(a: InterpretationRuns) -> Checks:
    """Check PF's spread with over without the buffer."""
    if not a.ran.full:
        return ()

    def buffer(users: int) -> Values:
        return ratios(*(a.tcp("sd", "PF", users, reordering=how) for how in (True, False)))

    return (Check("PF, with over without, mean over 10 to 80 users", geometric(buffer, TERMINALS[:-1]), 1.0),)


def u5(a: InterpretationRuns) -> Checks:
    """Check that CoDeS lowers goodput."""
    return tuple(
        Check(
            f"CoDeS over PF, {HOW[reordering]}",
            geometric(_over(a, "mean", "CoDeS", "PF", reordering), TERMINALS), 1.0, at_least=False,
        )
        for reordering in (False, True)
    )  # fmt: skip


def _again(a: InterpretationRuns, policy: str, reordering: bool = False) -> Values:
    return mean(lambda n: a.tcp("again", policy, n, reordering=reordering), TERMINALS)


def u6(a: InterpretationRuns) -> Checks:
    """Check the order of retransmissions."""
    checks = [Check("DT_S over CoDeS", ratios(_again(a, "DT_S"), _again(a, "CoDeS")), 1.0)]
    checks += [
        Check(f"CoDeS over {name}", ratios(_again(a, "CoDeS"), _again(a, name)), 1.0)
        for name in ("PF", "RR", "DT_H")
    ]
    return tuple(checks)


def u7(a: InterpretationRuns) -> Checks:
    """Check delays at 100 users: RR and DT_H are slow, the others are not.

    Delays are until in-order delivery, as the thesis counts, and by the round trip.
    """
    checks = []
    for measure, text in (("delivery_ms", "in order"), ("way_ms", "from the RTT")):
        for slow in ("RR", "DT_H"):
            for quick in ("DT_S", "CoDeS", "PF"):
                apart = ratios(a.tcp(measure, quick, 100), a.tcp(measure, slow, 100))
                checks.append(Check(f"{quick} over {slow}, 100 users, {text}", apart, LOW, at_least=False))
    return tuple(checks)


def u15(a: InterpretationRuns) -> Checks:
    """Check delivery times with reordering: the thesis's order from the shortest."""
    pairs = [(quick, slow) for quick in ("DT_S", "CoDeS") for slow in ("PF", "RR", "DT_H")]
    return tuple(
        Check(f"{quick} over {slow}, mean over users",
              geometric(_over(a, "delivery_ms", quick, slow, True), TERMINALS), 1.0, at_least=False)
        for quick, slow in [*pairs, ("PF", "RR"), ("PF", "DT_H")]
    )  # fmt: skip


def u16(a: InterpretationRuns) -> Checks:
    """Check that RR and PF retransmit equally."""
    found = ratios(_again(a, "RR", True), _again(a, "PF", True))
    return (
        Check("RR over PF, with reordering, at least", found, 1 / ALIKE),
        Check("at most", found, ALIKE, at_least=False),
    )


def u8(a: InterpretationRuns) -> Checks:
    """Check that reordering raises retransmissions."""
    return tuple(
        Check(f"{name}, with over without", ratios(_again(a, name, True), _again(a, name)), 1.0)
        for name in ("DT_H", "DT_S", "RR", "PF", "CoDeS")
    )


def u9(a: InterpretationRuns) -> Checks:
    """Check that PF's time-outs rise with reordering, mostly with few users."""
    return _rise(a, "PF")


def u17(a: InterpretationRuns) -> Checks:
    """Check that RR's time-outs rise too."""
    return _rise(a, "RR")


def _rise(a: InterpretationRuns, policy: str) -> Checks:
    def rise(users: int) -> Values:
        return differences(*(a.tcp("rto", policy, users, reordering=how) for how in (True, False)))

    few, many = mean(rise, FEW), mean(rise, FULL)
    return (
        Check("RTO, points of %, with minus without, 10 and 20 users", few, 0.0),
        Check("the same minus that at 80 and 100 users", differences(few, many), 0.0),
    )


def u18(a: InterpretationRuns) -> Checks:
    """Check the ratio of queue drops among retransmissions."""
    return tuple(
        Check(f"{name}, with reordering, queue drops, % of retransmissions",
              mean(lambda n, name=name: a.tcp("refused", name, n, reordering=True), TERMINALS), PART)  # type: ignore[misc]
        for name in POLICIES
    )  # fmt: skip


def u19(a: InterpretationRuns) -> Checks:
    """Check the share decoded at first: RR's is not higher with few users, PF's is where PF is ahead."""

    def more(one: str, other: str) -> Callable[[int], Values]:
        return lambda users: differences(*(a.tcp("decoded_0", name, users) for name in (one, other)))

    return (
        Check("RR minus DT_H, decoded at first attempt, points, 10 and 20 users",
              mean(more("RR", "DT_H"), FEW), NO_ADVANTAGE, at_least=False),
        Check("PF minus RR, 60 to 100 users", mean(more("PF", "RR"), MANY), NO_ADVANTAGE),
    )  # fmt: skip


def u10(a: InterpretationRuns) -> Checks:
    """Check that on a full link neither variant nor reordering matters; before, both help."""
    variant = _variants(a)

    def buffer(users: int) -> Values:
        return ratios(*(a.tcp("mean", "PF", users, reordering=how) for how in (True, False)))

    checks: list[Check | Fact] = []
    for text, find in (
        ("CUBIC over NewReno, with reordering", variant),
        ("with reordering over without", buffer),
    ):
        full = geometric(find, FULL)
        checks += [
            Check(f"{text}, 80 and 100 users, at least", full, 1 - SAME),
            Check(f"{text}, 80 and 100 users, at most", full, 1 + SAME, at_least=False),
            Check(f"{text}, 10 and 20 users", geometric(find, FEW), 1.0),
        ]
    return tuple(checks)


def _variants(a: InterpretationRuns) -> Callable[[int], Values]:
    def find(users: int) -> Values:
        return ratios(
            *(a.tcp("mean", "PF", users, reordering=True, variant=name) for name in ("CUBIC", "NewReno"))
        )

    return find


def u11(a: InterpretationRuns) -> Checks:
    """Check that beyond 20 users RR has the same goodput with and without reordering."""

    def buffer(users: int) -> Values:
        return ratios(*(a.tcp("mean", "RR", users, reordering=how) for how in (True, False)))

    many, few = geometric(buffer, BUSY), geometric(buffer, FEW)
    return (
        Check("with over without, 40 to 100 users, at least", many, 1 - SAME),
        Check("at most", many, 1 + SAME, at_least=False),
        Check("10 and 20 users: reordering helps", few, 1.0),
    )


def q1(a: InterpretationRuns) -> Checks:
    """Check the effect of channel information that is 10 ms late."""
    return tuple(
        Check(
            f"PF, goodput, delayed over immediate CSI, {HOW[reordering]}",
            geometric(_over(a, "mean", "PF, channel 10 ms late", "PF", reordering), TERMINALS),
            NO_DISADVANTAGE,
        )
        for reordering in (False, True)
        if not a.interpretation.size
    )


CLAIMS: dict[str, tuple[str, str, Callable[[InterpretationRuns], Checks], bool]] = {
    "tcp_users.trends.t1": ("", "ratios of per-user goodput; RR ahead at 10 and 20 users, behind from 60", t1, False),
    "tcp_users.trends.t2": ("", "ratios of per-user goodput; RR and DT_H within 10 %", t2, True),
    "tcp_users.trends.t3": ("", "minimum of PF over maximum of DT_S ≥ 1, as in the tables of the thesis", t3, True),
    "tcp_users.trends.t4": ("", "maximum over minimum 1.1 to 1.4; runs of 600 s only", t4, False),
    "tcp_users_more.u5": ("", "ratios of per-user goodput ≤ 1", u5, True),
    "tcp_users_more.u6": ("", "ratios of shares, means over users", u6, False),
    "tcp_users_more.u7": ("", "at most half, until in-order delivery and from the RTT", u7, False),
    "tcp_users_more.u8": ("", "ratios of shares, means over users", u8, True),
    "tcp_users_more.u9": ("", "differences of RTO events, % of packets", u9, True),
    "tcp_users_more.u10": ("", "full: 80 and 100 users, within 10 %; below: 10 and 20 users, ratios ≥ 1", u10, False),
    "tcp_users_more.u11": ("", "within 10 % from 40 users on", u11, True),
    "tcp_users_more.u12": ("", "ratios of standard deviations over users ≤ 1; runs of 600 s only", u12, False),
    "tcp_users_more.u13": ("", "ratios of standard deviations over users ≥ 1; runs of 600 s only", u13, True),
    "tcp_users_more.u14": ("", "ratio of standard deviations over users ≥ 1; runs of 600 s only", u14, True),
    "tcp_users_more.u15": ("", "ratios of in-order delivery delays ≤ 1, means over users", u15, True),
    "tcp_users_more.u16": ("", "ratio of shares, mean over users, within a factor of 1.35", u16, True),
    "tcp_users_more.u17": ("", "differences of RTO events, % of packets", u17, True),
    "tcp_users_more.u18": ("", "queue drops are at least half of all retransmissions", u18, True),
    "tcp_users_more.u19": ("", "RR at most 2 points more with few users, PF at least 2 with many", u19, False),
    "channel_claims.q1": ("", "goodput at least 0.95 of that with immediate CSI", q1, False),
}  # fmt: skip
"""By place in the published file: text, criterion, checks, and whether the buffer's numbering matters."""
