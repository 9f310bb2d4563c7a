"""Findings of a store as sentences: the leading variant and its lead, as far as the seeds prove it.

Variants are the values of the dimension of the colours: controllers, or another swept alternative. In each case (values
of all other dimensions) all pairs are compared: page loads as in their table, other metrics by
:mod:`bentpipe.metrics.variant_comparison`. :mod:`bentpipe.report.lead_sentences` makes the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.figures.page_load_samples import PageLoads, Sample, compare_samples
from bentpipe.figures.sweep_dimensions import Dimension, of_kind
from bentpipe.metrics.change_table import format_p
from bentpipe.metrics.compare import Scale
from bentpipe.metrics.format import format_interval, format_mean
from bentpipe.metrics.groups import as_groups
from bentpipe.metrics.intervals import CONFIDENCE, ConfidenceInterval, format_significant, mean_ci, median_ci
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.metrics.transfers import has_one_transfer, restricted_completions
from bentpipe.metrics.variant_comparison import (
    VariantCase,
    VariantPair,
    compare_variants,
    repeat_deterministic_runs,
)
from bentpipe.report.headline import NO_INTERVAL
from bentpipe.report.html_table import Heading, HtmlTable, TabularCell, TabularRow
from bentpipe.report.lead_sentences import Contest, format_advantage, lead_sentence

if TYPE_CHECKING:
    from bentpipe.figures.context import FigureContext

__all__ = ["findings", "first_finding", "variant_pairs"]


@dataclass(frozen=True)
class _VariantComparison:
    """Values to compare: one row for each seed, variant and case, with ``value``."""

    metric: Metric
    frame: pl.DataFrame
    variants: Mapping[str, str]
    """Label of each variant; empty without a comparison."""
    keys: tuple[str, ...] = ()
    """Columns of a case."""
    case_label: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """Function that returns the label of a case from a row."""
    place: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """Function that returns the place of a case in a sentence."""
    prefix: str = ""
    """Flow of the metric, in the genitive; empty with a single flow."""
    cases: Sequence[VariantCase] = ()
    """Cases with several variants."""
    limit: Callable[[Mapping[str, Any]], float | None] = lambda _: None
    """Function that returns the largest possible value of a case, if it is known."""
    note: str = ""
    """Clause at the end of the sentence, about its values."""
    medians: bool = False
    """Whether values are medians over seeds, as in the table of the page, and not means."""


def findings(context: FigureContext) -> str:
    """Return the one or two findings of a store as sentences."""
    return " ".join(f"{_sentence(item)}." for item in _comparisons(context)) or NOTHING_SENT


NOTHING_SENT = "No flow sent data."


def first_finding(context: FigureContext) -> str:
    """Return the first finding of a store as one sentence."""
    return next((f"{_sentence(item)}." for item in _comparisons(context)), NOTHING_SENT)


def variant_pairs(context: FigureContext) -> HtmlTable | None:
    """Return the table of all pairs of variants of the first finding; None without variants.

    Page loads have a table of their own.
    """
    comparison = next(iter(_comparisons(context)), None)
    if comparison is None or not comparison.cases or context.pages.height:
        return None
    dims = [dim for dim in context.dims if dim.key in comparison.keys]
    metric, labels = comparison.metric, comparison.variants
    is_ratio = all(pair.scale is Scale.RATIO for case in comparison.cases for pair in case.pairs)
    heads = [
        *(Heading(context.title(dim), text=True) for dim in dims),
        Heading("first", text=True), Heading("second", text=True),
        Heading("first", metric.unit), Heading("second", metric.unit),
        Heading("ratio" if is_ratio else "difference", "first / second" if is_ratio else metric.unit),
        Heading("p"), Heading("ahead", text=True),
    ]  # fmt: skip
    rows: list[TabularRow] = []
    for case in comparison.cases[:MAX_PAIRED_CASES]:
        for place, pair in enumerate(case.pairs):
            first, second = pair.names
            effect, mark, bounds = format_advantage(metric, pair, first).partition(" [")
            values = (case.values[name].estimate * metric.scale for name in (first, second))
            verdict = labels.get(pair.ahead) or ("–" if pair.is_decided else "too few seeds")
            cells: list[str | TabularCell] = [
                (dim.value_label(case.row[dim.key]) or "–") if place == 0 else "" for dim in dims
            ]
            cells += [labels[first], labels[second], *map(format_significant, values)]
            cells += [TabularCell(effect.removeprefix("×"), small=f"[{bounds}" if mark else "")]
            cells += [format_p(pair.p), TabularCell(verdict, hint=pair.reason)]
            rows.append(TabularRow(cells, place == 0))
    more = max(0, len(comparison.cases) - MAX_PAIRED_CASES)
    return HtmlTable(heads, rows, more, "cells", _pair_notes(comparison, is_ratio=is_ratio))


def _pair_notes(comparison: _VariantComparison, *, is_ratio: bool) -> list[str]:
    """Return the notes below the table of pairs: test, effect, and what Holm's procedure corrects."""
    name = _metric_text(comparison, begins=True)
    test = (
        f"{name}: paired t-tests by seed, corrected by Holm's procedure within each cell. A variant is ahead if the "
        "difference is significant and above 1 %."
    )
    notes = [test]
    pairs = [pair for case in comparison.cases for pair in case.pairs]
    if is_ratio and any(pair.effect is not None and pair.effect.n > 1 for pair in pairs):
        notes.append(
            "A ratio is the geometric mean of the ratios of each seed, so it can differ from the quotient of the means "
            "beside it. The larger value is first."
        )
    if any(pair.p is not None for pair in pairs):
        text = "Holm's procedure corrects the p-values, not the 95 % intervals."
        if any(_is_only_uncorrected(pair) for pair in pairs):
            text += f" Hence an interval here excludes {1 if is_ratio else 0} although p is above 0.05."
        notes.append(text)
    return notes


