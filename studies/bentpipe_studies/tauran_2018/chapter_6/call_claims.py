"""Statements of sections 6.1 and 6.3 as criteria that can fail: checks, and thresholds with their reasons."""

from __future__ import annotations

from collections.abc import Callable

from bentpipe.metrics.verdicts import Check, Fact
from bentpipe_studies.tauran_2018.chapter_6.queries import (
    InterpretationRuns,
    differences,
    geometric,
    mean,
    ratios,
)
from bentpipe_studies.tauran_2018.chapter_6.tables import carried, most_of
from bentpipe_studies.tauran_2018.comparison import Checks, Values

__all__ = ["CLAIMS"]

OTHERS = ("DT_H", "DT_S", "RR")
LOADED = (75, 100, 125, 150, 175, 200)
SATURATED = (100, 125, 150, 175, 200)
SAME = 0.01
"""Without loss all have the same throughput, except packets in flight at the end."""

SAME_POINTS = 1.0
"""A loss that stays "approximately the same": within a third of the 3 % that are allowed."""

LONG_MS, ACCEPTABLE_MS = 300.0, 400.0
"""The thesis's "long", and its limit (p. 96), ms."""

LOSS = 3.0
"""Acceptable loss of a call, % (p. 96)."""

NO_ADVANTAGE = 2.0
"""Points of the share decoded at first: a fifth of the distance of table 6.3's rows."""

NOT_MORE = 1.1
"""Ratio of drops that do not "increase significantly"."""

ALMOST = 0.9
"""Nine tenths of a maximum are almost it."""

KNOWN_AFTER_MS = 10.0
"""Age of the channel estimate: the delay of the last link (p. 89), ms."""


def _over(a: InterpretationRuns, measure: str, one: str, other: str) -> Callable[[int], Values]:
    return lambda users: ratios(*(a.call(measure, name, users) for name in (one, other)))


def _less(a: InterpretationRuns, measure: str, one: str, other: str) -> Callable[[int], Values]:
    return lambda users: differences(*(a.call(measure, name, users) for name in (one, other)))


def t1(a: InterpretationRuns) -> Checks:
    """Check that PF has the most throughput and the least loss."""
    checks: list[Check | Fact] = []
    for other in OTHERS:
        low = geometric(_over(a, "useful_mbps", "PF", other), (25, 50))
        high = geometric(_over(a, "useful_mbps", "PF", other), LOADED)
        loss = mean(_less(a, "loss", "PF", other), LOADED)
        checks += [
            Check(f"throughput over {other}'s, 25 and 50 calls", low, 1 - SAME),
            Check(f"throughput over {other}'s, from 75 on", high, 1.0),
            Check(f"loss minus {other}'s, points, from 75 on", loss, 0.0, at_least=False),
        ]
    return tuple(checks)


def t2(a: InterpretationRuns) -> Checks:
    """Check delays at saturation."""

    def longest(name: str) -> Values:
        return most_of(a.ran.calls, a.interpretation, name, "delay_ms")

    return (
        *(Check(f"{name}, maximum mean delay, ms", longest(name), LONG_MS) for name in ("RR", "DT_H")),
        *(
            Check(f"{name}, maximum mean delay, ms", longest(name), ACCEPTABLE_MS, at_least=False)
            for name in ("PF", "DT_S")
        ),
    )


def t3(a: InterpretationRuns) -> Checks:
    """Check that PF's jitter is high, and that CoDeS lowers it and delay, not the loss, and raises the MOS."""
    high = [
        Check(f"PF's jitter over {other}'s, from 100 calls on",
              geometric(_over(a, "jitter_ms", "PF", other), SATURATED), 1.0)
        for other in OTHERS
    ]  # fmt: skip
    return (*high, *v8(a), *v10(a))


def t4(a: InterpretationRuns) -> Checks:
    """Check that drops change their cause."""

    def dropped(name: str, *causes: str) -> Values:
        found = [mean(lambda n, cause=cause: a.call(cause, name, n), LOADED) for cause in causes]  # type: ignore[misc]
        return tuple(map(sum, zip(*found, strict=True))) if all(found) else ()

    both = [dropped(name, "no_room", "timed_out", "not_decoded") for name in ("CoDeS", "PF")]
    timed = ratios(dropped("CoDeS", "timed_out"), dropped("CoDeS", "no_room", "timed_out"))
    room = ratios(dropped("PF", "no_room"), dropped("PF", "no_room", "timed_out"))
    return (
        Check("all drops, CoDeS over PF, from 75 calls on", ratios(*both), NOT_MORE, at_least=False),
        Check("share of timeouts among CoDeS's drops before the link", timed, 0.5),
        Check("share of overflows among PF's drops", room, 0.5),
    )


