"""Boxes, distributions, orders and tests of samples, against other ways to compute them and published examples."""

from __future__ import annotations

import itertools
import math
import random
from statistics import fmean, median, variance

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from bentpipe.metrics.intervals import ConfidenceInterval, median_ci
from bentpipe.metrics.samples import (
    autocorrelation,
    compare_times,
    disjoint_intervals,
    ecdf,
    mean_ratio,
    median_ratio,
    notched_box,
    stochastic_dominance,
    welch,
)


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - reproducible draws


def _draws(seed: int, n: int, shift: float = 0.0) -> list[float]:
    """Times with a long tail, some of them equal."""
    chance = _chance(seed)
    return [round(1 + shift + chance.lognormvariate(0, 0.5), 2) for _ in range(n)]


TIMES = st.lists(st.integers(1, 400).map(lambda hundredths: hundredths / 100), min_size=1, max_size=50)
"""Times of page loads, some of them equal."""


@given(TIMES)
def test_a_distribution_is_that_of_scipy(values: list[float]) -> None:
    own, theirs = ecdf(values), stats.ecdf(values).cdf
    assert list(own.values) == theirs.quantiles.tolist()
    assert [own(x) for x in own.values] == pytest.approx(theirs.probabilities.tolist())
    assert own(min(values) - 1e-9) == 0
    assert own(max(values) + 1) == 1


def test_no_values_have_no_distribution() -> None:
    with pytest.raises(ValueError, match="no values"):
        ecdf([])


def test_a_distribution_counts_equal_values_together() -> None:
    found = ecdf([2.0, 1.0, 2.0, 4.0])
    assert (found.values, found.counts, found.n) == ((1.0, 2.0, 4.0), (1, 3, 4), 4)
    assert found(2.0) == 0.75
    assert found(3.9) == 0.75


@given(TIMES)
def test_a_box_is_that_of_numpy(values: list[float]) -> None:
    box = notched_box(values)
    five = [box.low, box.quartile_1, box.median, box.quartile_3, box.high]
    assert five == pytest.approx(numpy.percentile(values, [0, 25, 50, 75, 100]).tolist())
    assert (box.notch_low is None) == (len(values) < 6)


def test_a_box_by_hand() -> None:
    """Nine values: ranks 3, 5 and 7 are the quartiles, 2 and 8 the notch (Le Boudec, table A.1)."""
    box = notched_box([9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0])
    assert (box.low, box.quartile_1, box.median, box.quartile_3, box.high) == (1, 3, 5, 7, 9)
    assert (box.notch_low, box.notch_high) == (2, 8)
    assert notched_box([3.0]).quartile_1 == 3


def test_the_notch_of_forty_units() -> None:
    """With the 40 units of the study the notch runs from the 14th to the 27th value (Le Boudec, table A.1)."""
    box = notched_box([float(i) for i in range(1, 41)])
    assert (box.notch_low, box.notch_high) == (14, 27)


def test_disjoint_intervals() -> None:
    fast, slow = [3.0 + i / 100 for i in range(40)], [6.0 + i / 100 for i in range(40)]
    assert disjoint_intervals(fast, slow).smaller == "first"
    assert disjoint_intervals(slow, fast).smaller == "second"
    found = disjoint_intervals(fast, [value + 0.13 for value in fast])
    assert found.smaller == "none", "the 27th value of one is the 14th of the other: they touch"
    assert found.reason == "the median intervals 3.13 to 3.26 and 3.26 to 3.39 meet"
    assert disjoint_intervals(fast, [value + 0.131 for value in fast]).smaller == "first"
    assert "5 values are too few" in disjoint_intervals(fast[:5], slow).reason


def test_dominance_by_hand() -> None:
    order = stochastic_dominance([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    assert (order.smaller, order.ahead) == ("first", (pytest.approx(1 / 3), 0.0))
    assert stochastic_dominance([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]).smaller == "second"
    crossing = stochastic_dominance([1.0, 9.0], [2.0, 3.0])
    assert crossing.smaller == "none"
    assert crossing.reason == (
        "the distributions cross: the first is ahead by up to 50 % at 1, the second by up to 50 % at 3"
    )
    assert (
        stochastic_dominance([1.0, 2.0], [2.0, 1.0, 1.0, 2.0]).reason == "the two distributions are the same"
    )


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(-2, 6)), min_size=1, max_size=12))
def test_dominance_is_an_order_of_sorted_values(drawn: list[tuple[int, int]]) -> None:
    """For samples of one size, F1 >= F2 everywhere means x(i) <= y(i) at every rank; leads are Kolmogorov and Smirnov's."""
    first, second = [float(value) for value, _ in drawn], [float(value + more) for value, more in drawn]
    pairs = list(zip(sorted(first), sorted(second), strict=True))
    below, above = all(x <= y for x, y in pairs), all(x >= y for x, y in pairs)
    expected = "none" if below == above else "first" if below else "second"
    order = stochastic_dominance(first, second)
    assert order.smaller == expected
    turned = {"first": "second", "second": "first", "none": "none"}
    assert stochastic_dominance(second, first).smaller == turned[expected]
    leads = [stats.ks_2samp(first, second, alternative=way).statistic for way in ("greater", "less")]
    assert order.ahead == pytest.approx(leads)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_dominance_by_chance(n: int) -> None:
    """2 in n + 1 of all ways to mix two samples of n values are ordered: twice a Catalan number (ballot theorem)."""
    places = range(2 * n)
    mixes = list(itertools.combinations(places, n))
    ordered = sum(
        stochastic_dominance(list(map(float, mine)), [float(x) for x in places if x not in mine]).smaller
        != "none"
        for mine in mixes
    )
    assert ordered / len(mixes) == pytest.approx(2 / (n + 1))


