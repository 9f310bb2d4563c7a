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

:func:`run` is ``bentpipe link-layer``, and :func:`compare_link_layer` is ``bentpipe.compare_link_layer``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.link_layer.access import find_access
from bentpipe.link_layer.config import DURATION, PLAYOUT, SEEDS, LinkLayerConfig, parse_config
from bentpipe.link_layer.overrides import check_options, resolve_access
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.sweep import format_override, parse_override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.figures.export import FigureExport
    from bentpipe.link_layer.results import Comparison
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import ExecutionSummary, Observer

__all__ = [
    "LinkLayerConfig",
    "compare_link_layer",
    "find_access",
    "parse_config",
    "plan_comparison",
    "resolve_access",
    "run",
]


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
    from bentpipe.link_layer.results import table_rows
    from bentpipe.metrics.format import CommandOutput, TextTable

    if files is not None:
        files.check([KEY])
    comparison, report = _compute(config, out, jobs, watch)
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


def compare_link_layer(
    access: str = "nr-ntn-leo",
    *,
    snr: str | None = None,
    elevation: str | None = None,
    block_error_rate: str | None = None,
    only: Sequence[str] = (),
    baseline: str | None = None,
    congestion: str = "cubic",
    codec: str = "g711",
    playout: str = str(PLAYOUT),
    duration: str = DURATION,
    size: str | None = None,
    seeds: int = SEEDS,
    settings: Mapping[str, object] | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Comparison:
    """Compare HARQ, RLC and reordering settings of a radio link for TCP, QUIC and a call.

    Only missing runs are computed. The files of ``bentpipe link-layer`` are written beside the store.

    Args:
        access: a mobile preset (:func:`bentpipe.presets`) or a scenario file, which needs a path only.
        snr: signal-to-noise ratio of the channel, such as ``"7 dB"``.
        elevation: elevation of the satellite for the channel, such as ``"60 deg"``.
        block_error_rate: block error rates by attempt without a channel, such as ``"30 %,3 %"``.
        only: labels of the settings besides the baseline; empty: all.
        baseline: label of the baseline (default: the first setting).
        congestion: congestion controller of TCP and QUIC.
        codec: codec of the call.
        playout: play-out of the call: ``"p99"``, ``"60 ms"`` or ``"adaptive"``.
        duration: duration of each run.
        size: size of the downloads (default: they last as long as the run).
        seeds: number of seeds.
        settings: dotted keys to set, as ``--set`` does.
        jobs: number of worker processes (default: one for each processor).
        out: directory of the comparison (default: ``out/link-layer-ACCESS`` and changes).

    Raises:
        bentpipe.ScenarioError: an argument is wrong.
        bentpipe.StoreError: ``out`` holds another comparison.
        bentpipe.RunsFailedError: some runs failed.
    """
    from bentpipe.api.results import Results
    from bentpipe.api.run import RunsFailedError
    from bentpipe.link_layer.page import write
    from bentpipe.plan.default_folder import default_folder

    overrides = [format_override(*item) for item in (settings or {}).items()]
    resolved, remaining = resolve_access(
        access, overrides, snr=snr, elevation=elevation, block_error_rate=block_error_rate
    )
    config = parse_config(
        resolved,
        congestion=congestion,
        codec=codec,
        duration=duration,
        size=size,
        seeds=seeds,
        only=tuple(only),
        baseline=baseline,
        playout=playout,
        settings=remaining,
    )
    folder = default_folder(f"link-layer-{resolved.name}", config.all_overrides)
    directory = folder if out is None else Path(out)
    comparison, report = _compute(config, directory, jobs, None)
    if report.failed:
        raise RunsFailedError(Results(directory / "store"), report)
    write(comparison, directory)
    return comparison


def _compute(
    config: LinkLayerConfig, out: Path, jobs: int | None, watch: Observer | None
) -> tuple[Comparison, ExecutionSummary]:
    """Compute the missing runs and return the comparison. Raises as :func:`run`."""
    from bentpipe.link_layer.results import read_comparison
    from bentpipe.link_layer.summary import describe_path
    from bentpipe.plan.analysis.lint import lint_plan
    from bentpipe.runners.execute import execute
    from bentpipe.runners.local import LocalRunner

    plan = plan_comparison(config)
    if watch is not None:
        for message in lint_plan(plan):
            watch.on_message(f"warning: {message.key}: {message.text}")
    report = execute(plan, LocalRunner(jobs), out / "store", watch=watch)
    return read_comparison(out / "store", config, describe_path(config, plan)), report
