"""Runs of a search: its scenario, the plan of each step, execution into a store that resumes."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.capacity.config import AXIS, scenario, user_counts
from bentpipe.capacity.estimate import describe_page, estimate
from bentpipe.capacity.quality import read_quality, read_utilisation
from bentpipe.capacity.search import Capacity, Evaluation, Probe, find_limits
from bentpipe.plan.cost import estimate_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.report.headline import join_names
from bentpipe.runners import engine
from bentpipe.runners.execute import InterruptedExecution, Observer, execute
from bentpipe.scenario.sweep import parse_override
from bentpipe.scenario.toml_writer import dumps
from bentpipe.store.reader import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bentpipe.capacity.config import CapacityConfig
    from bentpipe.capacity.quality import Quality
    from bentpipe.plan.document import ScenarioDocument
    from bentpipe.plan.plan import Plan, Run
    from bentpipe.runners.execute import ExecutionSummary
    from bentpipe.runners.local import LocalRunner

    Each = Callable[[Run, bool], None]
    """Callback after every run: run and success."""

__all__ = ["FailedRunsError", "Search"]

STEPS = 7
"""Usual number of runs for each seed, for the estimate of the time."""


class FailedRunsError(RuntimeError):
    """Failure of runs of a search, which cannot go on without them."""

    def __init__(self, summary: ExecutionSummary) -> None:
        """Create the error."""
        self.summary = summary
        self.failed = tuple(summary.failed)
        super().__init__(f"{self.failed[0].run}: {self.failed[0].error}")


class Search:
    """Search whose runs are in a store."""

    def __init__(
        self,
        config: CapacityConfig,
        store: Path,
        runner: LocalRunner,
        watch: Observer | None = None,
    ) -> None:
        """Resolve the scenario.

        Args:
            config: input of the search.
            store: directory of the store.
            runner: runner of the runs.
            watch: callbacks for progress and messages.

        Raises:
            ScenarioError: the input is wrong.
        """
        self.config = config
        self.store = store
        self._runner = runner
        self._watch = watch or Observer()
        self._counts = user_counts(config.mix)
        self._sizes = [sum(count.values()) for count in self._counts]
        self._text = dumps(self._load(self._counts).data)
        spec = self._plan([Probe(0, 1)]).runs[0].spec
        self.estimate = estimate(config, spec)
        self.page = describe_page(spec)
        # Overloaded runs take longest, so the search begins well below the estimate.
        users = (self.estimate.users or 0) / 2
        self._start = max(bisect_right(self._sizes, users) - 1, 0)
        self._found: dict[Probe, Quality] = {}
        self._ids: dict[Probe, str] = {}
        self.done = self.reused = 0
        """Numbers of new and of earlier runs."""
        self.seconds = 0.0

    def find(self) -> Capacity:
        """Execute the search.

        Raises:
            FailedRunsError: a run failed.
            StoreError: the store has the runs of another search.
            bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
        """
        seeds = range(1, self.config.seeds + 1)
        with self._interruptible():
            limits = find_limits(len(self._sizes), seeds, self._start, self._evaluate)
        users = {seed: self._sizes[index] if index >= 0 else 0 for seed, index in limits.items()}
        return Capacity(
            self.config, tuple(self.evaluations()), users, self._sizes[0], self._sizes[-1], self.estimate,
            engine.version(), self.page,
        )  # fmt: skip

    def probe(self) -> list[Evaluation]:
        """Return the evaluations of the smallest number of users by all seeds, after the missing runs.

        Raises:
            FailedRunsError: a run failed.
            bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
        """
        with self._interruptible():
            self._evaluate([Probe(0, seed) for seed in range(1, self.config.seeds + 1)])
        return self.evaluations()

    def evaluations(self) -> list[Evaluation]:
        """Return the evaluations so far, by number of users and seed."""
        utilisation = read_utilisation(open_store(self.store), list(self._ids.values()))
        found = []
        for probe, quality in sorted(self._found.items(), key=lambda item: item[0]):
            counts = self._counts[probe.index]
            failed = quality.failures(self.config.criterion)
            busy = utilisation.get(self._ids[probe], {})
            found.append(Evaluation(sum(counts.values()), counts, probe.seed, quality, failed, busy))
        return found

    @property
    def scenario(self) -> str:
        """The scenario of the runs of this search, as TOML; its seeds and numbers of users are those that ran."""
        indices = sorted({probe.index for probe in self._found})
        data = dict(self._load([self._counts[index] for index in indices]).data)
        sweep = data.pop("sweep")
        return dumps(data | {"seeds": self.config.seeds, "sweep": sweep})

    def estimated_seconds(self) -> float:
        """Return the estimated wall time of the search."""
        plan = self._plan([Probe(self._start, seed) for seed in range(1, self.config.seeds + 1)])
        return STEPS * estimate_plan(plan, self._runner.jobs).seconds

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Name the finished runs after Ctrl-C, which may also come between two steps."""
        try:
            yield
        except KeyboardInterrupt:
            finished = len(Store(self.store).finished()) if self.store.exists() else 0
            raise InterruptedExecution(
                f"{finished} runs are in {self.store}; rerun the command to resume"
            ) from None

    def _load(self, counts: Sequence[Mapping[str, int]]) -> ScenarioDocument:
        settings = self.config.settings
        overrides = [parse_override(text) for text in settings]
        document = load_scenario(scenario(self.config, counts), overrides, settings)
        return replace(document, folder=self.config.access.folder)

    def _plan(self, probes: Sequence[Probe]) -> Plan:
        """Return the plan of the numbers of users and the seeds of ``probes``.

        The scenario of the plan is that of all numbers of users, so that the store takes each later plan.
        """
        indices = sorted({probe.index for probe in probes})
        document = self._load([self._counts[index] for index in indices])
        return build_plan(
            replace(document, text=self._text, overrides=()), engine.version(),
            seeds=sorted({probe.seed for probe in probes}), catalogue=engine.catalogue(), orbits=engine.orbit,
            all_seeds=True,
        )  # fmt: skip

    def _evaluate(self, probes: Sequence[Probe]) -> dict[Probe, bool]:
        """Return whether the criterion holds for each of ``probes``, after the missing runs."""
        plan = self._plan(probes)
        runs = {probe: run for run in plan.runs if (probe := self._probe_of(run)) in probes}
        plan = replace(plan, runs=tuple(runs.values()))
        summary = execute(plan, self._runner, self.store, watch=self._observer(probes))
        self.done += summary.done
        self.reused += summary.reused
        self.seconds += summary.seconds
        if summary.failed:
            raise FailedRunsError(summary)
        ids = {probe: run.id for probe, run in runs.items()}
        quality = read_quality(open_store(self.store), list(ids.values()), self.config)
        self._found |= {probe: quality[run] for probe, run in ids.items()}
        self._ids |= ids
        return {probe: not self._found[probe].failures(self.config.criterion) for probe in probes}

    def _observer(self, probes: Sequence[Probe]) -> Observer:
        """Return the observer of a step, whose progress names its numbers of users."""
        sizes = join_names([f"{self._sizes[index]:,}" for index in sorted({probe.index for probe in probes})])

        def progress(
            plan: Plan, missing: Sequence[Run], /
        ) -> AbstractContextManager[Callable[[Run, bool], None] | None]:
            return self._watch.progress(replace(plan, title=f"{sizes} users"), missing)

        return Observer(progress, self._watch.on_message)

    def _probe_of(self, run: Run) -> Probe:
        return Probe(self._sizes.index(int(run.cell[AXIS])), run.seed)