def _is_only_uncorrected(pair: VariantPair) -> bool:
    """Return whether the uncorrected interval excludes equality and the corrected p-value does not."""
    effect, equal = pair.effect, 1.0 if pair.scale is Scale.RATIO else 0.0
    if effect is None or effect.low is None or effect.high is None or pair.p is None:
        return False
    return pair.p > 1 - CONFIDENCE and not effect.low <= equal <= effect.high


MAX_PAIRED_CASES = 200
"""Largest number of cells of the table of pairs."""


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
    if (completion := _compare_completions(context, frame)) is not None:
        return [completion]
    goodput = frame.with_columns(value=pl.col("goodput_bit_s"))
    found = _compare_flows(context, goodput, METRICS["goodput_bit_s"])
    return [replace(found, limit=lambda row: _constant_rate(context, row))]


def _constant_rate(context: FigureContext, row: Mapping[str, Any]) -> float | None:
    """Return the smallest rate of a path in the direction of the first flow; None if a rate varies."""
    runs = context.metrics
    for key, value in row.items():
        runs = runs.filter(pl.col(key).eq_missing(value))
    spec = context.store.specs([runs["run"][0]]).get(runs["run"][0])
    if spec is None or len(spec["graph"]["nodes"]) != len(spec["graph"]["links"]) + 1:
        return None
    direction = context.directions["direction"][0]
    rates: list[float] = []
    for link in spec["graph"]["links"]:
        for stage in link["up"] if direction == "up" else link["down"]:
            if stage["kind"] == "transmit":
                service = stage["service"]
                if service["kind"] != "rate" or service["changes"]:
                    return None
                rates.append(service["rate_bit_s"])
            elif stage["kind"] not in ("delay", "loss"):
                return None
    return min(rates, default=None)


