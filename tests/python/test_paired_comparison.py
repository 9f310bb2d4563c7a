"""Paired comparisons: test, correction and verdict, against SciPy, definitions and simulated nulls."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from bentpipe.metrics.change_table import format_effect
from bentpipe.metrics.compare import (
    Criteria,
    Draws,
    MetricChange,
    Pairs,
    Scale,
    compare_pairs,
    holm,
    paired_t,
)
from bentpipe.metrics.intervals import ConfidenceInterval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Values = np.typing.NDArray[np.float64]

TRIALS = 5000
MOST_FALSE = 0.065
"""Share of false positives of a null at 5 %. Its standard deviation over 5,000 trials is 0.3 points."""


def one(
    metric: str, before: Sequence[float | None], after: Sequence[float | None], **more: Any
) -> MetricChange:
    """The only comparison of a family."""
    (change,) = compare_pairs([Pairs(metric, before, after, **{"primary": True} | more)])
    return change


def random(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_the_test_is_students_of_pairs() -> None:
    rng = random(1)
    before, after = rng.lognormal(1, 0.4, (2, 50, 7))
    for scale, x, y in (
        (Scale.DIFFERENCE, before, after),
        (Scale.RATIO, np.log(before), np.log(after)),
    ):
        mean, error, p = paired_t(before, after, scale)
        wanted = stats.ttest_rel(y, x, axis=1)
        assert p == pytest.approx(wanted.pvalue)
        assert mean / error == pytest.approx(wanted.statistic)
        ends = wanted.confidence_interval(0.95)
        half = stats.t.ppf(0.975, 6) * error
        assert (mean - half, mean + half) == (pytest.approx(ends.low), pytest.approx(ends.high))
    change = one("goodput_bit_s", before[0].tolist(), after[0].tolist())
    low, high = stats.ttest_rel(np.log(after[0]), np.log(before[0])).confidence_interval(0.95)
    assert change.effect is not None
    assert (change.effect.low, change.effect.high) == pytest.approx((math.exp(low), math.exp(high)))


def closed(p: Sequence[float]) -> list[float]:
    """Adjusted p-values by the closure principle with Bonferroni's test of every intersection, which Holm's procedure
    is the short cut of (Marcus, Peritz and Gabriel 1976)."""
    subsets = [s for size in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), size)]
    return [
        max(min(1.0, len(s) * min(p[i] for i in s)) for s in subsets if index in s) for index in range(len(p))
    ]


def test_the_correction_is_the_closed_procedure_of_bonferroni() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    for size in (1, 2, 5, 8):
        for p in random(size).uniform(0, 0.3, (20, size)):
            assert holm(p.tolist()) == pytest.approx(closed(p.tolist()))


NULLS: dict[str, tuple[str, Callable[[np.random.Generator, tuple[int, ...]], Values]]] = {
    "normal": ("goodput_bit_s", lambda rng, shape: rng.normal(10, 1.5, shape)),
    "lognormal": ("goodput_bit_s", lambda rng, shape: rng.lognormal(0, 1, shape)),
    "Pareto": ("completion_mean_s", lambda rng, shape: 1 + rng.pareto(1.2, shape)),
    "count": ("deleted_bundles", lambda rng, shape: rng.poisson(4, shape).astype(float)),
    "delivered": ("delivered_bundles", lambda rng, shape: rng.poisson(4, shape).astype(float)),
    "share": ("finished_ratio", lambda rng, shape: rng.beta(8, 2, shape)),
}


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("null", NULLS)
def test_equal_builds_differ_in_5_percent_of_trials(null: str, n: int) -> None:
    """Each trial is a family of its own, of the size 1."""
    metric, draw = NULLS[null]
    before, after = draw(random(n), (2, TRIALS, n))
    criteria = Criteria(threshold=0)
    wrong = sum(
        change.verdict != "none"
        for x, y in zip(before.tolist(), after.tolist(), strict=True)
        for change in compare_pairs([Pairs(metric, x, y)], criteria=criteria)
    )
    assert wrong / TRIALS <= MOST_FALSE


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fewer_than_five_seeds_have_no_verdict(n: int) -> None:
    change = one("goodput_bit_s", [5.0, 5.1, 4.9, 5.0][:n], [2.5, 2.4, 2.6, 2.4][:n])
    assert (change.verdict, change.reason) == ("too few seeds", f"{n} of 5")
    assert change.effect is not None


def test_a_family_of_many_nulls_errs_in_5_percent() -> None:
    """Twenty cells of a sweep, 1,000 trials: at least one verdict in no more than 6.5 % of them."""
    before, after = random(3).normal(10, 1, (2, 1000, 20, 6))
    wrong = 0
    for x, y in zip(before, after, strict=True):
        pairs = [
            Pairs("goodput_bit_s", a, b, primary=True) for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        wrong += any(
            change.verdict != "none" for change in compare_pairs(pairs, criteria=Criteria(threshold=0))
        )
    assert wrong / 1000 <= MOST_FALSE


def test_half_the_goodput_in_one_of_ten_cells_is_found_at_five_seeds() -> None:
    """Seeds differ by 10 %, and both builds beside that by 5 % each, as BBR over GEO does (docs/validation.md)."""
    rng = random(4)
    trials, found, false = 400, 0, 0
    for _ in range(trials):
        seeds = rng.lognormal(0, 0.1, (10, 5))
        before, after = 5e6 * seeds * rng.lognormal(0, 0.05, (2, 10, 5))
        after[7] /= 2
        pairs = [
            Pairs("goodput_bit_s", x, y, {"cell": str(k)}, primary=True)
            for k, (x, y) in enumerate(zip(before.tolist(), after.tolist(), strict=True))
        ]
        verdicts = [change.verdict for change in compare_pairs(pairs)]
        found += verdicts[7] == "regression"
        false += any(verdict != "none" for k, verdict in enumerate(verdicts) if k != 7)
    assert found / trials > 0.99
    assert false / trials <= MOST_FALSE


def test_families_are_corrected_by_themselves() -> None:
    x = [5.0, 5.3, 4.9, 5.1, 5.2]
    worse = [0.93 * a + b for a, b in zip(x, (0.1, -0.1, 0.15, 0, -0.05), strict=True)]
    first = Pairs("goodput_bit_s", x, worse, primary=True)
    others = [Pairs("queueing_p95_ms", x, worse) for _ in range(30)]
    alone, together = compare_pairs([first])[0], compare_pairs([first, *others])
    assert alone.p == together[0].p_adjusted == alone.p_adjusted
    assert together[1].p_adjusted == pytest.approx(min(1, 30 * (together[1].p or 0)))


def test_draws_of_a_plan_distinguish_one_pair_and_equal_ones() -> None:
    single, many = ([4.0], [3.0]), ([4.0] * 5, [3.0] * 5)
    verdicts = {
        draws: (one("jain", *single, draws=draws).verdict, one("jain", *many, draws=draws).verdict)
        for draws in Draws
    }
    assert verdicts == {
        Draws.NOTHING: ("regression", "regression"),
        Draws.UNKNOWN: ("too few seeds", "regression"),
        Draws.RARELY: ("too few seeds", "regression"),
        Draws.SOMETHING: ("too few seeds", "equal differences"),
    }
    assert one("jain", [4.0], [4.0]).verdict == "none"
    assert one("goodput_bit_s", [4.0] * 5, [4.0] * 5).verdict == "none"
    assert one("goodput_bit_s", [4.0], [3.99], draws=Draws.NOTHING).verdict == "none", "below the threshold"


def test_a_run_that_delivers_nothing_is_a_regression() -> None:
    x = [5e6, 4e6, 6e6, 5e6, 5e6]
    for y, reason in (
        ([5e6, 0.0, 6e6, 5e6, 5e6], "1 of 5 runs deliver nothing"),
        ([0.0] * 5, "5 of 5 runs deliver nothing"),
    ):
        change = one("goodput_bit_s", x, y)
        assert (change.verdict, change.reason, change.seeds) == ("regression", reason, 5)
        assert change.scale is Scale.DIFFERENCE
    assert one("goodput_bit_s", [5e6], [0.0]).verdict == "regression", "of one seed too"
    assert one("goodput_bit_s", [0.0] * 5, x).verdict == "improvement"
    same = one("goodput_bit_s", [0.0, *x[1:]], [*x[:4], 0.0])
    assert same.verdict == "none", "one run of either side delivers nothing"
    queue = one("queueing_p95_ms", [0.0, 1, 2, 3, 2], [50.0, 60, 55, 52, 61])
    assert (queue.verdict, queue.seeds, queue.scale) == ("regression", 5, Scale.DIFFERENCE)


def test_values_that_one_side_lacks_never_make_it_better() -> None:
    x = [20.0, 21, 19, 20, 22, 30]
    y: list[float | None] = [10.0, 11, 9, 10, 12, None]
    change = one("bundle_delay_p50_s", x, y)
    assert (change.verdict, change.reason, change.seeds) == ("no value", "no value after in 1 of 6 runs", 5)
    assert one("bundle_delay_p50_s", y, x).verdict == "no value"
    slower: list[float | None] = [40.0, 42, 38, 41, 44, None]
    assert one("bundle_delay_p50_s", x, slower).verdict == "regression"
    gone = one("convergence_s", x, [None] * 6)
    assert (gone.verdict, gone.after, gone.effect) == ("no value", None, None)
    assert not compare_pairs([Pairs("convergence_s", [None], [None])])


def test_memory_is_that_of_the_values() -> None:
    """A bootstrap took 2,000 integers of Python a pair, 72 B each."""
    n = 5000
    x, y = random(9).normal(10, 1, (2, n)).tolist()
    one("goodput_bit_s", x[:5], y[:5])  # imports
    tracemalloc.start()
    one("goodput_bit_s", x, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2000 * n


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.999812, 0.999631, 0.999993), "0.99981 [0.99963, 0.99999] times"),
        ((0.9992, 0.99912, 0.99928), "0.9992 [0.9991, 0.9993] times"),
        ((0.847, 0.777, 0.922), "0.847 [0.777, 0.922] times"),
        ((1.0, 1.0, 1.0), "1 [1, 1] times"),
        ((1.3, None, None), "1.3 times"),
    ],
)
def test_digits_of_a_ratio_separate_its_ends_from_each_other_and_from_one(
    ends: tuple[float, float | None, float | None], text: str
) -> None:
    change = MetricChange(
        "goodput_bit_s", {}, "", "", 5, 1.0, 1.0, Scale.RATIO, ConfidenceInterval(*ends, 5), None, None,
        primary=True, verdict="none",
    )  # fmt: skip
    assert format_effect(change) == text
