"""Orders between two samples of times, by the rules of the publication, as facts with verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from bentpipe.metrics.format import format_interval
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant, median_ci
from bentpipe.metrics.samples import disjoint_intervals, median_ratio, stochastic_dominance, welch
from bentpipe.metrics.verdicts import Fact, Verdict

__all__ = ["NO_SAMPLE", "format_median", "gap", "ordered", "overlapping", "ratio", "same", "undominated"]

NO_SAMPLE = "–"
Times = Sequence[float]


def format_median(values: Times, digits: int = 4) -> str:
    """Return the median with its 95 % interval (Le Boudec, theorem 2.1) as text."""
    if not values:
        return NO_SAMPLE
    return format_interval(median_ci(values), digits=digits)


def _pair(
    text: str, one: Times, two: Times, needed: str
) -> Fact | tuple[ConfidenceInterval, ConfidenceInterval]:
    """Return both median intervals, or the fact that they are unknown."""
    if not one or not two:
        return Fact(text, NO_SAMPLE, needed, Verdict.NOT_RUN)
    first, second = median_ci(one), median_ci(two)
    if not first.known or not second.known:
        return Fact(text, f"{format_median(one)} and {format_median(two)}", needed, Verdict.UNDECIDED)
    return first, second


def ordered(text: str, faster: Times, slower: Times) -> Fact:
    """Judge order P1 of the report (section 5.1.1): one median interval lies below the other.

    It differs for the opposite order, and is undecided where the intervals overlap.
    """
    needed = "first interval below the second"
    pair = _pair(text, faster, slower, needed)
    if isinstance(pair, Fact):
        return pair
    order = disjoint_intervals(faster, slower).smaller
    verdicts = {"first": Verdict.AGREES, "second": Verdict.DIFFERS, "none": Verdict.UNDECIDED}
    verdict = verdicts[order]
    return Fact(text, f"{format_median(faster)} and {format_median(slower)}", needed, verdict)


def overlapping(text: str, one: Times, two: Times) -> Fact:
    """Judge that neither interval lies below the other: order P1 does not compare them."""
    needed = "overlapping intervals"
    pair = _pair(text, one, two, needed)
    if isinstance(pair, Fact):
        return pair
    verdict = Verdict.AGREES if disjoint_intervals(one, two).smaller == "none" else Verdict.DIFFERS
    return Fact(text, f"{format_median(one)} and {format_median(two)}", needed, verdict)


def _within(text: str, found: tuple[float, float, float], low: float, high: float, unit: str) -> Fact:
    """Judge an estimate: its interval lies inside a range, outside it, or across its edge."""
    estimate, least, most = found
    verdict = Verdict.AGREES if low <= least and most <= high else Verdict.UNDECIDED
    if most < low or least > high:
        verdict = Verdict.DIFFERS
    interval = f"[{format_significant(least, 3)}, {format_significant(most, 3)}]"
    text_found = f"{format_significant(estimate, 3)}{unit} {interval}"
    needed = f"{format_significant(low)} … {format_significant(high)}{unit}"
    return Fact(text, text_found, needed, verdict, estimate, least, most)


def ratio(text: str, numerators: Times, denominators: Times, low: float, high: float) -> Fact:
    """Judge the median of the ratios of paired times, with its bootstrap interval."""
    needed = f"{format_significant(low)} … {format_significant(high)}"
    if not numerators or len(numerators) != len(denominators):
        return Fact(text, NO_SAMPLE, needed, Verdict.NOT_RUN)
    found = median_ratio(numerators, denominators)
    if found.low is None or found.high is None:
        return Fact(text, format_significant(found.estimate, 3), needed, Verdict.UNDECIDED, found.estimate)
    return _within(text, (found.estimate, found.low, found.high), low, high, "")


def gap(text: str, later: Times, earlier: Times, low: float, high: float) -> Fact:
    """Judge the median difference of paired times, ms, with its interval."""
    needed = f"{format_significant(low)} … {format_significant(high)} ms"
    if not later or len(later) != len(earlier):
        return Fact(text, NO_SAMPLE, needed, Verdict.NOT_RUN)
    found = median_ci([(b - a) * 1e3 for a, b in zip(earlier, later, strict=True)])
    if found.low is None or found.high is None:
        return Fact(text, f"{format_significant(found.estimate, 3)} ms", needed, Verdict.UNDECIDED)
    return _within(text, (found.estimate, found.low, found.high), low, high, " ms")


def same(text: str, one: Times, two: Times) -> Fact:
    """Judge that Welch's test does not separate two means at 5 %; two equal values do not need it."""
    needed = "p ≥ 0.05"
    if len(one) < 2 or len(two) < 2:
        return Fact(text, NO_SAMPLE, needed, Verdict.NOT_RUN)
    found = welch(one, two)
    p = found.p if found is not None else float(set(one) == set(two))
    return Fact(
        text, f"p = {format_significant(p, 3)}", needed, Verdict.AGREES if p >= 0.05 else Verdict.DIFFERS
    )


def undominated(text: str, one: Times, two: Times) -> Fact:
    """Judge that neither empirical distribution lies wholly on one side of the other."""
    if not one or not two:
        return Fact(text, NO_SAMPLE, "neither", Verdict.NOT_RUN)
    found = stochastic_dominance(one, two)
    texts = {"first": "first dominates", "second": "second dominates", "none": "neither"}
    verdict = Verdict.AGREES if found.smaller == "none" else Verdict.DIFFERS
    return Fact(text, texts[found.smaller], "neither", verdict)
