"""HTML report of a store: one page without network access, with its provenance.

:func:`write_report` reads a store and writes HTML; it runs nothing.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.figures.registry import FIGURES, FigureContext, TimeRange
from bentpipe.figures.sweep_dimensions import Dimension
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.report import call_table, page_load_tables, tables
from bentpipe.report.findings import findings, variant_pairs
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import HtmlTable, add_tooltips
from bentpipe.report.page import Drawing, Page
from bentpipe.report.unfinished import unfinished_note
from bentpipe.store.journal import host_summary, real_time
from bentpipe.store.reader import Store, open_store
from bentpipe.store.settings import effective_scenario

__all__ = ["write_report"]

KEY = ("completion-time", "goodput-by-parameter", "goodput-shares")
OVER_TIME = (
    "bundles",
    "goodput",
    "goodput-since-start",
    "cwnd",
    "rtt",
    "propagation-delay",
    "queue-length",
    "flow-time-sequence",
    "flow-flight",
    "flow-queueing",
    "fairness",
    "controller-state",
)
AFTER = ("queueing-delay",)

MAX_KEY_FIGURES = 3
"""Largest number of figures before the tables."""

Annotate = Callable[[HtmlTable], HtmlTable]
"""Function that adds tooltips with definitions to a table."""

MAX_VARIANTS = 6
"""Largest number of values of a dimension to choose from, because each adds figures to the page."""

INTERVAL_DEFINITION = {
    "± and bars": (
        "half-width of the 95 % confidence interval of the mean over seeds (Student's t); seeds are "
        "paired between cells. Two ends in brackets are an interval that ends at the range of the metric, such as 0. "
        "A question mark after it means too few seeds: it exceeds the mean. “? (n of m)” is of the n runs with a value "
        "only, such as a completion time of the finished transfers"
    ),
}
GROUP_DEFINITION = {
    "group": (
        "flows of one scenario table with a count. A group has one value per run: the mean over its "
        "flows, over its bytes (retransmissions) or over its streams (completion time). Time series "
        "of a group are sums of goodput and windows. Their RTT is the mean over the flows with a "
        "connection at that time"
    ),
}


def write_report(
    store_path: Path | str | Store, out: Path | None = None, time_range: TimeRange = (0.0, None)
) -> Path:
    """Write the report of a store; return its path.

    Args:
        store_path: store, or its directory.
        out: file; by default ``STORE/report.html``.
        time_range: time range of figures over time, s; tables are of complete runs.

    Raises:
        StoreError: ``store_path`` is not a store, or has no finished run.
    """
    store = open_store(store_path)
    page = Page(store.title)
    context = FigureContext(store, time_range)
    places = [part.path for part in store_path.parts] if isinstance(store_path, Store) else [Path(store_path)]
    page.runs = shown_runs(context, places)
    content = _content(page, context)
    target = out if out is not None else default_file(places)
    return page.write(target, "report/store_page.html", content.pop("opening"), **content)


def default_file(places: Sequence[Path], kind: str = "report") -> Path:
    """Return the file of a report: in its store, or beside the first of several stores with the names of all."""
    if len(places) == 1:
        return places[0] / f"{kind}.html"
    names = [place.resolve().name for place in places]
    suffix = "" if kind == "report" else f"-{kind}"
    return places[0].parent / f"{'-'.join(names)[:MAX_NAME]}{suffix}.html"


MAX_NAME = 100
"""Characters of a file name from the names of stores."""


def _content(page: Page, context: FigureContext) -> dict[str, Any]:
    """Return the data of ``store_page.html``, in its order."""
    store = context.store
    definitions = _definitions(context)
    tooltips = dict(definitions)

    def annotate(grid: HtmlTable) -> HtmlTable:
        return add_tooltips(grid, tooltips)

    loads = _page_loads(page, context, annotate) if context.pages.height else None
    call_section = _calls(page, context, annotate) if context.calls.height else None
    key = _drawings(page, context, KEY)
    time = _over_time(page, context)
    first = _key_figures(loads, call_section, key, time)
    return {
        "opening": Headline(findings(context), summary(context)),
        "carrying": first,
        "missing": missing_text(context),
        "machine": " ".join(filter(None, (host_summary(part.path) for part in store.parts))),
        "loads": loads,
        "calls": call_section,
        "key": key,
        "pairs": variant_pairs(context),
        "results": annotate(tables.results(context)),
        "groups": annotate(tables.groups(context)) if context.grouped else None,
        "users": _users(page, context, annotate) if context.users.height else None,
        "over_time": time,
        "after": _drawings(page, context, AFTER),
        "links": annotate(tables.links(context)),
        "facts": _facts(store),
        "scenario": effective_scenario(store),
        "definitions": definitions,
    }


def _key_figures(
    loads: Mapping[str, Any] | None,
    call_section: Mapping[str, Any] | None,
    key: Sequence[Drawing],
    time: Mapping[str, Any] | None,
) -> list[Drawing]:
    """Return the figures before the tables: those of page loads or calls, else those of cells.

    Without any, they are figures over time, unless these have variants to choose from.
    """
    figures: Sequence[Drawing] = (
        loads["figures"] if loads else call_section["figures"] if call_section else key
    )
    if not figures and time is not None and len(time["choices"]) <= 1:
        figures = time["figures"][:2]
    return list(figures[:MAX_KEY_FIGURES])


def _drawings(page: Page, context: FigureContext, keys: Sequence[str]) -> list[Drawing]:
    """Add the figures with data in the store to the page; return their placeholders."""
    return [page.drawing(figure) for key in keys if (figure := FIGURES[key](context)) is not None]


def _calls(page: Page, context: FigureContext, annotate: Annotate) -> dict[str, Any]:
    return {
        "rows": annotate(call_table.table(context)),
        "figures": _drawings(page, context, call_table.FIGURES),
    }


def _users(page: Page, context: FigureContext, annotate: Annotate) -> dict[str, Any]:
    return {
        "tables": [annotate(one) for one in tables.users(context)],
        "figures": _drawings(page, context, ["user-goodput"]),
    }


def _page_loads(page: Page, context: FigureContext, annotate: Annotate) -> dict[str, Any]:
    medians, comparisons = page_load_tables.tables(context)
    figures = _drawings(page, context, page_load_tables.FIGURES)
    compared = annotate(comparisons) if comparisons else None
    return {"medians": annotate(medians), "comparisons": compared, "figures": figures}


def missing_text(context: FigureContext) -> str:
    """Return sentences on runs and transfers that did not finish; empty if all did."""
    planned = len(context.store.planned)
    missing = planned - context.store.index.height
    runs = f"{missing} of {planned} planned runs have not finished." if missing > 0 else ""
    note = unfinished_note(context)
    return " ".join(filter(None, [runs, f"{note}." if note else ""]))


def summary(context: FigureContext) -> str:
    """Return one or two sentences about the flows, the sweep and the runs."""
    store = context.store
    seeds = store.index["seed"].n_unique()
    count = store.index.height
    ends = store.ends["end_s"]
    longest = float(ends.max() or 0.0)  # type: ignore[arg-type]
    text = f"{_flows(context)}, {format_significant(longest, 3)} s per run"
    if context.dims:
        swept = "; ".join(f"{context.title(dim)} {dim.values_text}" for dim in context.dims)
        text += f". Swept: {swept}"
    cells = store.index.select(store.columns).n_unique() if store.columns else 1
    text += f". {count:,} runs" if count > 1 else ". One run"
    if count > 1:
        word = "seed" if seeds == 1 else "seeds"
        repetitions = f"{seeds} {word}" if count == cells * seeds else f"up to {seeds} {word}"
        text += f": {cells:,} cells, {repetitions}" if cells > 1 else f" with {repetitions}"
    total = float(ends.sum() or 0.0)
    link_time = (
        f"{format_significant(total / 3600, 2)} hours"
        if total >= 7200
        else f"{format_significant(total, 3)} s"
    )
    return f"{text}; {link_time} of link time."


def _flows(context: FigureContext) -> str:
    """Return the part of the summary about flows and groups."""
    flows = context.directions["flow"].unique(maintain_order=True).to_list()
    groups: dict[str, list[int]] = {}
    if context.grouped:
        of_groups = set(context.metrics.drop_nulls("goodput_sum_bit_s")["flow"].to_list())
        for flow, size in context.metrics.select("flow", "flows").unique(maintain_order=True).iter_rows():
            if flow in of_groups:
                groups.setdefault(flow, []).append(size)
    if not groups:
        return f"{len(flows)} flows share a path" if len(flows) > 1 else f"One flow ({flows[0]}) on a path"
    named = [f"{flow} ({_range(groups[flow])} flows)" if flow in groups else str(flow) for flow in flows]
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    return f"{listed} share a path"


def _range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"


def _over_time(page: Page, context: FigureContext) -> dict[str, Any] | None:
    """Return the figures over time, with variants for the values of fixed dimensions."""
    figures = _drawings(page, context, OVER_TIME)
    if not figures:
        return None
    first, last = context.time_range
    choices = variants(context)
    for index, other in enumerate(_variant_contexts(context)[1:], start=1):
        known = ("flow_metrics", "metrics", "links")
        other.__dict__.update({name: getattr(context, name) for name in known})
        for key in OVER_TIME:
            if (figure := FIGURES[key](other)) is not None:
                page.variant(figure, index)
    return {
        "span": f", {format_significant(first)} to {format_significant(last)} s" if last is not None else "",
        "choices": [label for _, label in choices],
        "note": context.time_note if len(choices) <= 1 else context.seed_note,
        "figures": figures,
    }


def _variant_contexts(context: FigureContext) -> list[FigureContext]:
    """Return ``context``, then one context for each other variant."""
    others = [FigureContext(context.store, context.time_range, fixed) for fixed, _ in variants(context)[1:]]
    for other in others:
        other.__dict__.update(
            {name: getattr(context, name) for name in ("flow_summary", "directions", "dims")}
        )
    return [context, *others]


def shown_runs(context: FigureContext, places: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Return label and export command of each run in figures over time, by its number there.

    The command writes the packets of the run. Runs in real time are not repeatable and have no entry.

    Args:
        context: context of the figures.
        places: paths of the stores in the command.
    """
    unrepeatable = {entry["run"] for part in context.store.parts for entry in real_time(part.path)}
    stores = {
        row["id"]: str(place)
        for place, part in zip(places, context.store.parts, strict=True)
        for row in part.planned
    }
    found = {}
    for one in _variant_contexts(context):
        for row in one.time_runs.filter(~pl.col("run").is_in(list(unrepeatable))).iter_rows(named=True):
            cell = [dim.label(row[dim.key]) for dim in context.dims if row[dim.key] is not None]
            words = ["bentpipe", "export", stores[row["run"]], "--format", "pcapng", "--run", row["run"]]
            found[one.run_numbers[row["run"]]] = {
                "called": ", ".join([*cell, f"seed {row['seed']}"]),
                "command": shlex.join(words),
            }
    return found


