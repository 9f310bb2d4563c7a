"""The controllers' suite: congestion controllers in published scenarios, measured beside published.

``config``: controllers and scenarios of a suite
``entry``: scenario files with sources and criteria
``criterion``: expected value of a measure, and its verdict
``laws``: closed forms of controllers
``measures``: measures of the flow under test
``checks``: checks of a controller alone
``execution``: runs, one store for each scenario and controller
``results``: criteria with their values and verdicts
``comparison``: controllers side by side
``document``: JSON document and its checker
``headline``: first sentences
``figures``: small multiples
``tables``: outcomes, missed criteria, criteria of a scenario
``page``: HTML page and other files

:func:`run` is ``bentpipe suite``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.suite.config import SuiteConfig, parse_config

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.runners.execute import Observer

__all__ = ["SuiteConfig", "parse_config", "run"]


def run(
    config: SuiteConfig,
    out: Path,
    *,
    jobs: int | None = None,
    watch: Observer | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Compute the missing runs of a suite, write its files and return the tables.

    The files are ``suite.html``, ``suite.json``, the figure as SVG and PDF, and ``scenarios/``. The first message of
    ``watch`` is the estimated time.

    Args:
        config: input of the suite.
        out: directory of the stores and files.
        jobs: number of worker processes (default: one for each processor).
        watch: callbacks for progress and messages.
        files: export of the figure to further files.

    Raises:
        ScenarioError: a scenario does not accept a controller, or ``files`` is wrong.
        bentpipe.StoreError: ``out`` holds another engine's stores.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    from bentpipe.metrics.change_table import format_rows, notes, rows
    from bentpipe.metrics.format import CommandOutput, TextTable
    from bentpipe.runners import engine
    from bentpipe.suite.checks import check_cell
    from bentpipe.suite.comparison import compare_controllers
    from bentpipe.suite.document import document
    from bentpipe.suite.execution import estimate_seconds, plan_parts, run_parts
    from bentpipe.suite.figures import KEY, draw_suite
    from bentpipe.suite.headline import headline_text, supporting_text
    from bentpipe.suite.page import commands_of, write, write_scenarios
    from bentpipe.suite.results import Outcome, read_results
    from bentpipe.suite.tables import missed_rows, outcome_rows, reason_lines

    if files is not None:
        files.check([KEY])
    parts = plan_parts(config)
    if watch is not None:
        runs = sum(len(part.plan.runs) for part in parts)
        watch.on_message(f"{runs} runs, about {estimate_seconds(parts, jobs):.0f} s")
    write_scenarios(parts, out)
    execution = run_parts(parts, out, jobs=jobs, watch=watch)
    checks = [check_cell(one) for one in config.controllers] if config.has_checks else []
    result = read_results(parts, out, execution.failures, engine.version(), checks)
    comparison = compare_controllers(result, config.against) if config.against else None
    page = write(result, parts, out, config.seeds, comparison)
    reused = f", {execution.reused} from earlier runs" if execution.reused else ""
    summary = f"\n{execution.done} runs in {execution.seconds:.0f} s{reused}. Page: {page}; data: {out / 'suite.json'}"
    missed = [TextTable("Missed criteria", rows_missed)] if (rows_missed := missed_rows(result)) else []
    compared: list[str | TextTable] = []
    if comparison is not None:
        title = f"Compared with {config.against}"
        compared = [TextTable(title, format_rows(comparison)), *notes(comparison)]
    outcomes = {cell.outcome for cell in result.cells}
    output = CommandOutput(
        document(result, commands_of(result, parts, out, config.seeds))
        | ({} if comparison is None else {"comparison": rows(comparison.changes)}),
        (
            headline_text(result),
            supporting_text(result),
            TextTable("", outcome_rows(result)),
            *missed,
            *reason_lines(result),
            *compared,
            summary,
        ),
        tuple(f"{entry}, {controller}: {error}" for (entry, controller), error in execution.failures.items()),
        not outcomes & {Outcome.FAILS, Outcome.ERROR},
        page,
    )
    return output if files is None else files.added(output, [draw_suite(result)])