def _compare_completions(context: FigureContext, frame: pl.DataFrame) -> _VariantComparison | None:
    """Compare the completion times of transfers of a given size; None if a flow of some run has none.

    The values are medians. They are restricted means if half of the transfers of a run did not finish.
    """
    median = _median_completion(context, frame)
    if median["value"].null_count() == 0:
        name = "completion_s" if has_one_transfer(context.transfers) else "completion_p50_s"
        return _compare_flows(context, median, METRICS[name])
    first = frame["run"][0]
    flows = context.store.specs([first]).get(first, {"flows": []})["flows"]
    if any(flow["load"]["kind"] not in ("perf", "poisson") for flow in flows):
        return None
    variant = _variant_dim(context)
    keys = [key for dim in context.dims if dim is not variant for key in dim.keys]
    times = restricted_completions(context.store, context.transfers, keys)
    restricted = frame.join(times, on=["run", "flow"], how="left", maintain_order="left")
    restricted = restricted.rename({"mean_s": "value"})
    if restricted["value"].null_count():
        return None
    limits = sorted({format_significant(limit, 3) for limit in restricted["tau_s"]}, key=float)
    span = " to ".join(dict.fromkeys((limits[0], limits[-1])))
    found = _compare_flows(context, restricted, METRICS["completion_mean_s"])
    return replace(found, note=f"an unfinished transfer counts as {span} s")


