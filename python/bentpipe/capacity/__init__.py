"""Capacity of an access: largest number of users for whom calls and page loads are good enough.

``access``: path that the users share
``config``: input of a search, and its scenario
``estimate``: estimate of the capacity before any run
``quality``: mean opinion scores and page load times of the users of a run
``search``: search for the largest number of users, and its result
``runs``: scenario, plans and store of a search
``binding``: direction of the path, or its latency, that limits the number of users
``advice``: causes and changes, if no number of users meets the criterion
``headline``: sentence of the result
``figures``: MOS and page load time over the number of users
``page``: HTML page, figure, JSON and scenario of the result

:func:`run` is ``bentpipe capacity``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.capacity.access import resolve_access
from bentpipe.capacity.config import CapacityConfig, parse_config

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.capacity.runs import Search
    from bentpipe.capacity.search import Capacity
    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.runners.execute import Observer

__all__ = ["CapacityConfig", "parse_config", "resolve_access", "run"]

ESTIMATED_BIT_S = 100e6
"""Rate above which a search reports its estimate first, because it takes more than a minute."""


def run(
    config: CapacityConfig,
    out: Path,
    *,
    jobs: int | None = None,
    watch: Observer | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Search for the capacity, write its files and return its sentence.

    The files are ``capacity.html``, ``capacity.json``, ``scenario.toml`` and the figure as SVG and PDF.

    Args:
        config: input of the search.
        out: output directory; the runs are in ``out/store``.
        jobs: number of worker processes (default: one for each processor).
        watch: callbacks for progress and messages.
        files: export of the figure to further files.

    Raises:
        ScenarioError: the input or ``files`` is wrong.
        bentpipe.StoreError: ``out`` holds another search.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    from bentpipe.capacity.figures import KEYS, figure
    from bentpipe.capacity.headline import advice_text, headline_text, supporting_text
    from bentpipe.capacity.page import evaluation_rows, table_title, to_data, write
    from bentpipe.capacity.runs import FailedRunsError
    from bentpipe.metrics.format import CommandOutput, TextTable

    if files is not None:
        files.check(KEYS)
    try:
        result, search = _find(config, out, jobs, watch)
    except FailedRunsError as error:
        problems = tuple(f"failed: {failure.run}: {failure.error}" for failure in error.failed[:10])
        return CommandOutput({"answer": None, "failed": len(error.failed)}, (), problems, good=False)
    page = write(result, search.scenario, out)
    reused = f", {search.reused} from earlier runs" if search.reused else ""
    more = (
        f" and {result.advice.done} for the causes"
        if result.advice is not None and result.advice.done
        else ""
    )
    lines = [f"{headline_text(result)}\n{supporting_text(result)}\n"]
    lines += [] if result.advice is None else ["\n".join([*advice_text(result.advice), ""])]
    output = CommandOutput(
        to_data(result),
        (*lines, TextTable(table_title(result), evaluation_rows(result)),
         f"\n{search.done} runs{more} in {search.seconds:.0f} s{reused}. Page: {page}"),
        page=page,
    )  # fmt: skip
    return output if files is None else files.added(output, [figure(result)])


def _find(
    config: CapacityConfig, out: Path, jobs: int | None, watch: Observer | None
) -> tuple[Capacity, Search]:
    """Return the result and its search. Raises as :func:`run`, and FailedRunsError."""
    from bentpipe.capacity.advice import find_advice
    from bentpipe.capacity.headline import estimate_text
    from bentpipe.capacity.runs import Search
    from bentpipe.runners.local import Idle, LocalRunner

    with Idle() as idle:
        runner = LocalRunner(jobs, idle=idle)
        search = Search(config, out / "store", runner, watch)
        rate = max(rate or 0.0 for rate in search.estimate.rates.values())
        if watch is not None and rate > ESTIMATED_BIT_S:
            watch.on_message(estimate_text(search.estimate, search.estimated_seconds()))
        result = search.find()
        if result.is_none:
            result = replace(result, advice=find_advice(result, out, runner, watch))
    return result, search
