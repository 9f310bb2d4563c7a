"""Page loads in a report: medians with their intervals, and which of two arms is the faster."""

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
    "page-load-time", "time-to-response", "page-load-distribution", "time-to-response-distribution", "sequence",
    "ladder", "independence",
)  # fmt: skip
"""Figures of page loads, in the order of the page."""

DEFINITIONS = {
    "page load time (PLT)": "from connectStart to loadEventEnd; time to response (TTR): from connectStart to "
    "responseStart (W3C Navigation Timing); name resolution is not in it",
    "connect": "connection set-up: from connectStart to connectEnd, transport and TLS",
    "Alt-Svc": "the browser that starts with HTTP/2 and takes HTTP/3 once a server has announced it (RFC 7838)",
    "interval of a median": "between two order statistics, at least 95 %, for any distribution of independent values "
    "(Le Boudec 2010, theorem 2.1); needs 6 values",
    "faster": "the arm that a test names, and “none” where neither does or the two disagree, or where a smaller part "
    "of its loads finished. Ratio: its interval does not hold 1. Intervals (P1): the interval of its median lies "
    "wholly below the other's (Thomas 2018, section 5.1.1). Dominance is named beside them and is no test, because of "
    "few loads it may be chance: at every instant at least as large a part of its loads is done (first-order "
    "stochastic dominance of the empirical distributions)",
    "Welch p": "probability of a difference of means at least this large if the means were equal, with variances of "
    "their own (Welch 1947)",
    "independent": "the autocorrelation of page load times over units, at up to n/4 lags: “yes” unless more of it lies "
    "outside ±1.96/√n than chance explains (binomial, 2.5 %), or one value is far outside",
    "ratio": "geometric mean of the ratios of the first arm to the second, of the same seeds where both have them, "
    "with the 95 % interval of the logarithms' mean (Student's t); loads of one run count as one value, their mean",
}
"""What the words of this section mean."""


MOST_CELLS = 200
"""Most rows of a table."""


def tables(material: FigureContext, most: int = MOST_CELLS) -> tuple[HtmlTable, HtmlTable | None]:
    """The two tables, of ``most`` cells at all: one row a sample, and one row a pair and metric, where something is
    compared."""
    found = PageLoads(material)
    cell = [key for dim in found.cell_dims for key in dim.keys]
    shown, more = first_groups(found.rows, cell, most)
    samples = {metric: found.samples(metric, shown) for metric in TIMES}
    connects = found.samples("connect_s", shown)
    medians = replace(_medians(found, samples["plt_s"], samples["ttr_s"], connects), more=more, what="cells")
    rows = _comparisons(found, samples)
    if not rows:
        return medians, None
    heads = [Heading(dim.title, text=True) for dim in found.cell_dims]
    heads += [Heading("load"), Heading("of", text=True)]
    if len(found.arms) == 2:
        heads.append(Heading("ratio", f"{found.arms[0]} / {found.arms[1]}"))
    else:
        heads += [
            Heading("first", text=True),
            Heading("second", text=True),
            Heading("ratio", "first / second"),
        ]
    heads += [Heading("faster", text=True), Heading("by", text=True), Heading("Welch p")]
    return medians, HtmlTable(heads, rows, more, "cells")


def _medians(
    found: PageLoads, plt: Sequence[Sample], ttr: Sequence[Sample], connects: Sequence[Sample]
) -> HtmlTable:
    heads = [
        *(Heading(dim.title, text=True) for dim in found.cell_dims),
        Heading("load"), Heading(found.arm_title, text=True), Heading("came by", text=True),
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
        here = (*load.cell.values(), load.load)
        line: list[str | TabularCell] = [
            *_cell(found, load, before),
            str(load.load) if here != before else "",
            load.arm,
            ", ".join(load.protocols),
            _count(load),
            _median(connect),
            _median(response),
            _median(load),
            _independent(load),
        ]
        rows.append(TabularRow(line, here != before))
        before = here
    return HtmlTable(heads, rows)


def _cell(found: PageLoads, sample: Sample, before: tuple[object, ...] | None) -> list[str]:
    values = tuple(sample.cell.values())
    new = before is None or before[: len(values)] != values
    return [(dim.word(sample.cell[dim.key]) or "–") if new else "" for dim in found.cell_dims]


def _count(sample: Sample) -> str:
    done = len(sample.values)
    return str(done) if done == sample.loads else f"{done} of {sample.loads}"


def _median(sample: Sample) -> str | TabularCell:
    return _interval(sample.median) if sample.values else "–"


def _interval(value: ConfidenceInterval) -> TabularCell:
    said = format_interval(value)
    estimate, mark, bounds = said.partition(" [")
    return TabularCell(estimate, small=f"[{bounds}" if mark else "")


def _independent(sample: Sample) -> str | TabularCell:
    result = autocorrelation(sample.values)
    if result is None:
        return "–" if len(set(sample.values)) != 1 or len(sample.values) < 2 else "no spread"
    return TabularCell("yes" if result.independent else "no", hint=result.reason)


def _comparisons(found: PageLoads, samples: dict[str, list[Sample]]) -> list[TabularRow]:
    rows: list[TabularRow] = []
    before: tuple[object, ...] | None = None
    both = zip(*(_by_place(samples[metric]) for metric in TIMES), strict=True)
    for groups in both:
        for metric, group in zip(TIMES, groups, strict=True):
            for one, two in pairs(group):
                here = (*one.cell.values(), one.load)
                line = _cell(found, one, before)
                line += [str(one.load) if here != before else "", TIMES[metric].title]
                line += [one.arm, two.arm] if len(found.arms) > 2 else []
                rows.append(TabularRow([*line, *_compared(one, two)], here != before))
                before = here
    return rows


def _by_place(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples of one cell and load together."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    return list(groups.values())


def _compared(one: Sample, two: Sample) -> list[str | TabularCell]:
    found = compare_samples(one, two)
    names = {"first": one.arm, "second": two.arm, "none": "none"}
    test = welch(list(one.by_seed.values()), list(two.by_seed.values()))
    return [
        "–" if found.ratio is None else _interval(found.ratio),
        TabularCell(names[found.smaller], hint=found.reason),
        join_names(found.by) or "–",
        "–" if test is None else "< 0.001" if test.p < 0.001 else format_significant(test.p, 2),
    ]
