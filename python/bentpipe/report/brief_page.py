"""Brief report of a store for a decision: one sentence and three figures on two printed pages."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.figures.registry import FIGURES, FigureContext, TimeRange
from bentpipe.report.findings import first_finding
from bentpipe.report.headline import Headline
from bentpipe.report.page import Page
from bentpipe.report.store_page import default_file, missing_text, summary
from bentpipe.store.reader import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.figures.figure import Figure

__all__ = ["choose_figures", "write_brief"]

PARTS: Sequence[Sequence[str]] = (
    ("page-load-time", "call-mos", "goodput-by-parameter", "goodput-shares", "bundles"),
    ("call-mos", "completion-time", "page-load-distribution", "user-goodput", "call-delay", "goodput-shares"),
    ("goodput", "goodput-since-start"),
)
"""Keys of the figures, the preferred ones first: the metric of the sentence, quality, goodput over time."""

OVER_TIME = ("goodput", "goodput-since-start")
"""Figures of one seed and of some cells."""


def write_brief(
    store_path: Path | str | Store, out: Path | None = None, time_range: TimeRange = (0.0, None)
) -> Path:
    """Write the brief report of a store; return its path.

    Args:
        store_path: store, or its directory.
        out: file; by default ``STORE/brief.html``, of several stores beside the first.
        time_range: time range of figures over time, s.

    Raises:
        StoreError: ``store_path`` is not a store, or has no finished run.
    """
    store = open_store(store_path)
    places = [part.path for part in store_path.parts] if isinstance(store_path, Store) else [Path(store_path)]
    context = FigureContext(store, time_range)
    page = Page(store.title)
    drawings = [page.drawing(figure) for figure in choose_figures(context)]
    return page.write(
        out if out is not None else default_file(places, "brief"),
        "report/brief_page.html",
        Headline(first_finding(context), summary(context)),
        sheets=[drawings[:1], drawings[1:]],
        missing=missing_text(context),
        time_keys=OVER_TIME,
        time_note=context.time_note,
        command=shlex.join(["bentpipe", "report", *(place.resolve().name for place in places)]),
        engine=store.engine,
    )


def choose_figures(context: FigureContext) -> list[Figure]:
    """Return three figures with data: one of each of :data:`PARTS`, then others in the order of a report."""
    chosen: dict[str, Figure] = {}
    for keys in PARTS:
        for key in keys:
            if key not in chosen and (figure := FIGURES[key](context)) is not None:
                chosen[key] = figure
                break
    tried = set(itertools.chain.from_iterable(PARTS))
    for key in FIGURES:
        if len(chosen) >= len(PARTS):
            break
        if key not in tried and (figure := FIGURES[key](context)) is not None:
            chosen[key] = figure
    return list(chosen.values())
