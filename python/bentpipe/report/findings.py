"""Findings of a store as sentences: the best variant and its gain, as far as the seeds prove it.

Variants are the values of the dimension of the colours: controllers, or another swept alternative. In each case (values
of all other dimensions) the variant with the best mean is compared with every other one, seed by seed. It is ahead if
all its gains have joint 95 % intervals above 0. The intervals are Student's t of the paired relative differences, with
Bonferroni's correction for the number of other variants. Page loads are compared in pairs, as in their table: a variant
is ahead if it is the faster one of all its pairs. At most 5 % of stores with equal variants have a variant ahead,
because it must win several tests at once.
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
from bentpipe.metrics.compute import completion_times
from bentpipe.metrics.format import format_interval, format_mean
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.intervals import (
    CONFIDENCE,
    ConfidenceInterval,
    format_significant,
    mean_ci,
    median_ci,
)
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.metrics.samples import Comparison
from bentpipe.metrics.samples.median_ratio import mean_ratio
from bentpipe.report.headline import NO_INTERVAL, join_names

if TYPE_CHECKING:
    from bentpipe.figures.context import FigureContext

__all__ = ["findings", "first_finding"]


@dataclass(frozen=True)
class _VariantComparison:
    """Values to compare: one row for each seed, variant and case, with ``value``."""

    metric: Metric
    frame: pl.DataFrame
    variants: Mapping[str, str]
    """Label of each variant; empty without a comparison."""
    cases: tuple[str, ...] = ()
    """Columns of a case."""
    case_label: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """Function that returns the label of a case from a row."""
    prefix: str = ""
    """Flow of the metric, in the genitive; empty with a single flow."""
    results: Sequence[_Case] | None = None
    """Cases with several variants, if already compared."""
    medians: bool = False
    """Whether values are medians over seeds, as in the table of the page, and not means."""


@dataclass(frozen=True)
class _Case:
    """Best variant of a case: its mean, its relative gain over the next variant, and whether it is ahead."""

    best: str
    value: ConfidenceInterval
    next: str
    gain: ConfidenceInterval
    ahead: bool
    unfinished: bool = False
    """Whether the variant is not ahead because a smaller share of its loads finished."""


def findings(context: FigureContext) -> str:
    """Return the one or two findings of a store as sentences."""
    return " ".join(f"{_sentence(item)}." for item in _comparisons(context)) or NOTHING_SENT


NOTHING_SENT = "No flow sent data."


def first_finding(context: FigureContext) -> str:
    """Return the first finding of a store as one sentence."""
    return next((f"{_sentence(item)}." for item in _comparisons(context)), NOTHING_SENT)


def _comparisons(context: FigureContext) -> list[_VariantComparison]:
    if context.pages.height:
        return [_compare_pages(context)]
    if context.calls.height:
        frame = as_groups(context.calls, context.flow_summary).with_columns(
            value=pl.col("mos").cast(pl.Float64)
        )
        return [_compare_calls(context, frame)]
    frame = context.metrics
    if not frame.height:
        return []
    if context.shared and frame["jain"].null_count() < frame.height:
        return [_compare_runs(context), *_shares_of_first(context)]
    median = _median_completion(context, frame)
    if median["value"].null_count() == 0:
        return [_compare_flows(context, median, METRICS["completion_p50_s"])]
    goodput = frame.with_columns(value=pl.col("goodput_bit_s"))
    return [_compare_flows(context, goodput, METRICS["goodput_bit_s"])]


def _median_completion(context: FigureContext, frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with the median completion time of each flow in ``value``, s.

    Unfinished transfers count as longer than all others, so that a variant does not gain by leaving them unfinished.
    The value is null if half of the transfers did not finish.
    """
    store = context.store
    times = as_groups(completion_times(store.rows("streams")), store.rows("flow_summary", ["flow"]))
    median = pl.col("completion_s").fill_null(math.inf).quantile(0.5, "linear")
    values = times.group_by("run", "flow").agg(value=median)
    values = values.with_columns(value=pl.when(pl.col("value").is_finite()).then("value"))
    return frame.join(values, on=["run", "flow"], how="left", maintain_order="left")


