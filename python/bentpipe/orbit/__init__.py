"""A pair of places over a constellation: its delays, hops, hand-overs and gaps.

``listing`` has what is known by name, ``asking`` makes a question out of words, ``summary`` says what came of it,
``drawing`` and ``maps`` draw it, ``page`` puts it on a page with a picture that moves, ``traces`` writes it for other
programs; :func:`run` is ``bentpipe orbit``. ``passes`` writes the contact plan of a constellation
(``bentpipe dtn passes``).
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
    question: RouteQuery, out: Path | None = None, rate: str | None = None, files: FigureExport | None = None
) -> CommandOutput:
    """Follows the pair, says what came of it and, with ``out``, draws it there and writes its traces.

    Args:
        question: which pair.
        out: a folder.
        rate: what Mahimahi's trace is to deliver, such as ``"50 Mbit/s"``; without one it is not written.
        files: figures as files of their own.

    Raises:
        ScenarioError: what is wrong with the question, or with ``files``.
    """
    from dataclasses import replace

    from bentpipe.orbit.query import rate_of, run_query
    from bentpipe.orbit.summary import summarise

    delivered = rate_of(rate, question.duration)
    if files is not None:
        from bentpipe.orbit.figures import KEYS

        files.check(KEYS)
    found = run_query(question)
    answer = summarise(question, found)
    if out is None and files is None:
        return answer
    from bentpipe.orbit import export, page
    from bentpipe.orbit.figures import figures

    seen = run_query(question, page.frames(len(found.names)))
    drawings = figures(question, seen)
    listed = answer if files is None else files.added(answer, drawings)
    if out is None:
        return listed
    out.mkdir(parents=True, exist_ok=True)
    written = export.write(found, out, delivered)
    drawn = page.write(question, seen, answer, out, drawings)
    names = ", ".join(path.name for path in written)
    return replace(
        listed,
        shown=(*listed.shown, f"\nThe page: {drawn}; beside it figures (.svg, .pdf) and traces: {names}"),
    )
