"""Orders of samples, start-up and models of the page studies: known answers, and criteria that can fail."""

from __future__ import annotations

import math

import pytest

from bentpipe.metrics.verdicts import Claim, Fact, Verdict
from bentpipe_studies.page_loads import EXPECTED_S, opinion, reached_s, slow_start_s
from bentpipe_studies.thomas_2019 import orderings as compare
from bentpipe_studies.thomas_2019.claims import two_valued

FAST = tuple(4.0 + 0.01 * i for i in range(40))
SLOW = tuple(8.0 + 0.05 * (i % 9) for i in range(40))


def test_the_model_of_slow_start_is_the_report_s() -> None:
    # 25 Mb/s, 750 ms, 32 x 1460 B: log2(1171875 / 46720) x 0.75 s one way, a round trip more for twice the BDP
    assert slow_start_s(25e6, 0.75, 32 * 1460, one_way=True) == pytest.approx(3.486, abs=1e-3)
    assert slow_start_s(25e6, 0.75, 32 * 1460, one_way=False) == pytest.approx(4.236, abs=1e-3)
    assert slow_start_s(5e6, 0.08, 32 * 1460, one_way=True) == 0.0


def test_the_rate_is_reached_when_the_next_round_trip_is_full() -> None:
    # 1 Mb/s after 2 s, half of it before; samples every 0.1 s; window 0.5 s
    times = [i / 10 for i in range(101)]
    counts = [t * 62_500 if t <= 2 else 125_000 + (t - 2) * 125_000 for t in times]
    found = reached_s(times, counts, 0.0, 10.0, 1e6, 0.5)
    assert found == pytest.approx(1.9, abs=1e-9)  # 0.1 s at the half and 0.4 s at the full rate are 90 %
    assert reached_s(times, counts, 0.0, 1.9, 1e6, 0.5) is None
    assert reached_s(times, counts, 3.0, 10.0, 1e6, 0.5) == pytest.approx(0.0, abs=1e-9)


def test_a_burst_at_the_full_rate_is_not_the_rate() -> None:
    # 0.1 s at 1 Mb/s in each second
    times = [i / 100 for i in range(501)]
    counts = [12_500 * math.floor(t) + 125_000 * min(t - math.floor(t), 0.1) for t in times]
    assert reached_s(times, counts, 0.0, 5.0, 1e6, 1.0) is None


def test_order_p1() -> None:
    assert compare.ordered("", FAST, SLOW).verdict is Verdict.AGREES
    assert compare.ordered("", SLOW, FAST).verdict is Verdict.DIFFERS
    assert compare.ordered("", FAST, FAST).verdict is Verdict.UNDECIDED
    assert compare.ordered("", FAST[:3], SLOW[:3]).verdict is Verdict.UNDECIDED  # too few for an interval
    assert compare.ordered("", (), SLOW).verdict is Verdict.NOT_RUN
    assert compare.overlapping("", FAST, FAST).verdict is Verdict.AGREES
    assert compare.overlapping("", FAST, SLOW).verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.5, 2.5, Verdict.AGREES), (2.2, 3.0, Verdict.DIFFERS), (1.96, 2.5, Verdict.UNDECIDED)],
)
def test_a_ratio_of_medians(low: float, high: float, verdict: Verdict) -> None:
    found = compare.ratio("", SLOW, FAST, low, high)
    assert found.verdict is verdict
    assert found.estimate == pytest.approx(1.96, abs=0.03)


def test_a_gap_is_paired() -> None:
    later = tuple(a + 0.09 for a in FAST)
    assert compare.gap("", later, FAST, 70, 110).verdict is Verdict.AGREES
    assert compare.gap("", later, FAST, 100, 110).verdict is Verdict.DIFFERS
    assert compare.gap("", later[:-1], FAST, 70, 110).verdict is Verdict.NOT_RUN


def test_dominance_and_welch() -> None:
    assert compare.undominated("", FAST, SLOW).verdict is Verdict.DIFFERS
    crossing = (3.0, *FAST[1:-1], 9.0)
    assert compare.undominated("", FAST, crossing).verdict is Verdict.AGREES
    assert compare.same("", FAST, FAST).verdict is Verdict.AGREES
    assert compare.same("", FAST, SLOW).verdict is Verdict.DIFFERS


def test_two_values() -> None:
    wide, below = two_valued([1.5, 1.51, 1.52, 2.2, 2.21, 2.22])
    assert wide == pytest.approx(0.68)
    assert below == pytest.approx(0.5)


def test_a_claim_of_facts() -> None:
    fact = Fact("", "1", "2", Verdict.AGREES, 1.0, 0.5, 1.5)
    assert fact.interval is not None
    assert fact.interval.low == 0.5
    assert Claim("x", "", "", "", (fact, Fact("", "", "", Verdict.UNDECIDED))).verdict is Verdict.UNDECIDED


def test_opinion_scores_are_those_of_the_model_s_table() -> None:
    table = {1.5: (2.47, 3.04, 3.78), 4.1: (1.40, 2.15, 3.03), 9.3: (1.0, 1.42, 2.41)}
    for plt, row in table.items():
        assert [opinion(plt, most) for most in EXPECTED_S.values()] == pytest.approx(row, abs=0.006)
