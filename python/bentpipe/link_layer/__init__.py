"""Comparison of HARQ, RLC and reordering settings of a radio link for TCP, QUIC and a call.

``access``: access network with a radio link
``overrides``: overrides of an access, and those without effect
``config``: input of a comparison, and its scenario
``summary``: parameters of the path
``results``: means and paired comparisons from the store
``recommendation``: effect of a reordering buffer, and one setting for all traffic
``headline``: settings that are better than the baseline
``figures``: figure of the comparison
``page``: HTML page, figure, data and scenario

:func:`run` is ``bentpipe link-layer``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.link_layer.access import find_access
from bentpipe.link_layer.config import LinkLayerConfig, parse_config
from bentpipe.link_layer.overrides import check_options, resolve_access
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.sweep import parse_override

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import Observer

__all__ = ["LinkLayerConfig", "find_access", "parse_config", "plan_comparison", "resolve_access", "run"]


def plan_comparison(config: LinkLayerConfig) -> Plan:
    """Return the runs of a comparison.

    Raises:
        ScenarioError: an argument is wrong.
    """
    from bentpipe.link_layer.config import FLOW, scenario
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine

    settings = list(config.overrides)
    overrides = [parse_override(text) for text in settings]
    check_options([key for key, _ in overrides])
    document = load_scenario(scenario(config), overrides, settings)
    document = replace(document, folder=config.access.folder)
    try:
        return build_plan(document, engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit)
    except ScenarioError as error:
        key = f"flow.{FLOW}.congestion"
        if not all(found == key for found, _ in error.problems):
            raise
        first = [("congestion", text.partition(" (in the sweep")[0]) for _, text in error.problems[:1]]
        raise ScenarioError(first, SOURCE_ARGUMENT) from None


def run(
    config: LinkLayerConfig,
    out: Path,
    *,
    jobs: int | None = None,
    watch: Observer | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Compute the missing runs of a comparison, write its files and return the tables.

    The files are ``link-layer.html``, ``link-layer.json``, the figure as SVG and PDF, and ``scenario.toml``.

    Args:
        config: input of the comparison.
        out: directory of the comparison; its store is ``out/store``.
        jobs: number of worker processes (default: one for each processor).
        watch: callbacks for progress and messages.
        files: export of the figure to further files.

    Raises:
        ScenarioError: the input or ``files`` is wrong.
        bentpipe.StoreError: ``out`` holds another comparison.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    from bentpipe.link_layer.config import TRAFFIC
    from bentpipe.link_layer.figures import KEY, draw_comparison
    from bentpipe.link_layer.headline import headline_text, supporting_text
    from bentpipe.link_layer.page import comparison_data, table_notes, table_title, write
    from bentpipe.link_layer.results import read_comparison, table_rows
    from bentpipe.link_layer.summary import describe_path
    from bentpipe.metrics.format import CommandOutput, TextTable
    from bentpipe.plan.analysis.lint import lint_plan
    from bentpipe.runners.execute import execute
    from bentpipe.runners.local import LocalRunner

    if files is not None:
        files.check([KEY])
    plan = plan_comparison(config)
    if watch is not None:
        for message in lint_plan(plan):
            watch.on_message(f"warning: {message.key}: {message.text}")
    report = execute(plan, LocalRunner(jobs), out / "store", watch=watch)
    comparison = read_comparison(out / "store", config, describe_path(config, plan))
    page = write(comparison, out)
    reused = f", {report.reused} from earlier runs" if report.reused else ""
    parts: list[str | TextTable] = [headline_text(comparison), supporting_text(comparison)]
    for traffic in TRAFFIC:
        table = TextTable(table_title(comparison, traffic), table_rows(comparison, traffic))
        parts += ["", table, *table_notes(comparison, traffic)]
    parts.append(
        f"\n{report.done} runs in {report.seconds:.0f} s{reused}. Page: {page}; scenario: {out / 'scenario.toml'}"
    )
    output = CommandOutput(
        comparison_data(comparison),
        tuple(parts),
        tuple(f"failed: {failure.run}: {failure.error}" for failure in report.failed[:10]),
        not report.failed,
        page,
    )
    return output if files is None else files.added(output, [draw_comparison(comparison)])
