"""What a store says in a sentence: who is ahead and by how much, no more than its seeds support.

Arms are the values of what colours would stand for: controllers, or another thing that is swept and is no number. In
each case (a value of everything else) the arm with the best mean is compared with every other one, seed by seed. It is
ahead where all its gains have 95 % intervals together above 0 (Student's t of the paired relative differences,
Bonferroni's correction for the number of the others). Loads of pages are judged as their table judges them, pair by
pair: an arm is ahead where it is the faster one of every pair that it is in. No more than 5 % of stores of equal arms
have one, because it must win several tests at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.figures.page_load_samples import PageLoads, Sample, compare_samples
from bentpipe.figures.sweep_dimensions import Dimension, of_kind
from bentpipe.metrics.compare import IMPROVEMENT_SIGN, OF_PAGES
from bentpipe.metrics.compute import completion_times
from bentpipe.metrics.format import format_interval, format_mean
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.intervals import (
    CONFIDENCE,
    ConfidenceInterval,
    format_significant,
    mean_ci,
    median_ci,
    t_quantile,
)
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.metrics.samples import Comparison
from bentpipe.report.headline import NO_INTERVAL, join_names

if TYPE_CHECKING:
    from bentpipe.figures.context import FigureContext

__all__ = ["findings"]


@dataclass(frozen=True)
class _Contest:
    """Numbers to be compared: a row a seed, arm and case, with ``value``."""

    metric: Metric
    better: int
    frame: pl.DataFrame
    arms: Mapping[str, str]
    """What each arm is called; empty where nothing is compared."""
    cases: tuple[str, ...] = ()
    """Columns whose values make a case."""
    words: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """What a case is called, by its row."""
    whose: str = ""
    judged: Sequence[_Case] | None = None
    """Where they are judged already: the cases that have several arms."""
    medians: bool = False
    """Whether numbers are medians over seeds, as in the table below, not means."""


@dataclass(frozen=True)
class _Case:
    """The best arm of a case: its mean, what it gains on the next one, relative to that, and whether it is ahead."""

    best: str
    value: ConfidenceInterval
    next: str
    gain: ConfidenceInterval
    ahead: bool
    unfinished: bool = False
    """Whether it is not ahead because a smaller part of its loads finished."""


def findings(material: FigureContext) -> str:
    """The one or two findings of a store, as sentences."""
    return " ".join(f"{_said(one)}." for one in _contests(material)) or "No flow has sent anything."


def _contests(material: FigureContext) -> list[_Contest]:
    if material.pages.height:
        return [_of_pages(material)]
    if material.calls.height:
        frame = as_groups(material.calls, material.summary).with_columns(value=pl.col("mos").cast(pl.Float64))
        return [_of_flows(material, frame, METRICS["mos"], 1)]
    frame = material.metrics
    if not frame.height:
        return []
    if material.shared and frame["jain"].null_count() < frame.height:
        return [_of_runs(material), *_shares_of_first(material)]
    median = _median_completion(material, frame)
    if median["value"].null_count() == 0:
        return [
            _of_flows(material, median, METRICS["completion_p50_s"], IMPROVEMENT_SIGN["completion_p50_s"])
        ]
    goodput = frame.with_columns(value=pl.col("goodput_bit_s"))
    return [_of_flows(material, goodput, METRICS["goodput_bit_s"], IMPROVEMENT_SIGN["goodput_bit_s"])]


def _median_completion(material: FigureContext, frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with the median completion time of each flow in ``value``, s.

    Transfers that did not finish count as longer than all others, so that nobody gains by leaving them unfinished. The
    value is null where half of the transfers did not finish.
    """
    store = material.store
    times = as_groups(completion_times(store.rows("streams")), store.rows("summary", ["flow"]))
    median = pl.col("completion_s").fill_null(math.inf).quantile(0.5, "linear")
    values = times.group_by("run", "flow").agg(value=median)
    values = values.with_columns(value=pl.when(pl.col("value").is_finite()).then("value"))
    return frame.join(values, on=["run", "flow"], how="left", maintain_order="left")


def _of_pages(material: FigureContext) -> _Contest:
    """Loads that finished; each load of a unit is a case of its own."""
    pages = PageLoads(material)
    metric = METRICS["plt_s"]
    amounts = pages.arm_dim is not None and pages.arm_dim.is_quantity
    arms = {arm: arm for arm in pages.arms} if len(pages.arms) > 1 and not amounts else {}
    dims = material.dims if amounts else tuple(pages.cell_dims)
    loads = len(pages.loads) > 1
    flows = pages.many and not arms
    cases = (
        *(key for dim in dims for key in dim.keys),
        *((pages.who,) if flows else ()),
        *(("load",) if loads else ()),
    )
    frame = _of_seeds(pages.rows.with_columns(value=pl.col(metric.name)), cases)
    judged = _faster(pages) if arms else None
    words = _words(material, dims, who=pages.who if flows else "", loads=loads)
    return _Contest(metric, OF_PAGES[metric.name], frame, arms, cases, words, judged=judged, medians=True)