def _compare_pages(context: FigureContext) -> _VariantComparison:
    """Compare the finished page loads; each load of a session is a separate case."""
    pages = PageLoads(context)
    metric = METRICS["plt_s"]
    variants = {variant: variant for variant in pages.variants} if len(pages.variants) > 1 else {}
    dims = tuple(pages.cell_dims)
    loads = len(pages.loads) > 1
    cases = (
        *(key for dim in dims for key in dim.keys),
        *(("load",) if loads else ()),
    )
    frame = _average_seeds(pages.rows.with_columns(value=pl.col(metric.name)), cases)
    results = _compare_loads(pages) if variants else None
    labels = _case_labels(context, dims, loads=loads)
    return _VariantComparison(metric, frame, variants, cases, labels, results=results, medians=True)


def _average_seeds(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return one value for each seed, because values of a run are not independent."""
    keys = list(dict.fromkeys([*by, "seed"]))
    known = frame.drop_nulls("value")
    return known.group_by(keys, maintain_order=True).agg(pl.col("value").mean())


def _compare_loads(pages: PageLoads) -> list[_Case]:
    """Return the cases of page load times, from the pairs of their variants."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in pages.samples("plt_s"):
        if sample.values:
            groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    return [_fastest(group) for group in groups.values() if len(group) > 1]


def _fastest(group: Sequence[Sample]) -> _Case:
    """Return the variant that is faster than every other one, else the one with the smallest geometric mean."""
    pairs = [(first, second, compare_samples(first, second)) for first, second in combinations(group, 2)]
    winners = [
        {"first": first, "second": second, "none": None}[result.smaller] for first, second, result in pairs
    ]
    ahead = next(
        (sample for sample in group if sum(winner is sample for winner in winners) == len(group) - 1), None
    )
    best = ahead or min(group, key=lambda sample: geometric_mean(sample.by_seed.values()))
    gains = [
        (second, _gain(best, second, result))
        if first is best
        else (first, _gain(best, first, result, best_is_first=False))
        for (first, second, result), winner in zip(pairs, winners, strict=True)
        if (first is best or second is best) and (ahead or winner is not best)
    ]
    other, smallest = min(gains, key=lambda gain: gain[1].estimate)
    unfinished = any(result.unfinished for first, second, result in pairs if first is best or second is best)
    return _Case(best.variant, best.median, other.variant, smallest, ahead is not None, unfinished)


def _gain(
    best: Sample, other: Sample, result: Comparison, *, best_is_first: bool = True
) -> ConfidenceInterval:
    """Return the relative gain of the best variant over the other one, in per cent.

    If only the intervals of medians differ, it is the gain of the medians, without interval.
    """
    ratio = result.ratio
    if ratio is None or (result.smaller != "none" and "ratio" not in result.by):
        share = best.median.estimate / other.median.estimate
        return ConfidenceInterval(100 * (1 - share), None, None, min(len(best.by_seed), len(other.by_seed)))
    parts = [None if end is None else end if best_is_first else 1 / end for end in (ratio.low, ratio.high)]
    known = [100 * (1 - part) for part in parts if part is not None]
    estimate = 100 * (1 - (ratio.estimate if best_is_first else 1 / ratio.estimate))
    if len(known) < 2:
        return ConfidenceInterval(estimate, None, None, ratio.n)
    return ConfidenceInterval(estimate, min(known), max(known), ratio.n)


def _compare_flows(context: FigureContext, frame: pl.DataFrame, metric: Metric) -> _VariantComparison:
    """Compare a metric of flows; with several flows, of the first one, whose name is in the sentence."""
    directions = context.directions
    first = directions.row(0, named=True)
    only = frame.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    frame = only if only.height else frame
    return _compare_variants(context, frame, metric, f"{first['flow']}'s " if directions.height > 1 else "")


def _compare_calls(context: FigureContext, frame: pl.DataFrame) -> _VariantComparison:
    """Compare the MOS of the first call in the direction that other flows load, else in that with the worse calls."""
    flow = frame["flow"][0]
    mine = frame.filter(pl.col("flow") == flow)
    directions = mine["direction"].unique(maintain_order=True).to_list()
    if len(directions) < 2:
        return _compare_flows(context, frame, METRICS["mos"])
    loads = context.metrics.filter(~pl.col("flow").is_in(frame["flow"].unique().to_list()))
    sent = {way: loads.filter(pl.col("direction") == way)["received_bytes"].sum() or 0 for way in directions}
    scores = mine.group_by("direction").agg(pl.col("value").mean())
    worst = dict(zip(scores["direction"], scores["value"].fill_null(math.inf), strict=True))
    chosen = max(directions, key=lambda way: (sent[way], -worst[way]))
    only = mine.filter(pl.col("direction") == chosen)
    return _compare_variants(context, only, METRICS["mos"], f"{flow}'s {chosen}link ")


def _compare_runs(context: FigureContext) -> _VariantComparison:
    """Compare Jain's index of runs."""
    frame = context.metrics.group_by(["run", "seed", *context.store.columns], maintain_order=True).agg(
        value=pl.col("jain").drop_nulls().first()
    )
    return _compare_variants(context, frame, METRICS["jain"], "")


def _shares_of_first(context: FigureContext) -> list[_VariantComparison]:
    """Return the first flow's share of its direction's goodput in every cell."""
    flow, direction = context.directions.row(0)[:2]
    goodput = pl.col("goodput_bit_s")
    if context.grouped:
        goodput = pl.col("goodput_sum_bit_s").fill_null(goodput)
    frame = context.metrics.filter(pl.col("direction") == direction).with_columns(value=goodput)
    if frame["flow"].n_unique() < 2:
        return []
    total = pl.col("value").sum().over("run")
    share = pl.when(total > 0).then(100 * pl.col("value") / total)
    frame = frame.with_columns(value=share).filter(pl.col("flow") == flow).drop_nulls("value")
    cases = tuple(key for dim in context.dims for key in dim.keys)
    return [
        _VariantComparison(
            METRICS["share_percent"], frame, {}, cases, _case_labels(context, context.dims), f"{flow}'s "
        )
    ]


def _value_label(context: FigureContext, dim: Dimension, value: str) -> str:
    """Return the label of a value; with several flows, a controller has the name of its flow."""
    title = context.title(dim)
    return dim.label(value) if dim.name or title == dim.title else f"{title} {dim.value_label(value)}"


def _case_labels(
    context: FigureContext, dims: Sequence[Dimension], *, loads: bool = False
) -> Callable[[Mapping[str, Any]], str]:
    def case_label(row: Mapping[str, Any]) -> str:
        parts = [_value_label(context, dim, row[dim.key]) for dim in dims if row[dim.key] is not None]
        return ", ".join([*parts, *([f"load {row['load']}"] if loads else [])])

    return case_label


def _compare_variants(
    context: FigureContext, frame: pl.DataFrame, metric: Metric, prefix: str
) -> _VariantComparison:
    dim = of_kind([item for item in context.dims if not item.is_quantity], "congestion", "other")
    variants = {} if dim is None else {value: _value_label(context, dim, value) for value in dim.values}
    dims = tuple(item for item in context.dims if item is not dim)
    keys = tuple(key for item in dims for key in item.keys)
    if dim is not None:
        frame = frame.with_columns(variant=pl.col(dim.key))
    values = _average_seeds(frame, [*keys, *(() if dim is None else ("variant",))])
    return _VariantComparison(metric, values, variants, keys, _case_labels(context, dims), prefix)


def _sentence(comparison: _VariantComparison) -> str:
    if not comparison.frame.height:
        return f"No value of {comparison.metric.title} is available"
    cases = comparison.results
    if cases is None:
        cases = _compare_cases(comparison) if comparison.variants else []
    if not cases:
        return _range(comparison)
    return (
        _one_case_sentence(comparison, cases[0])
        if len(cases) == 1
        else _many_cases_sentence(comparison, cases)
    )


def _metric_text(comparison: _VariantComparison, *, begins: bool = False, valued: bool = False) -> str:
    """Return the metric with its flow; ``valued``: a value over seeds follows, not a comparison."""
    title = comparison.metric.single_title or comparison.metric.title
    title += " (median)" if comparison.medians and valued else ""
    if comparison.metric.name == "share_percent":
        title += f" of the {METRICS['goodput_bit_s'].title}"
    if comparison.prefix:
        return f"{comparison.prefix}{title}"
    return title[:1].upper() + title[1:] if begins else title


# --- without comparison --------------------------------------------------------------------------------


def _range(comparison: _VariantComparison) -> str:
    """Return a sentence about the value of the only case, or the largest and smallest value over cases and variants."""
    keys = [*comparison.cases, *(("variant",) if comparison.variants else ())]
    by = [pl.lit(1).alias("__"), *map(pl.col, keys)]
    cases = comparison.frame.group_by(by, maintain_order=True).agg("value")
    centre = median_ci if comparison.medians else mean_ci
    rows = [(row, centre(row["value"])) for row in cases.iter_rows(named=True)]
    metric = _metric_text(comparison, begins=True, valued=True)
    note = f"; {NO_INTERVAL}" if any(interval.n == 1 for _, interval in rows) else ""
    if len(rows) == 1:
        return f"{metric}: {_format_value(comparison, rows[0][1])}{note}"
    rows.sort(key=lambda row: (comparison.metric.better or 1) * row[1].estimate)
    (worst, smallest), (best, largest) = rows[0], rows[-1]
    if smallest.estimate == largest.estimate:
        return f"{metric}: {_format_value(comparison, largest)} in all {len(rows):,} cells{note}"
    high, low = ("at best", "at worst") if comparison.metric.better else ("at most", "at least")
    return (
        f"{metric}: {_format_value(comparison, largest)} {high} ({_case_text(comparison, best)}), "
        f"{_format_value(comparison, smallest)} {low} ({_case_text(comparison, worst)}){note}"
    )


def _case_text(comparison: _VariantComparison, row: Mapping[str, Any]) -> str:
    variant = [comparison.variants[row["variant"]]] if comparison.variants else []
    return ", ".join([*variant, *filter(None, [comparison.case_label(row)])])


def _format_value(comparison: _VariantComparison, interval: ConfidenceInterval) -> str:
    formatter = format_interval if comparison.medians else format_mean
    return f"{formatter(interval, comparison.metric.scale)} {comparison.metric.unit}".rstrip()


# --- best variant ---------------------------------------------------------------------------------------------


def _compare_cases(comparison: _VariantComparison) -> list[_Case]:
    """Return the cases with several variants."""
    by, better = list(comparison.cases), comparison.metric.better
    frame = comparison.frame.select(*by, "seed", "variant", "value").with_columns(pl.col(by).fill_null(""))
    means = frame.group_by([*by, "variant"], maintain_order=True).agg(
        pl.col("value").mean().alias("mean"), pl.col("value").alias("values")
    )
    if not by:
        by, frame, means = ["__"], frame.with_columns(__=0), means.with_columns(__=0)
    best = means.sort(better * pl.col("mean"), descending=True, maintain_order=True).unique(
        by, keep="first", maintain_order=True
    )
    best_values = frame.join(best.select(*by, "variant"), on=[*by, "variant"], how="inner")
    best_values = best_values.select(*by, "seed", pl.col("value").alias("best"))
    others = frame.join(best.select(*by, "variant"), on=[*by, "variant"], how="anti", maintain_order="left")
    pairs = (
        others.join(best_values, on=[*by, "seed"], how="inner", maintain_order="left")
        .filter(pl.col("best") > 0, pl.col("value") > 0)
        .group_by([*by, "variant"], maintain_order=True)
        .agg("best", "value")
        .with_columns(others=pl.len().over(by))
    )
    by_case: dict[tuple[object, ...], list[tuple[str, ConfidenceInterval]]] = {}
    for row in pairs.iter_rows(named=True):
        gain = _relative_gain(row["best"], row["value"], better, row["others"])
        by_case.setdefault(tuple(row[key] for key in by), []).append((row["variant"], gain))
    results = []
    for row in best.iter_rows(named=True):
        case_gains = by_case.get(tuple(row[key] for key in by))
        if case_gains:
            # If the best variant is not ahead, the sentence names a gain that the seeds do not prove.
            unproven = [gain for gain in case_gains if gain[1].low is None or gain[1].low <= 0]
            name, smallest = min(unproven or case_gains, key=lambda gain: gain[1].estimate)
            results.append(_Case(row["variant"], mean_ci(row["values"]), name, smallest, not unproven))
    return results


def _relative_gain(best: list[float], other: list[float], better: int, others: int) -> ConfidenceInterval:
    """Return the gain of paired values over others, in per cent, at the joint level of ``others`` intervals."""
    ratio = mean_ratio(best, other, paired=True, confidence=1 - (1 - CONFIDENCE) / others)
    gains = [None if end is None else 100 * better * (end - 1) for end in (ratio.low, ratio.high)]
    low, high = gains if better > 0 else reversed(gains)
    return ConfidenceInterval(100 * better * (ratio.estimate - 1), low, high, ratio.n)


def _more_or_less(comparison: _VariantComparison) -> str:
    return "more" if comparison.metric.better > 0 else "less"


def _one_case_sentence(comparison: _VariantComparison, case: _Case) -> str:
    best, other = comparison.variants[case.best], comparison.variants[case.next]
    metric, value = (
        _metric_text(comparison),
        f"{_metric_text(comparison, valued=True)} {_format_value(comparison, case.value)}",
    )
    by = f"{format_mean(case.gain, digits=2)} % {_more_or_less(comparison)} than {other}"
    if case.ahead:
        return f"{best} is ahead: {value}, {by}"
    if case.unfinished:
        return f"No variant is ahead: {metric} of {best} is {by}, but fewer of its loads finished"
    if case.gain.estimate == 0:
        return f"{best} and {other} have the same {metric}, {_format_value(comparison, case.value)}"
    if not case.gain.known:
        return f"{best} has the best {metric}, {_format_value(comparison, case.value)}, {by}; {NO_INTERVAL}"
    return (
        f"No variant is ahead: {metric} of {best} is {by}, which is not significant with {case.gain.n} seeds"
    )


def _many_cases_sentence(comparison: _VariantComparison, cases: Sequence[_Case]) -> str:
    metric = _metric_text(comparison)
    known = [case for case in cases if case.gain.known or case.ahead]
    best = [case for case in known if case.ahead] if known else list(cases)
    if not best:
        return f"No variant is significantly ahead by {metric} in any of {len(cases):,} cells"
    shares = [_wins_text(comparison, name, of, len(cases)) for name, of in _cases_by_best(best)]
    if not known:
        return f"Best {metric}: {join_names(shares)}; {NO_INTERVAL}"
    rest = len(cases) - len(best)
    return f"Ahead by {metric}: {join_names(shares)}{f'; not significant in {rest:,}' if rest else ''}"


def _cases_by_best(cases: Sequence[_Case]) -> list[tuple[str, list[_Case]]]:
    """Return the variants with the cases in which each is the best, by descending number."""
    by_variant: dict[str, list[_Case]] = {}
    for case in cases:
        by_variant.setdefault(case.best, []).append(case)
    return sorted(by_variant.items(), key=lambda item: -len(item[1]))


def _wins_text(comparison: _VariantComparison, name: str, of: Sequence[_Case], total: int) -> str:
    gains = sorted(case.gain.estimate for case in of)
    low, high = (format_significant(end, 2) for end in (gains[0], gains[-1]))
    span = low if low == high else f"{low} to {high}"
    where = f"all {total:,}" if len(of) == total else f"{len(of):,} of {total:,}"
    return f"{comparison.variants[name]} in {where} cells (by {span} %)"
