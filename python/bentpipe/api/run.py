"""Running scenarios from Python: :func:`run` waits for all, :func:`start` gives each run as it finishes.

>>> results = bentpipe.run("scenarios/geo.toml")          # doctest: +SKIP
>>> results.summary.filter(pl.col("side") == "server")    # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bentpipe.api.engine_choice import check_engine, runner_of
from bentpipe.api.plan import plan_scenario
from bentpipe.api.results import Results
from bentpipe.api.user_code import fingerprint, import_place
from bentpipe.plan.analysis.lint import LintWarning, lint_plan
from bentpipe.plan.link.scheduler import SCHEDULER_PREFIX
from bentpipe.runners.execute import REAL_TIME, ExecutionSummary, RunResult, iter_results
from bentpipe.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bentpipe.api.engine_choice import Engine
    from bentpipe.plan.plan import Plan
    from bentpipe.runners.runner import Runner
    from bentpipe.scenario.model import Scenario

__all__ = ["RunIterator", "RunsFailedError", "iter_runs", "run"]


class RunsFailedError(RuntimeError):
    """Some runs failed; ``results`` holds the others."""

    def __init__(self, results: Results, report: ExecutionSummary) -> None:
        """``report`` says which and why."""
        self.results = results
        self.report = report
        first = report.failed[0]
        super().__init__(f"{len(report.failed)} of {report.planned} runs failed; {first.run}: {first.error}")


class RunIterator:
    """Runs that are being made: iterated, it gives each :class:`Finished` one as soon as it is in the store.

    From the first that is asked for, runs go on, here and on a cluster, and each is written when it finishes, whether
    the next is asked for or not; only controllers that run in this process wait to be asked for. When the disk refuses
    one, the others stop, and the next that is asked for raises. ``len`` is how many are to be made, so that what draws
    bars of progress knows the end. Used as a context manager, or iterated to the end, it lets the store go; leaving
    early stops what is under way and keeps what is finished. A run that failed has an ``error`` and raises nothing.
    """

    def __init__(
        self, plan: Plan, runner: Runner, out: str | Path | None = None, where: str = "local"
    ) -> None:
        """Opens the store of ``plan`` at ``out`` (a temporary one without). Raises StoreError."""
        self._temporary = None
        if out is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="bentpipe-", ignore_cleanup_errors=True)
            out = Path(self._temporary.name) / "store"
        self.path = Path(out)
        """The store."""
        self.report = ExecutionSummary(self.path, len(plan.runs))
        """What was done: complete when the last run is."""
        self._stack = contextlib.ExitStack()
        writer = self._stack.enter_context(Writer(self.path, plan))
        try:
            self._missing = len(writer.missing(plan.runs))
        except BaseException:
            self._stack.close()
            raise
        self._session = iter_results(plan, runner, writer, where=where)
        self._stack.callback(self._session.close)

    def __len__(self) -> int:
        """How many runs there are to be made, the finished ones of this session too."""
        return self._missing

    def __iter__(self) -> Iterator[RunResult]:
        """Raises StoreError, RunnerError: the disk is full, no run can be made at all."""
        return self

    def __next__(self) -> RunResult:
        """The next run that finishes."""
        try:
            return next(self._session)
        except StopIteration as end:
            if end.value is not None:
                self.report = end.value
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops what is under way, and lets the store go."""
        self._stack.close()

    @property
    def results(self) -> Results:
        """The store: every run that has finished until now."""
        return Results(self.path, self._temporary)


