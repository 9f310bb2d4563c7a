"""Registry of all figures: one definition each, for HTML, PDF and SVG.

A figure is an Altair chart with at most about 2,000 rows as inline CSV. Its layout follows from the sweep of the store:
controllers are colours, losses and delays are panels. All other dimensions have one value, which the caption names.
:func:`figures` draws all figures with data in a store, the key figure first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bentpipe.figures import (
    box_plots,
    bundles,
    calls,
    ecdf_plots,
    flow_packets_plots,
    packet_sequence,
    sweep_plots,
    time_sequence,
    time_series,
    users,
)
from bentpipe.figures.context import FigureContext
from bentpipe.figures.export import FigureExport
from bentpipe.figures.figure import Figure
from bentpipe.figures.sweep_dimensions import chosen
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantities import Duration, UnitError
from bentpipe.store.reader import Store, open_store

__all__ = ["FIGURES", "Figure", "FigureContext", "figures", "parse_range", "write_figures"]

TimeRange = tuple[float, float | None]

FIGURES: dict[str, Callable[[FigureContext], Figure | None]] = {
    "page-load-time": box_plots.page_load_time,
    "time-to-response": box_plots.time_to_response,
    "page-load-distribution": ecdf_plots.page_load_distribution,
    "time-to-response-distribution": ecdf_plots.time_to_response_distribution,
    "autocorrelation": ecdf_plots.session_autocorrelation,
    "time-sequence": time_sequence.time_sequence,
    "packet-sequence": packet_sequence.packet_sequence,
    "bundles": bundles.bundles,
    "call-mos": calls.call_mos,
    "call-delay": calls.call_delay,
    "user-goodput": users.user_goodput,
    "completion-time": sweep_plots.completion_time,
    "goodput-by-parameter": sweep_plots.goodput_by_parameter,
    "goodput-shares": sweep_plots.goodput_shares,
    "goodput": time_series.goodput,
    "goodput-since-start": time_series.goodput_since_start,
    "cwnd": time_series.window,
    "rtt": time_series.rtt,
    "propagation-delay": time_series.propagation_delay,
    "flow-time-sequence": flow_packets_plots.flow_time_sequence,
    "flow-flight": flow_packets_plots.flow_flight,
    "flow-queueing": flow_packets_plots.flow_queueing,
    "queue-length": time_series.queue_length,
    "queueing-delay": sweep_plots.queueing_delay,
    "fairness": time_series.fairness,
    "controller-state": time_series.controller_state,
}
"""All figures by key, in the order of a report; a function returns ``None`` without data in the store."""


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text.strip() if text.strip() != "0" else 0).seconds
    except UnitError as error:
        raise ValueError(f"time range: {error}") from None


def parse_range(text: str | None) -> TimeRange:
    """Parse a time range: ``"30 s"`` is the first 30 s, ``"10 s..80 s"`` from 10 to 80 s, ``None`` the whole run.

    Raises:
        ValueError: the text is not a time range; the message has the expected form.
    """
    if text is None:
        return (0.0, None)
    first, dots, last = text.partition("..")
    if not dots:
        return (0.0, _seconds(first))
    span = (_seconds(first) if first.strip() else 0.0, _seconds(last) if last.strip() else None)
    if span[1] is not None and span[1] <= span[0]:
        raise ValueError(f"time range: {text!r} ends before it begins")
    return span


def figures(context: FigureContext, only: Sequence[str] | None = None) -> Iterator[Figure]:
    """Yield all figures, or those in ``only``, with data in the store, in the order of ``FIGURES``.

    Raises:
        KeyError: a key of ``only`` is unknown.
    """
    for key in only or FIGURES:
        figure = FIGURES[key](context)
        if figure is not None:
            yield figure


def write_figures(
    store: Store | Path | str,
    how: FigureExport,
    time_range: TimeRange = (0.0, None),
    *,
    seed: int | None = None,
    at: Sequence[str] = (),
) -> list[Path]:
    """Write every figure of a store, or those that ``how`` selects.

    Args:
        store: store, or its directory.
        how: directory, formats, keys and width of the figures.
        time_range: time range of figures over time, s.
        seed: seed of the runs in figures over time.
        at: ``KEY=VALUE`` of dimensions in figures over time; it reaches every panel of every cell.

    Raises:
        ScenarioError: the store has no such figure, seed, key or value, or the width is too small.
    """
    context = FigureContext(open_store(store), time_range, seed=seed)
    context.fixed = chosen(context.dims, at)
    how.check(FIGURES)
    seeds = sorted(context.store.index["seed"].unique().to_list())
    if seed is not None and seed not in seeds:
        text = f"found {seed}, expected one of: {', '.join(map(str, seeds))}"
        raise ScenarioError([("seed", text)], SOURCE_ARGUMENT)
    if at and context.time_runs.is_empty():
        raise ScenarioError([("cell", f"no run of the store is of {' and '.join(at)}")], SOURCE_ARGUMENT)
    return how.write(list(figures(context, how.only or None)))
