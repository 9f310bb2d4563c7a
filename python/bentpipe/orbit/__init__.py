"""A pair of places over a constellation: delays, hops, handovers and gaps (``bentpipe orbit``).

- ``catalogue``: named constellations and places
- ``query``: parse and run a query
- ``summary``: summary of the answer, as data and text
- ``figures``: figures over time
- ``maps``: figures on a map
- ``page``: HTML page with an animation of the route
- ``export``: traces for other programs
- ``passes``: contact plan of a constellation (``bentpipe dtn passes``)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.orbit.query import RouteQuery

__all__ = ["run"]


def run(
    query: RouteQuery, out: Path | None = None, rate: str | None = None, files: FigureExport | None = None
) -> CommandOutput:
    """Follow the pair and summarise its routes; with ``out``, write page, figures and traces.

    Args:
        query: the pair and its constellation.
        out: directory of the output.
        rate: rate of the Mahimahi trace, such as ``"50 Mbit/s"``; no trace without.
        files: export of figures.

    Raises:
        ScenarioError: the query or ``files`` is invalid.
    """
    from dataclasses import replace

    from bentpipe.orbit.query import parse_rate, run_query
    from bentpipe.orbit.summary import summarise

    delivered = parse_rate(rate, query.duration)
    if files is not None:
        from bentpipe.orbit.figures import KEYS

        files.check(KEYS)
    timeline = run_query(query)
    answer = summarise(query, timeline)
    if out is None and files is None:
        return answer
    from bentpipe.orbit import export, page
    from bentpipe.orbit.figures import figures

    animated = run_query(query, page.frames(len(timeline.names)))
    drawings = figures(query, animated)
    output = answer if files is None else files.added(answer, drawings)
    if out is None:
        return output
    out.mkdir(parents=True, exist_ok=True)
    written = export.write(timeline, out, delivered)
    drawn = page.write(query, animated, answer, out, drawings)
    names = ", ".join(path.name for path in written)
    return replace(
        output,
        shown=(
            *output.shown,
            f"\nPage: {drawn}; figures (.svg, .pdf) and traces in the same directory: {names}",
        ),
    )
