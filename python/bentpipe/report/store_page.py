"""The report: one page that opens anywhere, without a network, and says what it rests on.

:func:`build` reads a store and writes HTML; it never runs anything.
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
from bentpipe.metrics.fairness import FAIR_JAIN, HOLD_WINDOWS
from bentpipe.metrics.intervals import format_significant
from bentpipe.report import call_table, page_load_tables, tables
from bentpipe.report.findings import findings
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import HtmlTable, add_tooltips
from bentpipe.report.page import Drawing, Page
from bentpipe.store.journal import host_summary, real_time
from bentpipe.store.reader import Store, open_store

__all__ = ["write_report"]

KEY = ("completion", "goodput-against", "friendliness")
OVER_TIME = (
    "bundles",
    "goodput",
    "goodput-since-start",
    "cwnd",
    "rtt",
    "propagation",
    "queue",
    "fairness",
    "internals",
)
AFTER = ("queueing",)

CARRYING = 3
"""Figures that stand before the tables."""

Told = Callable[[HtmlTable], HtmlTable]
"""A table with what its words mean."""

MOST_VARIANTS = 6
"""Values of the dimension that a reader can choose from; more would only make the page heavy."""

DEFINITIONS = {
    "goodput": "stream bytes that the receiving application could read in order, over the time from the start of the "
    "flow's data to the last of them, or to the end of the run when the flow had more to send",
    "Jain's index": "(Σx)² / (n Σx²) of the flows' goodput: 1 when all get the same, 1/n when one gets all "
    "(Jain, Chiu and Hawe 1984)",
    "fair after": f"from the start of the last flow's data to the first window of 1 s from which Jain's index of the "
    f"windows stays at {FAIR_JAIN} or above for {HOLD_WINDOWS} s (after RFC 5166's delta-fair "
    "convergence time); the median of the runs that get there",
    "completion": "from the opening of a stream to its last byte; the median, or the 95 % quantile, over the streams "
    "of a run that finished, and the mean of these over seeds",
    "handshake": "from the client's first packet of a connection until its handshake is done, of TCP without TLS; the "
    "median over the flow's connections",
    "harm": "(solo − shared) / solo of the goodput, where the sweep holds the same flow alone (Ware et al. 2019)",
    "sent again": "bytes of retransmissions over all bytes sent, headers included",
    "queueing": "the time packets waited for the transmitter, without loss, transmission and propagation",
    "± and bars": "half of the 95 % interval of the mean over seeds (Student's t); seeds are paired between cells",
}


OF_GROUPS = {
    "group": "flows that one table of the scenario stands for, by its count. A group has one value a run: the mean "
    "over its flows, of its bytes for what was sent again, of all its streams for completion times. Over time its "
    "flows are added up: goodput, windows; a round-trip time is the mean over the flows that have a connection then",
    "5th, 50th, 95th percentile": "of the goodput of a group's flows in a run, averaged over seeds",
    "Jain's index within": "of the goodput of a group's flows alone",
}


def write_report(
    store_path: Path | str | Store, out: Path | None = None, time_range: TimeRange = (0.0, None)
) -> Path:
    """Write the report of the store at ``store_path`` to ``out`` (``STORE/report.html`` by default); return its path.

    ``time_range`` (seconds) restricts the figures over time; tables are of whole runs. Raises StoreError.
    """
    store = open_store(store_path)
    page = Page(store.title)
    material = FigureContext(store, time_range)
    place = store_path.path if isinstance(store_path, Store) else Path(store_path)
    page.runs = shown_runs(material, place)
    content = _content(page, material)
    target = out if out is not None else place / "report.html"
    return page.write(target, "report/store_page.html", content.pop("opening"), **content)


def _content(page: Page, material: FigureContext) -> dict[str, Any]:
    """What ``store.html`` shows, in its order."""
    store = material.store
    of = len(store.planned)
    missing = of - store.index.height
    words = _definitions(material)
    meanings = dict(words)

    def told(grid: HtmlTable) -> HtmlTable:
        return add_tooltips(grid, meanings)

    loads = _page_loads(page, material, told) if material.pages.height else None
    heard = _calls(page, material, told) if material.calls.height else None
    key = _drawings(page, material, KEY)
    time = _over_time(page, material)
    first = _carrying(loads, heard, key, time)
    return {
        "opening": Headline(findings(material), summary(material)),
        "carrying": first,
        "missing": f"{missing} of {of} planned runs have not finished." if missing > 0 else "",
        "machine": host_summary(store.path),
        "loads": loads,
        "calls": heard,
        "key": key,
        "results": told(tables.results(material)),
        "groups": told(tables.groups(material)) if material.grouped else None,
        "users": _users(page, material, told) if material.users.height else None,
        "over_time": time,
        "after": _drawings(page, material, AFTER),
        "links": told(tables.links(material)),
        "facts": _facts(store),
        "scenario": store.scenario,
        "definitions": words,
    }


def _carrying(
    loads: Mapping[str, Any] | None,
    heard: Mapping[str, Any] | None,
    key: Sequence[Drawing],
    time: Mapping[str, Any] | None,
) -> list[Drawing]:
    """The figures that carry the verdict: those of what is loaded or heard, else of cells; where there are none, those
    over time, unless a reader first chooses of what."""
    found: Sequence[Drawing] = loads["figures"] if loads else heard["figures"] if heard else key
    if not found and time is not None and len(time["choices"]) <= 1:
        found = time["figures"][:2]
    return list(found[:CARRYING])


def _drawings(page: Page, material: FigureContext, keys: Sequence[str]) -> list[Drawing]:
    """Those of the figures that the store has something for."""
    return [page.drawing(figure) for key in keys if (figure := FIGURES[key](material)) is not None]


def _calls(page: Page, material: FigureContext, told: Told) -> dict[str, Any]:
    return {
        "rows": told(call_table.table(material)),
        "figures": _drawings(page, material, call_table.FIGURES),
    }


def _users(page: Page, material: FigureContext, told: Told) -> dict[str, Any]:
    return {
        "tables": [told(one) for one in tables.users(material)],
        "figures": _drawings(page, material, ["user-goodput"]),
    }


def _page_loads(page: Page, material: FigureContext, told: Told) -> dict[str, Any]:
    medians, comparisons = page_load_tables.tables(material)
    figures = _drawings(page, material, page_load_tables.FIGURES)
    compared = told(comparisons) if comparisons else None
    return {"medians": told(medians), "comparisons": compared, "figures": figures}


def summary(material: FigureContext) -> str:
    """What was run, in a sentence or two."""
    store = material.store
    seeds = store.index["seed"].n_unique()
    count = store.index.height
    ends = store.ends["end_s"]
    longest = float(ends.max() or 0.0)  # type: ignore[arg-type]
    what = _flows(material)
    text = f"{what}, {format_significant(longest, 3)} s a run"
    if material.dims:
        swept = "; ".join(f"{material.title(dim)} {dim.listed}" for dim in material.dims)
        text += f". Swept: {swept}"
    cells = store.index.select(store.columns).n_unique() if store.columns else 1
    text += f". {count:,} runs" if count > 1 else ". One run"
    if count > 1:
        word = "seed" if seeds == 1 else "seeds"
        often = f"{seeds} {word}" if count == cells * seeds else f"up to {seeds} {word}"
        text += f": {cells:,} cells, {often}" if cells > 1 else f" with {often}"
    total = float(ends.sum() or 0.0)
    spent = (
        f"{format_significant(total / 3600, 2)} hours"
        if total >= 7200
        else f"{format_significant(total, 3)} s"
    )
    return f"{text}; {spent} of link time."


def _flows(material: FigureContext) -> str:
    """How many flows there are, and which groups of them."""
    flows = material.ways["flow"].unique(maintain_order=True).to_list()
    groups: dict[str, list[int]] = {}
    if material.grouped:
        of_groups = set(material.metrics.drop_nulls("goodput_sum_bit_s")["flow"].to_list())
        for flow, size in material.metrics.select("flow", "flows").unique(maintain_order=True).iter_rows():
            if flow in of_groups:
                groups.setdefault(flow, []).append(size)
    if not groups:
        return f"{len(flows)} flows share a path" if len(flows) > 1 else f"One flow ({flows[0]}) on a path"
    named = [f"{flow} ({_range(groups[flow])} flows)" if flow in groups else str(flow) for flow in flows]
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    return f"{listed} share a path"


def _range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"


def _over_time(page: Page, material: FigureContext) -> dict[str, Any] | None:
    """Figures over time; what panels hold fixed, a reader chooses."""
    figures = _drawings(page, material, OVER_TIME)
    if not figures:
        return None
    first, last = material.time_range
    choices = variants(material)
    for index, other in enumerate(_held(material)[1:], start=1):
        known = ("each", "metrics", "links")
        other.__dict__.update({name: getattr(material, name) for name in known})
        for key in OVER_TIME:
            if (figure := FIGURES[key](other)) is not None:
                page.variant(figure, index)
    return {
        "span": f", {format_significant(first)} to {format_significant(last)} s" if last is not None else "",
        "choices": [label for _, label in choices],
        "note": material.time_note if len(choices) <= 1 else material.seed_note,
        "figures": figures,
    }


def _held(material: FigureContext) -> list[FigureContext]:
    """``material`` as first drawn, then for each other choice of what panels hold fixed."""
    others = [
        FigureContext(material.store, material.time_range, fixed) for fixed, _ in variants(material)[1:]
    ]
    for other in others:
        other.__dict__.update({name: getattr(material, name) for name in ("summary", "ways", "dims")})
    return [material, *others]


def shown_runs(material: FigureContext, store: Path) -> dict[str, dict[str, str]]:
    """Of the runs that figures over time show, by their numbers there, what each is called and the command that writes
    its packets; ``store`` is how that names the store. Runs in real time do not come again, and are left out."""
    once = {entry["run"] for entry in real_time(material.store.path)}
    found = {}
    for one in _held(material):
        for row in one.time_runs.filter(~pl.col("run").is_in(list(once))).iter_rows(named=True):
            cell = [dim.label(row[dim.key]) for dim in material.dims if row[dim.key] is not None]
            words = ["bentpipe", "export", str(store), "--format", "pcapng", "--run", row["run"]]
            found[one.run_numbers[row["run"]]] = {
                "called": ", ".join([*cell, f"seed {row['seed']}"]),
                "command": shlex.join(words),
            }
    return found


def variants(material: FigureContext) -> list[tuple[dict[str, str], str]]:
    """What the figures over time can hold fixed: the values of the fixed dimensions and how to call them."""
    dims: list[Dimension] = [dim for dim, _ in material.time_grid.fixed]
    while dims:
        combinations = list(itertools.product(*(dim.values for dim in dims)))
        if len(combinations) <= MOST_VARIANTS:
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
    """What the page rests on."""
    seeds = sorted(store.index["seed"].unique().to_list())
    listed = (
        ", ".join(map(str, seeds)) if len(seeds) <= 12 else f"{seeds[0]} to {seeds[-1]} ({len(seeds)} seeds)"
    )
    facts = [
        ("engine", store.engine or "unknown"),
        ("seeds", listed),
        ("runs", f"{store.index.height} finished of {len(store.planned)} planned"),
        ("store", store.path.name),
    ]
    return facts + ([("changed by --set", ", ".join(store.overrides))] if store.overrides else [])


def _definitions(material: FigureContext) -> list[tuple[str, str]]:
    of_pages = page_load_tables.DEFINITIONS if material.pages.height else {}
    of_calls = call_table.DEFINITIONS if material.calls.height else {}
    return list({**DEFINITIONS, **of_pages, **of_calls, **(OF_GROUPS if material.grouped else {})}.items())