def run(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    controllers: Mapping[str, type] | None = None,
    *,
    jobs: int | None = None,
    out: str | Path | None = None,
    on: str | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    engine: Engine = "sim",
    schedulers: Mapping[str, type] | None = None,
    on_progress: Callable[[RunResult], object] | None = None,
) -> Results:
    """Runs a scenario and returns its results.

    Args:
        scenario: a TOML file, the table it would parse to, or a :class:`bentpipe.Scenario`; a table may hold those of
            :mod:`bentpipe.scenario` too.
        controllers: congestion controllers of one's own, by the name the scenario gives them. A class of an
            importable module goes to the workers by its import path; one defined in ``__main__`` (a script, a
            notebook) or inside a function runs in this process, one run after the other.
        jobs: worker processes (default: one a processor; of ``emu``, labs at a time, 1); not beside ``on``.
        out: directory of the store, resumed if it has runs of the same scenario; a temporary one without.
        on: ``dask://HOST:PORT`` for a cluster.
        seeds: how many, instead of the scenario's.
        settings: dotted keys to set, as ``--set`` does.
        engine: ``"sim"``, virtual time, or ``"emu"``, real time on this machine (docs/manual/compare-engines.md).
        schedulers: schedulers of users of one's own, by the name the scenario gives them; as ``controllers``.
        on_progress: called after each run with its result (``done`` of ``total``). An exception ends the execution.

    Warns:
        bentpipe.plan.analysis.lint.LintWarning: what is in order and yet hardly meant, such as seeds without chance.

    Raises:
        bentpipe.ScenarioError: what is wrong with the scenario, by key; in real time, also what the machine lacks.
        bentpipe.StoreError: ``out`` is not a store of this scenario, or the disk is full.
        bentpipe.runners.runner.RunnerError: no run can be made at all, such as by a cluster that is not there.
        RunsFailedError: some runs failed; the others are in its ``results``.
        ValueError: ``jobs`` beside ``on``, or what ``emu`` cannot have.
    """
    with _begin(scenario, controllers, jobs, out, on, seeds, settings, engine, schedulers) as runs:
        for one in runs:
            if on_progress is not None:
                on_progress(one)
    if runs.report.failed:
        raise RunsFailedError(runs.results, runs.report)
    return runs.results


def iter_runs(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    controllers: Mapping[str, type] | None = None,
    *,
    jobs: int | None = None,
    out: str | Path | None = None,
    on: str | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    engine: Engine = "sim",
    schedulers: Mapping[str, type] | None = None,
) -> RunIterator:
    """Begins a scenario: iterated, it gives each run as it finishes, and has ``.results`` of those there are.

    Arguments, warnings and errors are those of :func:`run`, but that runs that fail are given with their ``error``
    and raise nothing.
    """
    return _begin(scenario, controllers, jobs, out, on, seeds, settings, engine, schedulers)


def _begin(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    controllers: Mapping[str, type] | None,
    jobs: int | None,
    out: str | Path | None,
    on: str | None,
    seeds: int | None,
    settings: Mapping[str, object] | None,
    engine: Engine,
    schedulers: Mapping[str, type] | None,
) -> RunIterator:
    if on is not None and jobs is not None:
        raise ValueError(
            "found jobs beside on, a cluster whose workers have a number of their own; expected one of them"
        )
    own = dict(controllers or {}) | {
        SCHEDULER_PREFIX + name: kind for name, kind in (schedulers or {}).items()
    }
    check_engine(engine)
    if engine == "emu" and (own or on is not None):
        beside = "controllers" if controllers else "schedulers" if own else "on"
        raise ValueError(
            f'found {beside} beside engine = "emu", which runs on this machine with those it has'
        )
    plan = plan_scenario(
        scenario,
        settings,
        seeds=seeds,
        engine=engine,
        own={name: fingerprint(kind) for name, kind in own.items()},
    )
    for remark in lint_plan(plan):
        warnings.warn(remark.line(plan.document.name), LintWarning, stacklevel=3)
    runner = _runner(own, engine, jobs, on)
    return RunIterator(plan, runner, out, on or ("local" if engine == "sim" else REAL_TIME))


def _runner(own: Mapping[str, type], engine: Engine, jobs: int | None, on: str | None) -> Runner:
    places = {name: place for name, kind in own.items() if (place := import_place(kind)) is not None}
    if len(places) == len(own):
        return runner_of(engine, jobs, on, places)
    if on is not None:
        raise ValueError("what is given to a cluster must be classes of modules that its workers can import")
    from bentpipe.runners.local import InProcess

    return InProcess(own)
