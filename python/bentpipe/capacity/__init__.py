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

:func:`run` is ``bentpipe capacity``, and :func:`find_capacity` is ``bentpipe.find_capacity``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.capacity.access import resolve_access
from bentpipe.capacity.config import MIX, SEEDS, SHARE, WARM_UP, CapacityConfig, parse_config
from bentpipe.scenario.sweep import format_override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.capacity.runs import Search
    from bentpipe.capacity.search import Capacity
    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.runners.execute import Observer

__all__ = ["CapacityConfig", "find_capacity", "parse_config", "resolve_access", "run"]

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


def find_capacity(
    access: str | None = None,
    *,
    down: str | None = None,
    up: str | None = None,
    rtt: str | None = None,
    pep: str | None = None,
    loss: str | None = None,
    mix: str = MIX,
    mos: float | str | None = None,
    page: str | None = None,
    share: str = SHARE,
    duration: str | None = None,
    warm_up: str = WARM_UP,
    seeds: int = SEEDS,
    settings: Mapping[str, object] | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Capacity:
    """Find how many users fit on an access: the largest number for whom calls and page loads are good enough.

    Only missing runs are computed. The files of ``bentpipe capacity`` are written beside the store.

    Args:
        access: a preset (:func:`bentpipe.presets`) or a scenario file, which needs a path only. Without it, ``down``,
            ``up`` and ``rtt`` define the access.
        down: rate towards the users, such as ``"50 Mbit/s"``; the queue is 1 BDP.
        up: rate towards the servers.
        rtt: round-trip time of the whole path.
        pep: kind of the PEPs of an access given as numbers: ``"plain"``, ``"pooled"`` or ``"line-rate"``.
        loss: probability of losing a packet on the access, in both directions, such as ``"1 %"``.
        mix: shares of the users by kind, such as ``"call=0.5,page=0.5"``.
        mos: smallest mean opinion score of a call (default: 3.5); ``"none"``: nothing is required of calls.
        page: longest page load time, such as ``"5 s"`` (default: nothing is required of pages).
        share: share of the users of each kind with that quality.
        duration: duration of a run (default: 40 s, or as long as ``page`` requires).
        warm_up: start of a run that does not count.
        seeds: number of seeds.
        settings: dotted keys to set, as ``--set`` does.
        jobs: number of worker processes (default: one for each processor).
        out: directory of the search (default: ``out/capacity-ACCESS`` and options).

    Returns:
        The result: ``users`` with its ``interval``, ``all_seeds``, ``limits``, and the runs by :meth:`Capacity.frame`.

    Raises:
        bentpipe.ScenarioError: an argument is wrong.
        bentpipe.StoreError: ``out`` holds another search.
        bentpipe.RunsFailedError: some runs failed.
    """
    from bentpipe.api.results import Results
    from bentpipe.api.run import RunsFailedError
    from bentpipe.capacity.page import write
    from bentpipe.capacity.runs import FailedRunsError

    overrides = tuple(format_override(*item) for item in (settings or {}).items())
    config = parse_config(
        resolve_access(access, down, up, rtt, pep, loss),
        mix=mix,
        mos=mos,
        page=page,
        share=share,
        duration=duration,
        warm_up=warm_up,
        seeds=seeds,
        settings=overrides,
    )
    directory = Path(out) if out is not None else config.default_folder
    try:
        result, search = _find(config, directory, jobs, None)
    except FailedRunsError as error:
        raise RunsFailedError(Results(directory / "store"), error.summary) from None
    write(result, search.scenario, directory)
    return result


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
