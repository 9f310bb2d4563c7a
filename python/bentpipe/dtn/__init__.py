"""Contact plans, the routes of bundles by them, and bundle nodes on real sockets.

``reading`` has a plan of a file, in any of its forms; ``summary`` says what is in one, ``drawing`` draws it, ``page``
puts it on a page, ``export`` writes it in another form; ``asking`` makes a question about a bundle out of words,
``deciding`` says what is done with it and why; ``best`` has the most that a plan allows, ``distance`` how far runs were
from it. :func:`plan` is ``bentpipe dtn plan``, :func:`route` is
``bentpipe dtn route``. ``node_file`` has a node of a file, ``planning`` its plan (``secrets`` the keys in it), ``node``
runs it (``bentpipe dtn node`` and ``bentpipe dtn perf``), ``key`` makes the certificate by which it proves who it is.
Of a node that runs ``tables`` writes the rows, ``reached`` counts the connections and ``monitor`` writes dtnperf's CSV.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.dtn.route_query import BundleQuery
    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput

__all__ = ["plan", "route"]


def plan(
    file: Path,
    out: Path | None = None,
    files: FigureExport | None = None,
    step: Callable[[str], None] | None = None,
) -> CommandOutput:
    """Checks a contact plan, says what is in it and, with ``out``, draws it there.

    Args:
        file: ION's commands, TOML (``.toml``) or JSON (``.json``).
        out: a folder.
        files: figures as files of their own.
        step: is told what begins.

    Raises:
        ScenarioError: what is wrong with the plan, by its lines; or with ``files``.
    """
    from dataclasses import replace

    from bentpipe.dtn.contact_plan import read, unseen
    from bentpipe.dtn.summary import summarise

    step = step or unseen
    found = read(file, step)
    step("summing up its pairs")
    answer = summarise(found)
    if out is None and files is None:
        return answer
    from bentpipe.dtn import export, page
    from bentpipe.dtn.figures import KEYS, figures
    from bentpipe.scenario.errors import ScenarioError

    if out is not None and file.stem == "plan" and file.resolve().parent == out.resolve():
        raise ScenarioError([("--out", f"{file} would be written over, expected another folder")])
    step("drawing")
    drawings = figures(found)
    listed = answer
    if files is not None:
        files.check(KEYS)
        listed = files.added(answer, drawings)
    if out is None:
        return listed
    out.mkdir(parents=True, exist_ok=True)
    drawn = page.write(found, answer, out, drawings)
    written = export.write(found, out)
    names = ", ".join(path.name for path in written)
    text = f"\nThe page: {drawn}; beside it figures (.svg, .pdf) and the plan again: {names}"
    return replace(listed, shown=(*listed.shown, text))


def route(file: Path, bundle: BundleQuery, step: Callable[[str], None] | None = None) -> CommandOutput:
    """Says what a node does with a bundle by a plan, and why.

    Args:
        file: the plan, as :func:`plan` has it.
        bundle: what is asked.
        step: is told what begins.

    Raises:
        ScenarioError: what is wrong with the plan or the question.
    """
    from bentpipe.dtn.contact_plan import read, unseen
    from bentpipe.dtn.route_decision import summarise
    from bentpipe.dtn.route_query import ask

    step = step or unseen
    found = read(file, step)
    step("searching routes")
    return summarise(found, bundle, ask(found, bundle))