def _of_seeds(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """One value a seed: what shares a run is no independent sample."""
    keys = list(dict.fromkeys([*by, "seed"]))
    known = frame.drop_nulls("value")
    return known.group_by(keys, maintain_order=True).agg(pl.col("value").mean())


def _faster(pages: PageLoads) -> list[_Case]:
    """The cases of page load times, by the pairs of their arms."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in pages.samples("plt_s"):
        if sample.values:
            groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    return [_fastest(group) for group in groups.values() if len(group) > 1]


def _fastest(group: Sequence[Sample]) -> _Case:
    """The arm that is faster than every other one; where there is none, the one of the least geometric mean."""
    pairs = [(one, two, compare_samples(one, two)) for one, two in combinations(group, 2)]
    winners = [{"first": one, "second": two, "none": None}[found.smaller] for one, two, found in pairs]
    ahead = next((one for one in group if sum(won is one for won in winners) == len(group) - 1), None)
    best = ahead or min(group, key=lambda one: geometric_mean(one.by_seed.values()))
    gains = [
        (two, _gain(best, two, found)) if one is best else (one, _gain(best, one, found, best_is_first=False))
        for (one, two, found), won in zip(pairs, winners, strict=True)
        if (one is best or two is best) and (ahead or won is not best)
    ]
    other, least = min(gains, key=lambda gain: gain[1].estimate)
    unfinished = any(found.unfinished for one, two, found in pairs if one is best or two is best)
    return _Case(best.arm, best.median, other.arm, least, ahead is not None, unfinished)


def _gain(
    best: Sample, other: Sample, found: Comparison, *, best_is_first: bool = True
) -> ConfidenceInterval:
    """How much less the best arm takes than the other one, in per cent; of their medians, without an interval, where
    these alone tell them apart."""
    ratio = found.ratio
    if ratio is None or (found.smaller != "none" and "ratio" not in found.by):
        share = best.median.estimate / other.median.estimate
        return ConfidenceInterval(100 * (1 - share), None, None, min(len(best.by_seed), len(other.by_seed)))
    parts = [None if end is None else end if best_is_first else 1 / end for end in (ratio.low, ratio.high)]
    known = [100 * (1 - part) for part in parts if part is not None]
    estimate = 100 * (1 - (ratio.estimate if best_is_first else 1 / ratio.estimate))
    if len(known) < 2:
        return ConfidenceInterval(estimate, None, None, ratio.n)
    return ConfidenceInterval(estimate, min(known), max(known), ratio.n)


def _of_flows(material: FigureContext, frame: pl.DataFrame, metric: Metric, better: int) -> _Contest:
    """A number of each flow; of several flows the first, and its name is said."""
    ways = material.ways
    first = ways.row(0, named=True)
    only = frame.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    frame = only if only.height else frame
    return _by_arm(material, frame, metric, better, f"{first['flow']}'s " if ways.height > 1 else "")


def _of_runs(material: FigureContext) -> _Contest:
    """How even the flows of a run are."""
    frame = material.metrics.group_by(["run", "seed", *material.store.columns], maintain_order=True).agg(
        value=pl.col("jain").drop_nulls().first()
    )
    return _by_arm(material, frame, METRICS["jain"], IMPROVEMENT_SIGN["jain"], "")


def _shares_of_first(material: FigureContext) -> list[_Contest]:
    """What the first flow has of its direction's goodput, in every cell."""
    flow, direction = material.ways.row(0)[:2]
    goodput = pl.col("goodput_bit_s")
    if material.grouped:
        goodput = pl.col("goodput_sum_bit_s").fill_null(goodput)
    frame = material.metrics.filter(pl.col("direction") == direction).with_columns(value=goodput)
    if frame["flow"].n_unique() < 2:
        return []
    every = pl.col("value").sum().over("run")
    share = pl.when(every > 0).then(100 * pl.col("value") / every)
    frame = frame.with_columns(value=share).filter(pl.col("flow") == flow).drop_nulls("value")
    cases = tuple(key for dim in material.dims for key in dim.keys)
    return [
        _Contest(METRICS["share_percent"], 0, frame, {}, cases, _words(material, material.dims), f"{flow}'s ")
    ]


def _called(material: FigureContext, dim: Dimension, value: str) -> str:
    """A value, and whose controller it is where there are several flows."""
    title = material.title(dim)
    return dim.label(value) if dim.name or title == dim.title else f"{title} {dim.word(value)}"


def _words(
    material: FigureContext, dims: Sequence[Dimension], *, who: str = "", loads: bool = False
) -> Callable[[Mapping[str, Any]], str]:
    def words(row: Mapping[str, Any]) -> str:
        said = [row[who]] if who else []
        said += [_called(material, dim, row[dim.key]) for dim in dims if row[dim.key] is not None]
        return ", ".join([*said, *([f"load {row['load']}"] if loads else [])])

    return words


def _by_arm(
    material: FigureContext, frame: pl.DataFrame, metric: Metric, better: int, whose: str
) -> _Contest:
    dim = of_kind([one for one in material.dims if not one.is_quantity], "congestion", "other")
    arms = {} if dim is None else {value: _called(material, dim, value) for value in dim.values}
    dims = tuple(one for one in material.dims if one is not dim)
    keys = tuple(key for one in dims for key in one.keys)
    if dim is not None:
        frame = frame.with_columns(arm=pl.col(dim.key))
    values = _of_seeds(frame, [*keys, *(() if dim is None else ("arm",))])
    return _Contest(metric, better, values, arms, keys, _words(material, dims), whose)


def _said(contest: _Contest) -> str:
    if not contest.frame.height:
        return f"No {contest.metric.title} is known"
    cases = contest.judged
    if cases is None:
        cases = _judged(contest) if contest.arms else []
    if not cases:
        return _range(contest)
    return _of_one(contest, cases[0]) if len(cases) == 1 else _of_many(contest, cases)


def _what(contest: _Contest, *, begins: bool = False, valued: bool = False) -> str:
    """Name the arm and its metric; ``valued`` where a number over seeds follows, and not a comparison."""
    title = contest.metric.single_title or contest.metric.title
    title += " (median)" if contest.medians and valued else ""
    if contest.metric.name == "share_percent":
        title += f" of the {METRICS['goodput_bit_s'].title}"
    if contest.whose:
        return f"{contest.whose}{title}"
    return title[:1].upper() + title[1:] if begins else title


# --- where nothing is compared --------------------------------------------------------------------------------


def _range(contest: _Contest) -> str:
    """The number of the only case, or the largest and the least; arms that nothing compares are cases."""
    keys = [*contest.cases, *(("arm",) if contest.arms else ())]
    by = [pl.lit(1).alias("__"), *map(pl.col, keys)]
    cases = contest.frame.group_by(by, maintain_order=True).agg("value")
    centre = median_ci if contest.medians else mean_ci
    rows = [(row, centre(row["value"])) for row in cases.iter_rows(named=True)]
    what = _what(contest, begins=True, valued=True)
    alone = f"; {NO_INTERVAL}" if any(found.n == 1 for _, found in rows) else ""
    if len(rows) == 1:
        return f"{what}: {_value(contest, rows[0][1])}{alone}"
    rows.sort(key=lambda one: (contest.better or 1) * one[1].estimate)
    (worst, least), (best, most) = rows[0], rows[-1]
    if least.estimate == most.estimate:
        return f"{what}: {_value(contest, most)} in all {len(rows):,} cases{alone}"
    high, low = ("at best", "at worst") if contest.better else ("at most", "at least")
    return (
        f"{what}: {_value(contest, most)} {high} ({_case_words(contest, best)}), "
        f"{_value(contest, least)} {low} ({_case_words(contest, worst)}){alone}"
    )


def _case_words(contest: _Contest, row: Mapping[str, Any]) -> str:
    arm = [contest.arms[row["arm"]]] if contest.arms else []
    return ", ".join([*arm, *filter(None, [contest.words(row)])])


def _value(contest: _Contest, found: ConfidenceInterval) -> str:
    written = format_interval if contest.medians else format_mean
    return f"{written(found, contest.metric.scale)} {contest.metric.unit}".rstrip()


# --- who is ahead ---------------------------------------------------------------------------------------------


def _judged(contest: _Contest) -> list[_Case]:
    """The cases that have several arms."""
    by, better = list(contest.cases), contest.better
    frame = contest.frame.select(*by, "seed", "arm", "value").with_columns(pl.col(by).fill_null(""))
    means = frame.group_by([*by, "arm"], maintain_order=True).agg(
        pl.col("value").mean().alias("mean"), pl.col("value").alias("values")
    )
    if not by:
        by, frame, means = ["__"], frame.with_columns(__=0), means.with_columns(__=0)
    best = means.sort(better * pl.col("mean"), descending=True, maintain_order=True).unique(
        by, keep="first", maintain_order=True
    )
    own = frame.join(best.select(*by, "arm"), on=[*by, "arm"], how="inner")
    own = own.select(*by, "seed", pl.col("value").alias("own"))
    others = frame.join(best.select(*by, "arm"), on=[*by, "arm"], how="anti", maintain_order="left")
    gain = better * (pl.col("own") / pl.col("value") - 1)
    gains = (
        others.join(own, on=[*by, "seed"], how="inner", maintain_order="left")
        .with_columns(gain=pl.when(pl.col("value") != 0).then(gain))
        .drop_nulls("gain")
        .group_by([*by, "arm"], maintain_order=True)
        .agg(pl.col("gain").mean().alias("mean"), pl.col("gain").std().alias("sd"), pl.len().alias("n"))
    )
    of_case: dict[tuple[object, ...], list[tuple[str, ConfidenceInterval]]] = {}
    rows = gains.to_dicts()
    counts: dict[tuple[object, ...], int] = {}
    for row in rows:
        place = tuple(row[key] for key in by)
        counts[place] = counts.get(place, 0) + 1
    for row in rows:
        place = tuple(row[key] for key in by)
        of_case.setdefault(place, []).append((row["arm"], _student(row, counts[place])))
    found = []
    for row in best.iter_rows(named=True):
        others_of = of_case.get(tuple(row[key] for key in by))
        if others_of:
            # Where the best arm is not ahead, the sentence is of a gain that the seeds do not prove.
            open_ = [one for one in others_of if one[1].low is None or one[1].low <= 0]
            name, least = min(open_ or others_of, key=lambda one: one[1].estimate)
            ahead = not open_
            found.append(_Case(row["arm"], mean_ci(row["values"]), name, least, ahead))
    return found


def _student(row: Mapping[str, float], others: int) -> ConfidenceInterval:
    """Of the mean of gains, in per cent; one of ``others`` that hold together."""
    mean, count = 100 * row["mean"], int(row["n"])
    if count < 2:
        return ConfidenceInterval(mean, None, None, count)
    half = t_quantile(1 - (1 - CONFIDENCE) / others, count - 1) * 100 * row["sd"] / math.sqrt(count)
    return ConfidenceInterval(mean, mean - half, mean + half, count)


def _than(contest: _Contest) -> str:
    return "more" if contest.better > 0 else "less"


def _of_one(contest: _Contest, case: _Case) -> str:
    best, other = contest.arms[case.best], contest.arms[case.next]
    what, value = _what(contest), f"{_what(contest, valued=True)} {_value(contest, case.value)}"
    by = f"{format_mean(case.gain, digits=2)} % {_than(contest)} than {other}"
    if case.ahead:
        return f"{best} is ahead: {value}, {by}"
    if case.unfinished:
        return f"None is ahead: {what} of {best} is {by}, but a smaller part of its loads finished"
    if case.gain.estimate == 0:
        return f"{best} and {other} have the same {what}, {_value(contest, case.value)}"
    if not case.gain.known:
        return f"{best} has the best {what}, {_value(contest, case.value)}, {by}; {NO_INTERVAL}"
    return f"None is ahead: {what} of {best} is {by}, which {case.gain.n} seeds cannot tell from none"


def _of_many(contest: _Contest, cases: Sequence[_Case]) -> str:
    what = _what(contest)
    known = [case for case in cases if case.gain.known or case.ahead]
    best = [case for case in known if case.ahead] if known else list(cases)
    if not best:
        return f"None is ahead by {what} in any of {len(cases):,} cases, as far as their seeds can tell"
    shares = [_share(contest, name, of, len(cases)) for name, of in _shares(best)]
    if not known:
        return f"Best {what}: {join_names(shares)}; {NO_INTERVAL}"
    rest = len(cases) - len(best)
    return f"Ahead by {what}: {join_names(shares)}{f'; in {rest:,} the seeds cannot tell' if rest else ''}"


def _shares(cases: Sequence[_Case]) -> list[tuple[str, list[_Case]]]:
    """Arms with the cases that they are the best of, most first."""
    by: dict[str, list[_Case]] = {}
    for case in cases:
        by.setdefault(case.best, []).append(case)
    return sorted(by.items(), key=lambda one: -len(one[1]))


def _share(contest: _Contest, name: str, of: Sequence[_Case], total: int) -> str:
    gains = sorted(case.gain.estimate for case in of)
    low, high = (format_significant(end, 2) for end in (gains[0], gains[-1]))
    span = low if low == high else f"{low} to {high}"
    where = f"all {total:,}" if len(of) == total else f"{len(of):,} of {total:,}"
    return f"{contest.arms[name]} in {where} cases (by {span} %)"
