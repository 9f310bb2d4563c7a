"""Contact plans, routes of bundles, and bundle nodes on real sockets.

``contact_plan``: reader of contact plans in ION, TOML and JSON formats
``summary``: contents of a plan
``figures``: figures of a plan
``page``: HTML page of a plan
``export``: a plan in other forms
``route_query``: query about a bundle, from options
``route_decision``: decision of a node, and its reasons
``contact_loss``: cost of the loss of each contact of a route
``route_figure``: figure of a route
``delivery_bound``: delivery bound of a plan
``optimality_gap``: runs compared with that bound
``node_config``: configuration file of a node
``bundle_keys``: keys of signatures
``certificates``: certificates of nodes
``node_plan``: plan of a node for ``bentpipe-rt``
``node``: execution of a node (``bentpipe dtn node``, ``bentpipe dtn perf``)
``node_tables``: tables of a running node
``neighbour_status``: connections of a running node
``dtnperf_monitor``: CSV file of a dtnperf monitor

:func:`plan` is ``bentpipe dtn plan``, :func:`route` is ``bentpipe dtn route``.
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
    """Check a contact plan and summarise it; with ``out``, write a page and figures.

    Args:
        file: plan as ION commands, TOML (``.toml``) or JSON (``.json``).
        out: directory of the page.
        files: additional figure files.
        step: callback at the begin of each step.

    Raises:
        ScenarioError: invalid plan, with the lines; or invalid ``files``.
    """
    from dataclasses import replace

    from bentpipe.dtn.contact_plan import ignore_step, read
    from bentpipe.dtn.summary import summarise

    step = step or ignore_step
    checked = read(file, step)
    step("summarising the node pairs")
    answer = summarise(checked)
    if out is None and files is None:
        return answer
    from bentpipe.dtn import export, page
    from bentpipe.dtn.figures import KEYS, figures
    from bentpipe.scenario.errors import ScenarioError

    if out is not None and file.stem == "plan" and file.resolve().parent == out.resolve():
        raise ScenarioError([("--out", f"{file} exists; choose another directory")])
    step("drawing")
    drawings = figures(checked)
    result = answer
    if files is not None:
        files.check(KEYS)
        result = files.added(answer, drawings)
    if out is None:
        return result
    out.mkdir(parents=True, exist_ok=True)
    drawn = page.write(checked, answer, out, drawings)
    written = export.write(checked, out)
    names = ", ".join(path.name for path in written)
    text = f"\nPage: {drawn}; figures (.svg, .pdf) and the plan in the same directory: {names}"
    return replace(result, shown=(*result.shown, text))


def route(
    file: Path,
    bundle: BundleQuery,
    step: Callable[[str], None] | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Return the decision of a node for a bundle by a plan, its reasons, and the cost of each contact's loss.

    Args:
        file: plan, as for :func:`plan`.
        bundle: query.
        step: callback at the begin of each step.
        files: figure files.

    Raises:
        ScenarioError: invalid plan, query or ``files``.
    """
    from bentpipe.dtn.contact_loss import earliest_arrival, route_without_contacts
    from bentpipe.dtn.contact_plan import ignore_step, read
    from bentpipe.dtn.route_decision import headline, summarise
    from bentpipe.dtn.route_query import ask, instant

    step = step or ignore_step
    if files is not None:
        from bentpipe.dtn.route_figure import KEY

        files.check([KEY])
    checked = read(file, step)
    step("searching routes")
    answer = ask(checked, bundle)
    losses = route_without_contacts(checked, bundle, answer, step)
    output = summarise(checked, bundle, answer, losses)
    if files is None:
        return output
    from bentpipe.dtn.route_figure import draw_route

    step("drawing")
    figure = draw_route(
        checked, instant(checked, bundle.at), earliest_arrival(answer), losses, headline(bundle, answer)
    )
    return files.added(output, [figure] if figure is not None else [])