def test_welch_by_its_formulas() -> None:
    one, two = _draws(3, 12), _draws(4, 31, 0.4)
    a, b = variance(one) / len(one), variance(two) / len(two)
    t = (fmean(one) - fmean(two)) / math.sqrt(a + b)
    degrees = (a + b) ** 2 / (a**2 / 11 + b**2 / 30)
    found = welch(one, two)
    assert found is not None
    assert (found.t, found.degrees) == (pytest.approx(t), pytest.approx(degrees))
    # A two-sided p of Student's t by the incomplete beta function.
    assert found.p == pytest.approx(special.betainc(degrees / 2, 0.5, degrees / (degrees + t * t)))
    assert found.difference == pytest.approx(fmean(one) - fmean(two))
    assert (found.low < 0 < found.high) == (found.p > 0.05)


def test_welch_of_a_published_example() -> None:
    """Student's sleep data (Biometrika 6, 1908), as R's ``t.test`` prints it: t = -1.8608, df = 17.776, p = 0.07939."""
    drug_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    drug_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = welch(drug_1, drug_2)
    assert found is not None
    assert (round(found.t, 4), round(found.degrees, 3), round(found.p, 5)) == (-1.8608, 17.776, 0.07939)
    assert (round(found.low, 4), round(found.high, 4)) == (-3.3655, 0.2055)


def test_welch_has_nothing_to_say_without_spread() -> None:
    assert welch([1.0], [1.0, 2.0]) is None
    assert welch([1.0, 1.0], [2.0, 2.0]) is None
    assert welch([1.0, 1.0, 1.0], [2.0, 2.5, 3.0]) is not None


def test_autocorrelation_is_that_of_numpy() -> None:
    values = _draws(7, 40)
    found = autocorrelation(values)
    assert found is not None
    parts = numpy.asarray(values) - numpy.mean(values)
    full = numpy.correlate(parts, parts, "full")[39:]
    assert found.lags == 10
    assert found.coefficients == pytest.approx((full[1:11] / full[0]).tolist())
    assert found.zone == pytest.approx(1.96 / math.sqrt(40), abs=1e-5)
    assert found.chance == pytest.approx(stats.binom.sf(found.outside - 1, 10, 0.05))
    assert found.expected == pytest.approx(0.5)


def test_autocorrelation_by_hand() -> None:
    """Alternating values: r(k) = (-1)^k (n - k) / n."""
    found = autocorrelation([1.0, -1.0] * 20)
    assert found is not None
    assert found.coefficients == pytest.approx([(-1) ** k * (40 - k) / 40 for k in range(1, 11)])
    assert not found.independent
    assert found.outside == 10
    assert "-0.97 at lag 1 is far outside" in found.reason


def test_autocorrelation_has_limits() -> None:
    long = autocorrelation(_draws(2, 400))
    assert long is not None
    assert long.lags == 40
    assert autocorrelation([1.0] * 40) is None
    assert autocorrelation([1.0, 2.0, 3.0]) is None
    with pytest.raises(ValueError, match="lags"):
        autocorrelation([1.0, 2.0, 3.0], lags=3)


def test_the_verdict_on_independence_is_rarely_wrong() -> None:
    """About 5 % of independent samples are rejected, and most samples with a long memory."""
    chance = _chance(11)

    def sample(memory: float) -> list[float]:
        values, last = [], 0.0
        for _ in range(40):
            last = memory * last + chance.gauss(0, 1)
            values.append(last)
        return values

    def accused(memory: float) -> float:
        found = [autocorrelation(sample(memory)) for _ in range(600)]
        return fmean(not one.independent for one in found if one is not None)

    assert accused(0.0) < 0.07
    assert accused(0.7) > 0.75


def test_a_ratio_of_pairs() -> None:
    below = _draws(5, 40)
    exact = median_ratio([2 * value for value in below], below)
    assert (exact.estimate, exact.low, exact.high, exact.n) == (2, 2, 2, 40)
    above = [value * factor for value, factor in zip(below, _draws(6, 40), strict=True)]
    found = median_ratio(above, below)
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    assert found.estimate == pytest.approx(median(ratios))
    assert found == median_ratio(above, below), "the resampling is seeded"
    # Another interval of the same median, without resampling.
    exact = median_ci(ratios)
    assert found.low == pytest.approx(exact.low, rel=0.05)
    assert found.high == pytest.approx(exact.high, rel=0.05)


