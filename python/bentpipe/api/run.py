"""Execution of scenarios from Python: :func:`run` waits for all runs, :func:`iter_runs` yields each finished run.

>>> results = bentpipe.run("scenarios/geo.toml")          # doctest: +SKIP
>>> results.flow_summary.filter(pl.col("side") == "server")    # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bentpipe.api.engine_choice import check_engine, create_runner
from bentpipe.api.plan import plan_scenario
from bentpipe.api.results import Results, TemporaryDirectory
from bentpipe.api.user_code import (
    UserCodeWarning,
    check_user_classes,
    fingerprint,
    import_path,
    pickle_class,
    scenario_controllers,
)
from bentpipe.plan.analysis.lint import LintWarning, lint_plan
from bentpipe.runners.execute import REAL_TIME, ExecutionSummary, RunResult, iter_results
from bentpipe.store.packing import pack_large
from bentpipe.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe.api.engine_choice import Engine
    from bentpipe.plan.plan import Plan
    from bentpipe.runners.runner import Runner
    from bentpipe.scenario.model import Scenario

__all__ = ["RunIterator", "RunsFailedError", "iter_runs", "run"]


class RunsFailedError(RuntimeError):
    """Failure of some runs; ``results`` has the other runs."""

    def __init__(self, results: Results, summary: ExecutionSummary) -> None:
        """Create the error; ``summary`` has the failed runs and their errors."""
        self.results = results
        self.summary = summary
        first = summary.failed[0]
        super().__init__(
            f"{len(summary.failed)} of {summary.planned} runs failed; {first.run}: {first.error}"
        )


class RunIterator:
    """Iterator over the runs of a plan, each as soon as it is in the store.

    The first call of ``next`` starts the runs, locally or on a cluster. Each is written when it finishes, also before
    the next call. Only controllers that run in this process wait for calls. If the disk rejects a run, the others stop,
    and the next call raises. ``len`` is the number of runs to execute, for progress bars. The end of the iteration, or
    of the context manager, closes the store. An early end stops the unfinished runs and keeps the finished ones. A
    failed run has an ``error`` and raises nothing.
    """

    def __init__(
        self, plan: Plan, runner: Runner, out: str | Path | None = None, where: str = "local"
    ) -> None:
        """Open the store of a plan.

        Args:
            plan: the runs.
            runner: the runner of the engine.
            out: the directory of the store; None for a temporary one.
            where: the location of the runs for the journal.

        Raises:
            StoreError: ``out`` is not a store of this plan.
        """
        self._temporary = None
        if out is None:
            self._temporary = TemporaryDirectory()
            out = self._temporary.path / "store"
        self.path = Path(out)
        """Directory of the store."""
        self.summary = ExecutionSummary(self.path, len(plan.runs))
        """Execution summary, complete after the last run."""
        self._stack = contextlib.ExitStack()
        writer = self._stack.enter_context(Writer(self.path, plan))
        try:
            self._missing = len(writer.missing(plan.runs))
        except BaseException:
            self._stack.close()
            raise
        self._runs = iter_results(plan, runner, writer, where=where)
        self._stack.callback(self._runs.close)
        self._finalizer = weakref.finalize(self, self._stack.close)
        """Closes the store of an iterator that nobody closes."""

    def __repr__(self) -> str:
        """Return the number of runs to execute, and the directory of the store."""
        return f"<bentpipe runs: {self._missing} of {self.summary.planned} to execute, {self.path}>"

    def __len__(self) -> int:
        """Return the number of runs to execute, including those finished since the start."""
        return self._missing

    def __iter__(self) -> Iterator[RunResult]:
        """Return the iterator itself."""
        return self

    def __next__(self) -> RunResult:
        """Return the next finished run.

        Raises:
            StoreError: the disk is full.
            RunnerError: no run can be executed.
        """
        try:
            return next(self._runs)
        except StopIteration as end:
            if end.value is not None:
                self.summary = end.value
            self.close()
            pack_large(self.path)
            raise
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop unfinished runs and close the store; repeated calls are valid."""
        self._finalizer()

    @property
    def results(self) -> Results:
        """Results of the runs finished so far."""
        return Results(self.path, self._temporary)