def variants(context: FigureContext) -> list[tuple[dict[str, str], str]]:
    """Return the variants of figures over time: values of the fixed dimensions and their label."""
    dims: list[Dimension] = [dim for dim, _ in context.time_grid.fixed]
    while dims:
        combinations = list(itertools.product(*(dim.values for dim in dims)))
        if len(combinations) <= MAX_VARIANTS:
            return [
                (
                    {dim.key: value for dim, value in zip(dims, values, strict=True)},
                    ", ".join(dim.label(value) for dim, value in zip(dims, values, strict=True)),
                )
                for values in combinations
            ]
        dims.pop()
    return []


def _facts(store: Store) -> list[tuple[str, str]]:
    """Return the provenance of the page."""
    seeds = sorted(store.index["seed"].unique().to_list())
    listed = (
        ", ".join(map(str, seeds)) if len(seeds) <= 12 else f"{seeds[0]} to {seeds[-1]} ({len(seeds)} seeds)"
    )
    facts = [
        ("engine", store.engine or "unknown"),
        ("seeds", listed),
        ("runs", f"{store.index.height} finished of {len(store.planned)} planned"),
        ("store", ", ".join(part.path.name for part in store.parts)),
    ]
    return facts + ([("changed by --set", ", ".join(store.settings))] if store.settings else [])


def _definitions(context: FigureContext) -> list[tuple[str, str]]:
    """Return the definitions of the terms of the page."""
    groups = tables.GROUPS if context.grouped else ()
    metrics = (*tables.result_metrics(context), *(METRICS[name] for name in (*groups, *tables.LINKS)))
    terms = {metric.title: metric.definition for metric in metrics} | INTERVAL_DEFINITION
    terms |= GROUP_DEFINITION if context.grouped else {}
    terms |= page_load_tables.DEFINITIONS if context.pages.height else {}
    terms |= call_table.DEFINITIONS if context.calls.height else {}
    return list(terms.items())