def test_an_interval_of_a_ratio_covers_it() -> None:
    """95 % of intervals hold the true ratio, 2; 150 of them, so between 90 % and 99 %."""
    chance, hits = _chance(13), 0
    for _ in range(150):
        below = [chance.lognormvariate(0, 0.3) for _ in range(25)]
        above = [2 * chance.lognormvariate(0, 0.3) for _ in range(25)]
        found = median_ratio(above, below, resamples=400)
        hits += (found.low or 0) <= 2 <= (found.high or 0)
    assert 0.90 <= hits / 150 <= 0.99


def test_a_ratio_needs_values() -> None:
    assert median_ratio([3.0], [2.0]).low is None
    with pytest.raises(ValueError, match="pairs are needed, not 2 and 1"):
        median_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="above 0"):
        median_ratio([1.0, 2.0], [1.0, 0.0])


def test_mean_ratio_is_students_interval_of_log_ratios() -> None:
    """By SciPy: a paired t of logarithms; unpaired Welch's."""
    one, two = _draws(11, 9), _draws(12, 9, 0.3)
    logs = [[math.log(value) for value in values] for values in (one, two)]
    for paired, test in ((True, stats.ttest_rel(*logs)), (False, stats.ttest_ind(*logs, equal_var=False))):
        found = mean_ratio(one, two, paired=paired)
        ends = test.confidence_interval(0.95)
        assert found.estimate == pytest.approx(math.exp(fmean(logs[0]) - fmean(logs[1])))
        assert (found.low, found.high) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    swapped = mean_ratio(two, one, paired=True)
    assert swapped.low == pytest.approx(1 / mean_ratio(one, two, paired=True).high)  # type: ignore[operator]
    assert mean_ratio([2.0], [1.0], paired=True) == ConfidenceInterval(pytest.approx(2.0), None, None, 1)
    for wrong in (([], [1.0]), ([1.0, 2.0], [1.0]), ([1.0], [0.0])):
        with pytest.raises(ValueError, match=r"pairs are|above 0"):
            mean_ratio(*wrong, paired=True)


@pytest.mark.parametrize(("arms", "seeds"), [(2, 5), (2, 10), (3, 5), (3, 10), (5, 10)])
def test_equal_variants_are_seldom_distinguished(arms: int, seeds: int) -> None:
    """One of several equally fast variants is faster than all others in at most 5 % of the stores. The bound of the
    test is 6.2 %, with the uncertainty of 600 draws: three standard deviations are 2.7 points."""
    chance, wins = _chance(arms * 100 + seeds), 0
    for _ in range(600):
        samples = [[math.exp(chance.gauss(0, 0.4)) for _ in range(seeds)] for _ in range(arms)]
        faster = [
            all(
                compare_times(one, two, paired=True).smaller == "first"
                for other, two in enumerate(samples)
                if other != arm
            )
            for arm, one in enumerate(samples)
        ]
        wins += any(faster)
    assert wins / 600 <= 0.05 + 0.027


def test_differences_of_two_samples() -> None:
    """Dominance alone names none; loads that did not finish are the slow ones."""
    few, more = [1.0, 1.1, 1.2], [1.05, 1.15, 1.9]
    assert stochastic_dominance(few, more).smaller == "first"
    found = compare_times(few, more, paired=True)
    assert (found.smaller, found.by) == ("none", ())
    clear = compare_times([1.0, 1.1, 1.2], [2.0, 2.3, 2.4], paired=True)
    assert (clear.smaller, clear.by) == ("first", ("ratio", "dominance"))
    swapped = compare_times([2.0, 2.3, 2.4], [1.0, 1.1, 1.2], paired=True)
    assert (swapped.smaller, swapped.by) == ("second", ("ratio", "dominance"))
    lost = compare_times([1.0, 1.1, 1.2], [2.0, 2.3, 2.4], paired=True, finished=(0.6, 1.0))
    assert (lost.smaller, lost.unfinished) == ("none", True)
    assert lost.reason.startswith("of the loads 60 % and 100 % finished; ")
    assert compare_times([1.0, 1.1], [2.0, 2.3], paired=True, finished=(1.0, 0.6)).smaller == "first"
    assert compare_times([3.0, 3.0], [3.0, 3.0], paired=True).smaller == "none"


def test_orders_of_many_values_end() -> None:
    """A hundred thousand loads took minutes and gigabytes as fractions, with a bootstrap of every pair."""
    many = [1 + (place * 7919 % 100_003) / 100_003 for place in range(100_000)]
    slower = [1.01 * value for value in many]
    assert compare_times(many, slower, paired=False).by == ("ratio", "intervals (P1)", "dominance")