def v5(a: InterpretationRuns) -> Checks:
    """Check that at 75 calls drop-tail decodes more at first, PF more in all."""
    checks: list[Check | Fact] = []
    for other in ("DT_S", "DT_H"):
        first = _less(a, "decoded_0", other, "PF")(75)
        lost = _less(a, "given_up", "PF", other)(75)
        checks += [
            Check(f"{other} minus PF, decoded at first attempt, points", first, 0.0),
            Check(f"PF minus {other}, retry-limit drops, points", lost, 0.0, at_least=False),
        ]
    return tuple(checks)


def v6(a: InterpretationRuns) -> Checks:
    """Check that PF has no advantage with few calls."""
    return tuple(
        Check(f"PF minus {other}, decoded at first attempt, points, 25 calls", _less(a, "decoded_0", "PF", other)(25),
              NO_ADVANTAGE, at_least=False)
        for other in OTHERS
    )  # fmt: skip


def v7(a: InterpretationRuns) -> Checks:
    """Check PF's MOS."""
    checks: list[Check | Fact] = [
        Check(f"PF minus {other}, MOS, 25 to 75 calls", mean(_less(a, "mos", "PF", other), (25, 50, 75)), 0.0)
        for other in OTHERS
    ]
    return (*checks, Check("PF's MOS, 75 calls", a.call("mos", "PF", 75), 3.0))


def v8(a: InterpretationRuns) -> Checks:
    """Check CoDeS against PF."""
    return (
        Check("CoDeS over PF, delay, from 75 calls on", geometric(_over(a, "delay_ms", "CoDeS", "PF"), LOADED), 1.0,
              at_least=False),
        Check("jitter", geometric(_over(a, "jitter_ms", "CoDeS", "PF"), LOADED), 1.0, at_least=False),
        Check("additional loss, points", mean(_less(a, "loss", "CoDeS", "PF"), LOADED), SAME_POINTS, at_least=False),
        Check("throughput", geometric(_over(a, "useful_mbps", "CoDeS", "PF"), LOADED), 1 - 2 * SAME),
    )  # fmt: skip


def v9(a: InterpretationRuns) -> Checks:
    """Check CoDeS at 50 ms."""
    jitter = geometric(_over(a, "jitter_ms", "CoDeS, 50 ms", "CoDeS"), LOADED)
    small = geometric(_over(a, "jitter_ms", "CoDeS, 50 ms", "DT_S"), LOADED)
    loss = mean(_less(a, "loss", "CoDeS, 25 ms", "CoDeS, 50 ms"), LOADED)
    return (
        Check("jitter, 50 over 100 ms, from 75 calls on", jitter, 1.0, at_least=False),
        Check("jitter, 50 ms over DT_S", small, NOT_MORE, at_least=False),
        Check("loss, 25 minus 50 ms, points", loss, 0.0),
    )


def v10(a: InterpretationRuns) -> Checks:
    """Check CoDeS's MOS."""
    return (
        Check("CoDeS minus PF, MOS, from 75 calls on", mean(_less(a, "mos", "CoDeS", "PF"), LOADED), 0.0),
    )


def v11(a: InterpretationRuns) -> Checks:
    """Check that CoDeS leaves losses and HARQ as they are."""
    first = mean(_less(a, "decoded_0", "CoDeS", "PF"), LOADED)
    loss = mean(_less(a, "loss", "CoDeS", "PF"), LOADED)
    return (
        Check(
            "CoDeS minus PF, decoded at first attempt, points, from 75 calls on, at least",
            first,
            -NO_ADVANTAGE,
        ),
        Check("at most", first, NO_ADVANTAGE, at_least=False),
        Check("loss, points, at least", loss, -SAME_POINTS),
        Check("loss, at most", loss, SAME_POINTS, at_least=False),
    )


def v12(a: InterpretationRuns) -> Checks:
    """Check that delay falls from 100 to 50 ms, and that below neither delay nor jitter does."""
    return (
        Check("delay, 50 over 100 ms, from 75 calls on",
              geometric(_over(a, "delay_ms", "CoDeS, 50 ms", "CoDeS"), LOADED), 1.0, at_least=False),
        *(
            Check(f"{text}, 25 over 50 ms", geometric(_over(a, measure, "CoDeS, 25 ms", "CoDeS, 50 ms"), LOADED),
                  1 / NOT_MORE)
            for text, measure in (("delay", "delay_ms"), ("jitter", "jitter_ms"))
        ),
    )  # fmt: skip