def run(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    controllers: Mapping[str, type | str] | None = None,
    *,
    jobs: int | None = None,
    out: str | Path | None = None,
    cluster: str | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    engine: Engine = "sim",
    schedulers: Mapping[str, type | str] | None = None,
    on_progress: Callable[[RunResult], object] | None = None,
) -> Results:
    """Run a scenario and return its results.

    Args:
        scenario: a TOML file, its parsed table, or a :class:`bentpipe.Scenario`; a table may contain the classes of
            :mod:`bentpipe.scenario`.
        controllers: user-supplied congestion controllers by their name in the scenario: classes, or texts
            ``FILE.py:CLASS``. The scenario may also name such a text, relative to its folder. Workers import a class of
            an importable module by its import path. A class of ``__main__`` (a script, a notebook) or of a function
            passes to the workers by cloudpickle. Without cloudpickle it runs in this process, one run at a time, as it
            does with ``jobs=1`` and for a single run.
        jobs: number of worker processes (default: one per processor; with ``emu``, concurrent labs, default 1). Cannot
            be combined with ``cluster``.
        out: directory of the store, resumed if it has runs of the same scenario; by default a temporary one.
        cluster: ``dask://HOST:PORT`` of a cluster.
        seeds: number of seeds, instead of the seeds of the scenario.
        settings: dotted keys to set, as with ``--set``.
        engine: ``"sim"``, virtual time, or ``"emu"``, real time on this host (docs/how-to/compare-engines.md).
        schedulers: user-supplied schedulers by their name in the scenario; as ``controllers``.
        on_progress: called after every run, with the number of finished runs and of all runs. An exception of it ends
            the execution.

    Warns:
        bentpipe.LintWarning: a setting that is valid but probably wrong, such as several seeds of a
            deterministic scenario.
        bentpipe.UserCodeWarning: a user-supplied class runs in this process, one run at a time.

    Raises:
        bentpipe.ScenarioError: an invalid scenario, with the key of each problem; with ``emu`` also missing
            requirements of the host.
        bentpipe.StoreError: ``out`` is not a store of this scenario, or the disk is full.
        bentpipe.RunnerError: no run can be executed, for example because the cluster cannot be reached.
        bentpipe.RunsFailedError: some runs failed; its ``results`` have the others.
        ValueError: an invalid ``jobs``, ``jobs`` and ``cluster``, or an argument that ``emu`` does not support.
    """
    if on_progress is not None and not callable(on_progress):
        raise TypeError(f"on_progress: found {on_progress!r}, expected a function")
    with _start(scenario, controllers, jobs, out, cluster, seeds, settings, engine, schedulers) as runs:
        for result in runs:
            if on_progress is not None:
                on_progress(result)
    if runs.summary.failed:
        raise RunsFailedError(runs.results, runs.summary)
    return runs.results


def iter_runs(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    controllers: Mapping[str, type | str] | None = None,
    *,
    jobs: int | None = None,
    out: str | Path | None = None,
    cluster: str | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    engine: Engine = "sim",
    schedulers: Mapping[str, type | str] | None = None,
) -> RunIterator:
    """Return an iterator over the runs of a scenario; its ``results`` have the runs finished so far.

    Arguments, warnings and errors are those of :func:`run`, except that a failed run has an ``error`` and raises
    nothing.
    """
    return _start(scenario, controllers, jobs, out, cluster, seeds, settings, engine, schedulers)


def _start(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    controllers: Mapping[str, type | str] | None,
    jobs: int | None,
    out: str | Path | None,
    cluster: str | None,
    seeds: int | None,
    settings: Mapping[str, object] | None,
    engine: Engine,
    schedulers: Mapping[str, type | str] | None,
) -> RunIterator:
    _check_jobs(jobs, cluster)
    check_engine(engine)
    if engine == "emu" and (controllers or schedulers or cluster is not None):
        argument = "controllers" if controllers else "schedulers" if schedulers else "cluster"
        raise ValueError(
            f'found {argument} beside engine = "emu", which supports only the built-in ones on this host'
        )
    user_classes = check_user_classes(controllers, schedulers)
    plan = plan_scenario(
        scenario,
        settings,
        seeds=seeds,
        engine=engine,
        fingerprints={name: fingerprint(class_) for name, class_ in user_classes.items()},
    )
    for message in lint_plan(plan):
        warnings.warn(message.line(plan.document.name), LintWarning, stacklevel=3)
    user_classes |= scenario_controllers(plan.document)
    runner = _choose_runner(user_classes, engine, jobs, cluster, len(plan.runs))
    return RunIterator(plan, runner, out, cluster or ("local" if engine == "sim" else REAL_TIME))


def _check_jobs(jobs: object, cluster: str | None) -> None:
    if cluster is not None and jobs is not None:
        raise ValueError(
            "found jobs and cluster, expected one of them: a cluster has its own number of workers"
        )
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1):
        raise ValueError(f"jobs: found {jobs!r}, expected a number of workers from 1, or None for all cores")


def _choose_runner(
    user_classes: Mapping[str, type], engine: Engine, jobs: int | None, cluster: str | None, runs: int
) -> Runner:
    import_paths = {
        name: path for name, class_ in user_classes.items() if (path := import_path(class_)) is not None
    }
    others = {name: class_ for name, class_ in user_classes.items() if name not in import_paths}
    if cluster is not None and any(".py:" in path for path in import_paths.values()):
        raise ValueError("classes for a cluster must be in modules that its workers can import, not in files")
    if not others:
        return create_runner(engine, jobs, cluster, import_paths)
    if cluster is not None:
        raise ValueError("classes for a cluster must be in modules that its workers can import")
    from bentpipe.runners.local import InProcess, LocalRunner, cores

    if min(jobs or cores(), runs) > 1:
        try:
            pickled = {name: pickle_class(class_) for name, class_ in others.items()}
        except ValueError as error:
            warnings.warn(str(error), UserCodeWarning, stacklevel=4)
        else:
            return LocalRunner(jobs, import_paths, pickled=pickled)
    return InProcess(user_classes)
