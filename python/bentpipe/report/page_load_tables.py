"""Tables of page loads in a report: medians with intervals and pairwise comparison of variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bentpipe.figures.context import FigureContext
from bentpipe.figures.page_load_samples import TIMES, PageLoads, Sample, compare_samples, pairs
from bentpipe.metrics.format import format_interval
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.samples import autocorrelation, welch
from bentpipe.report.headline import join_names
from bentpipe.report.html_table import Heading, HtmlTable, TabularCell, TabularRow, first_groups

FIGURES = (
    "page-load-time", "time-to-response", "page-load-distribution", "time-to-response-distribution", "time-sequence",
    "packet-sequence", "autocorrelation",
)  # fmt: skip
"""Figures of page loads, in the order of the page."""

CRITERIA = {
    "ratio": (
        "geometric mean of the ratios of the first variant to the second, paired by seed if both have "
        "the seed. The 95 % interval is that of the mean of the logarithms (Student's t). The loads "
        "of one run count as one value, their mean. A variant is faster if the interval excludes 1"
    ),
    "intervals (P1)": (
        "order P1 of Thomas 2018, section 5.1.1. A variant is faster if the interval of its median is "
        "entirely below the other one"
    ),
    "dominance": (
        "first-order stochastic dominance: at every time, the variant has finished at least as "
        "many loads as the other. It is not a test, because few loads can show it by chance"
    ),
}
"""Criteria of a faster variant with their definitions; the table explains those that it contains."""

DEFINITIONS = {
    **{
        metric.short_title: f"{metric.title}, {metric.definition}"
        for metric in (METRICS[name] for name in ("plt_s", "ttr_s", "connect_s"))
    },
    "Alt-Svc": (
        "the browser starts with HTTP/2 and switches to HTTP/3 after the server advertises it (RFC 7838)"
    ),
    "interval of a median": (
        "order-statistic interval with at least 95 % coverage for independent values of any "
        "distribution (Le Boudec 2010, theorem 2.1). It needs 6 values"
    ),
    "faster": (
        "the variant that a test selects. The value is “none” if no test selects one, if the tests "
        "disagree, or if fewer of its loads finished"
    ),
    **CRITERIA,
    "Welch p": (
        "p-value of Welch's t-test: probability of a difference of means at least this large under "
        "equal means, with unequal variances (Welch 1947)"
    ),
    "independent": (
        "result of the autocorrelation of page load times over sessions, at up to n/4 lags. The value "
        "is “yes” unless significantly many coefficients (binomial test, 2.5 %) or one extreme "
        "coefficient lie outside ±1.96/√n"
    ),
}
"""Definitions of the terms of this section."""


MAX_CELLS = 200
"""Largest number of cells of a table."""


def tables(context: FigureContext, most: int = MAX_CELLS) -> tuple[HtmlTable, HtmlTable | None]:
    """Return the tables of medians (one row for each sample) and of comparisons (one row for each pair and metric).

    Both have at most ``most`` cells; the second is None without pairs.
    """
    page_loads = PageLoads(context)
    cell = [key for dim in page_loads.cell_dims for key in dim.keys]
    shown, more = first_groups(page_loads.rows, cell, most)
    samples = {metric: page_loads.samples(metric, shown) for metric in TIMES}
    connects = page_loads.samples("connect_s", shown)
    medians = replace(
        _medians(page_loads, samples["plt_s"], samples["ttr_s"], connects), more=more, what="cells"
    )
    rows = _comparisons(page_loads, samples)
    if not rows:
        return medians, None
    met = {name for row in rows for name in CRITERIA if name in _text(row.cells[-2])}
    notes = [f"{name[:1].upper()}{name[1:]}: {text}." for name, text in CRITERIA.items() if name in met]
    heads = [Heading(dim.title, text=True) for dim in page_loads.cell_dims]
    heads += [Heading("load"), Heading("of", text=True)]
    if len(page_loads.variants) == 2:
        heads.append(Heading("ratio", f"{page_loads.variants[0]} / {page_loads.variants[1]}"))
    else:
        heads += [
            Heading("first", text=True),
            Heading("second", text=True),
            Heading("ratio", "first / second"),
        ]
    heads += [Heading("faster", text=True), Heading("by", text=True), Heading("Welch p")]
    return medians, HtmlTable(heads, rows, more, "cells", notes)


def _text(cell: str | TabularCell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _medians(
    page_loads: PageLoads, plt: Sequence[Sample], ttr: Sequence[Sample], connects: Sequence[Sample]
) -> HtmlTable:
    heads = [
        *(Heading(dim.title, text=True) for dim in page_loads.cell_dims),
        Heading("load"), Heading(page_loads.variant_title, text=True), Heading("negotiated protocol", text=True),
        Heading("finished", "of loads"),
        *(
            Heading(f"{METRICS[name].short_title}, median", METRICS[name].unit)
            for name in ("connect_s", "ttr_s", "plt_s")
        ),
        Heading("independent", text=True),
    ]  # fmt: skip
    rows: list[TabularRow] = []
    before: tuple[object, ...] | None = None
    for load, response, connect in zip(plt, ttr, connects, strict=True):
        place = (*load.cell.values(), load.load)
        line: list[str | TabularCell] = [
            *_cell_labels(page_loads, load, before),
            str(load.load) if place != before else "",
            load.variant,
            ", ".join(load.protocols),
            _count(load),
            _median(connect),
            _median(response),
            _median(load),
            _independent(load),
        ]
        rows.append(TabularRow(line, place != before))
        before = place
    return HtmlTable(heads, rows)


def _cell_labels(page_loads: PageLoads, sample: Sample, before: tuple[object, ...] | None) -> list[str]:
    values = tuple(sample.cell.values())
    new = before is None or before[: len(values)] != values
    return [(dim.value_label(sample.cell[dim.key]) or "–") if new else "" for dim in page_loads.cell_dims]


def _count(sample: Sample) -> str:
    finished = len(sample.values)
    return str(finished) if finished == sample.loads else f"{finished} of {sample.loads}"


def _median(sample: Sample) -> str | TabularCell:
    return _interval(sample.median) if sample.values else "–"


def _interval(value: ConfidenceInterval) -> TabularCell:
    text = format_interval(value)
    estimate, mark, bounds = text.partition(" [")
    return TabularCell(estimate, small=f"[{bounds}" if mark else "")


def _independent(sample: Sample) -> str | TabularCell:
    result = autocorrelation(sample.values)
    if result is None:
        return "–" if len(set(sample.values)) != 1 or len(sample.values) < 2 else "no spread"
    return TabularCell("yes" if result.independent else "no", hint=result.reason)


def _comparisons(page_loads: PageLoads, samples: dict[str, list[Sample]]) -> list[TabularRow]:
    rows: list[TabularRow] = []
    before: tuple[object, ...] | None = None
    both = zip(*(_group_samples(samples[metric]) for metric in TIMES), strict=True)
    for groups in both:
        for metric, group in zip(TIMES, groups, strict=True):
            for one, two in pairs(group):
                place = (*one.cell.values(), one.load)
                line = _cell_labels(page_loads, one, before)
                line += [str(one.load) if place != before else "", TIMES[metric].title]
                line += [one.variant, two.variant] if len(page_loads.variants) > 2 else []
                rows.append(TabularRow([*line, *_comparison_cells(one, two)], place != before))
                before = place
    return rows


def _group_samples(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Group samples by cell and load."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    return list(groups.values())


def _comparison_cells(one: Sample, two: Sample) -> list[str | TabularCell]:
    page_loads = compare_samples(one, two)
    names = {"first": one.variant, "second": two.variant, "none": "none"}
    test = welch(list(one.by_seed.values()), list(two.by_seed.values()))
    return [
        "–" if page_loads.ratio is None else _interval(page_loads.ratio),
        TabularCell(names[page_loads.smaller], hint=page_loads.reason),
        join_names(page_loads.by) or "–",
        "–" if test is None else "< 0.001" if test.p < 0.001 else format_significant(test.p, 2),
    ]