def limits(a: InterpretationRuns) -> Checks:
    """Check that the link is full between 75 and 100 calls, a bit later with PF."""
    checks: list[Check | Fact] = []
    for name in ("RR", "DT_H", "PF"):
        checks.append(Check(f"{name}, loss of 75 calls, %", a.call("loss", name, 75), LOSS, at_least=False))
        checks.append(Check(f"{name}, loss of 125 calls, %", a.call("loss", name, 125), LOSS))
    for name in ("RR", "DT_H"):
        later = ratios(*(carried(a.ran.calls, a.interpretation, one) for one in ("PF", name)))
        checks.append(Check(f"calls with 3 % of loss, PF over {name}", later, 1.0))
    return tuple(checks)


def spectral(a: InterpretationRuns) -> Checks:
    """Check that other policies do not reach 5 Mb/s, and that PF does better."""
    return tuple(
        Check(f"{name}, maximum useful load, Mb/s", most_of(a.ran.calls, a.interpretation, name, "useful_mbps"), 5.0,
              at_least=False)
        for name in OTHERS
    )  # fmt: skip


def q2(a: InterpretationRuns) -> Checks:
    """Check that best-channel-first carries most; only for a point, since there are no queues with a size."""
    if str(a.interpretation) != a.interpretation.snr:
        return ()
    checks = []
    for users in (10, 100):
        best = a.bound("packets_s", "best first", users)
        checks += [
            Check(f"packets, best channel first over random order, {users} users",
                  ratios(best, a.bound("packets_s", "at random", users)), 1.0),
            Check(f"best channel first over one user, {users} users",
                  ratios(best, a.bound("packets_s", "best first", 1)), 1.0),
        ]  # fmt: skip
    return tuple(checks)


def q3(a: InterpretationRuns) -> Checks:
    """Check the duration for which the best channel stays best; only for a point."""
    if str(a.interpretation) != a.interpretation.snr:
        return ()
    return tuple(
        Check(
            f"best-channel duration of {users} users, ms",
            a.bound("best_ms", "best first", users),
            KNOWN_AFTER_MS,
        )
        for users in (10, 100)
    )


def q4(a: InterpretationRuns) -> Checks:
    """Check PF and CoDeS with 200 calls against the bound: packets a second of airtime at equal airtime of a packet."""
    if a.interpretation.point != a.interpretation.snr:
        return ()
    checks: list[Check | Fact] = []
    most = ratios(*(a.bound(measure, "best first", 200) for measure in ("packets_s", "air")))
    for name in ("PF", "CoDeS"):
        found = ratios(*(a.call(measure, name, 200) for measure in ("packets_s", "air")))
        checks.append(
            Check(f"{name}, 200 calls, over best channel first of 200", ratios(found, most), ALMOST)
        )
    return tuple(checks)


CLAIMS: dict[str, tuple[str, str, Callable[[InterpretationRuns], Checks], bool]] = {
    "channel_claims.q2": ("", "ratios of packets decoded ≥ 1", q2, False),
    "channel_claims.q3": ("", "mean best-channel duration ≥ 10 ms", q3, False),
    "channel_claims.q4": ("", "packets decoded while the link is busy, at least 9/10", q4, False),
    "voip.trends.t1": ("", "throughput within 1 % or above, loss below, means over calls", t1, False),
    "voip.trends.t2": ("", "maximum mean delays of calls", t2, False),
    "voip.trends.t3": ("", "ratios and differences, means from 75 or 100 calls on", t3, False),
    "voip.trends.t4": ("", "at most 10 % more drops of all causes; half of those in the queue", t4, False),
    "voip_more.v5": ("", "differences in points", v5, False),
    "voip_more.v6": ("", "at most 2 points", v6, False),
    "voip_more.v7": ("", "differences of MOS (G.107, G.711, adaptive play-out, A = 20)", v7, False),
    "voip_more.v8": ("", "ratios; loss within a point", v8, False),
    "voip_more.v9": ("", "ratios, and loss in points", v9, False),
    "voip_more.v10": ("", "difference of MOS", v10, False),
    "voip_more.v11": ("", "decoded at first attempt within 2 points, loss within 1 point", v11, False),
    "voip_more.v12": ("", "ratios; 25 ms at least 0.91 of 50 ms", v12, False),
    "voip.saturation_users": ("the link is full between 75 and 100 calls, a little later with PF (p. 99-100)",
                              "loss at most 3 % at 75 calls, more at 125; 3 % later with PF", limits, False),
    "voip.spectral": ("other policies than PF cannot have 5 Mb/s of useful load (figure 6.9)",
                      "maximum useful load ≤ 5 Mb/s", spectral, False),
}  # fmt: skip
"""As :data:`bentpipe_studies.tauran_2018.chapter_6.tcp_claims.CLAIMS`."""