def _median_completion(context: FigureContext, frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with the median completion time of each flow in ``value``, s.

    Unfinished transfers count as longer than all others, so that a variant does not gain by leaving them unfinished.
    The value is null if half of the transfers did not finish.
    """
    median = pl.col("completion_s").fill_null(math.inf).quantile(0.5, "linear")
    values = context.transfers.group_by("run", "flow").agg(value=median)
    values = values.with_columns(value=pl.when(pl.col("value").is_finite()).then("value"))
    return frame.join(values, on=["run", "flow"], how="left", maintain_order="left")


def _compare_pages(context: FigureContext) -> _VariantComparison:
    """Compare the finished page loads; each load of a session is a separate case."""
    pages = PageLoads(context)
    metric = METRICS["plt_s"]
    variants = {variant: variant for variant in pages.variants} if len(pages.variants) > 1 else {}
    dims = tuple(pages.cell_dims)
    loads = len(pages.loads) > 1
    keys = (
        *(key for dim in dims for key in dim.keys),
        *(("load",) if loads else ()),
    )
    frame = _average_seeds(pages.rows.with_columns(value=pl.col(metric.name)), keys)
    cases = _compare_loads(pages) if variants else []
    labels, place = _case_labels(context, dims, loads=loads), _case_places(context, dims, loads=loads)
    return _VariantComparison(metric, frame, variants, keys, labels, place, cases=cases, medians=True)


def _average_seeds(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return one value for each seed, because values of a run are not independent."""
    keys = list(dict.fromkeys([*by, "seed"]))
    known = frame.drop_nulls("value")
    return known.group_by(keys, maintain_order=True).agg(pl.col("value").mean())


def _compare_loads(pages: PageLoads) -> list[VariantCase]:
    """Return the cases of page load times, with the pairs of their table."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in pages.samples("plt_s"):
        if sample.values:
            groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    return [
        VariantCase(
            {**group[0].cell, "load": group[0].load},
            {sample.variant: sample.median for sample in group},
            [_load_pair(first, second) for first, second in combinations(group, 2)],
        )
        for group in groups.values()
        if len(group) > 1
    ]


def _load_pair(first: Sample, second: Sample) -> VariantPair:
    """Return the comparison of a pair; without an interval of the ratio, its effect is the ratio of the medians."""
    result = compare_samples(first, second)
    effect = result.ratio
    seeds = min(len(first.by_seed), len(second.by_seed))
    if effect is None or (result.smaller != "none" and "ratio" not in result.by):
        ratio = first.median.estimate / second.median.estimate
        effect = ConfidenceInterval(ratio, None, None, seeds)
    ahead = {"first": first.variant, "second": second.variant, "none": ""}[result.smaller]
    return VariantPair(
        first.variant,
        second.variant,
        effect,
        ahead=ahead,
        is_decided=seeds > 1,
        reason=result.reason,
        is_unfinished=result.unfinished,
    )


def _compare_flows(context: FigureContext, frame: pl.DataFrame, metric: Metric) -> _VariantComparison:
    """Compare a metric of flows; with several flows, of the first one, whose name is in the sentence."""
    if not _is_shared(context):
        return _compare_variants(context, frame, metric, "")
    directions = context.directions
    first = directions.row(0, named=True)
    only = frame.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    frame = only if only.height else frame
    return _compare_variants(
        context, frame, metric, _genitive(first["flow"]) if directions.height > 1 else ""
    )


def _genitive(name: str) -> str:
    return f"{name}' " if name.endswith("s") else f"{name}'s "


def _is_shared(context: FigureContext) -> bool:
    """Return whether a run has several flows or directions; a sweep of directions has one in each run."""
    counts = context.metrics.group_by("run").len()
    return context.shared and counts.filter(pl.col("len") > 1).height > 0


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
    keys = tuple(key for dim in context.dims for key in dim.keys)
    return [
        _VariantComparison(
            METRICS["share_percent"],
            frame,
            {},
            keys,
            _case_labels(context, context.dims),
            prefix=_genitive(flow),
        )
    ]


def _value_label(context: FigureContext, dim: Dimension, value: str) -> str:
    """Return the label of a value; with several flows, a controller has the name of its flow."""
    if not _is_shared(context):
        return dim.label(value)
    title = context.title(dim)
    return dim.label(value) if dim.name or title == dim.title else f"{title} {dim.value_label(value)}"


def _case_labels(
    context: FigureContext, dims: Sequence[Dimension], *, loads: bool = False
) -> Callable[[Mapping[str, Any]], str]:
    def case_label(row: Mapping[str, Any]) -> str:
        parts = [_value_label(context, dim, row[dim.key]) for dim in dims if row[dim.key] is not None]
        return ", ".join([*parts, *([f"load {row['load']}"] if loads else [])])

    return case_label


def _case_places(
    context: FigureContext, dims: Sequence[Dimension], *, loads: bool = False
) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that returns the place of a case: ``on starlink``, ``at loss 1 %``, ``for direction up``."""
    label = _case_labels(context, dims, loads=loads)
    is_preset = len(dims) == 1 and not loads and dims[0].key.endswith("path.preset")

    word = "on" if is_preset else "at" if all(dim.is_quantity for dim in dims) else "for"

    def place(row: Mapping[str, Any]) -> str:
        text = dims[0].value_label(row[dims[0].key]) if is_preset else label(row)
        return f"{word} {text}" if text else ""

    return place


def _variant_dim(context: FigureContext) -> Dimension | None:
    """Return the dimension of the variants; None without alternatives."""
    return of_kind([item for item in context.dims if not item.is_quantity], "congestion", "other")


def _compare_variants(
    context: FigureContext, frame: pl.DataFrame, metric: Metric, prefix: str
) -> _VariantComparison:
    dim = _variant_dim(context)
    variants = {} if dim is None else {value: _value_label(context, dim, value) for value in dim.values}
    dims = tuple(item for item in context.dims if item is not dim)
    keys = tuple(key for item in dims for key in item.keys)
    if dim is not None:
        frame = repeat_deterministic_runs(context.store, frame.with_columns(variant=pl.col(dim.key)))
    values = _average_seeds(frame, [*keys, *(() if dim is None else ("variant",))])
    # Pairs with a user-supplied class have it first.
    order = sorted(variants, key=lambda name: ".py" not in name)
    cases = compare_variants(values, metric, order, keys) if variants else []
    labels, place = _case_labels(context, dims), _case_places(context, dims)
    return _VariantComparison(metric, values, variants, keys, labels, place, prefix, cases)


def _sentence(comparison: _VariantComparison) -> str:
    if not comparison.frame.height:
        return f"No value of {comparison.metric.title} is available"
    return "; ".join(filter(None, [_main_clause(comparison), comparison.note]))


def _main_clause(comparison: _VariantComparison) -> str:
    if not comparison.cases:
        return _range(comparison)
    metric_text = _metric_text(comparison, valued=comparison.medians)
    contest = Contest(
        comparison.metric,
        metric_text,
        comparison.variants,
        comparison.cases,
        comparison.place,
        comparison.limit,
    )
    return lead_sentence(contest)


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
    keys = [*comparison.keys, *(("variant",) if comparison.variants else ())]
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
