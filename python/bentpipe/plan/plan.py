"""The plan: a scenario's sweep and seeds as explicit runs, each with a stable id.

A run's id is a hash of the resolved run, its cell of the sweep, the schema and the engine's version: equal ids
mean equal bytes. Nothing here runs anything.
"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.cost import estimate
from bentpipe.plan.document import add_sweep_hint
from bentpipe.plan.flow.controllers import by_name, check_controllers, deterministic_controllers
from bentpipe.plan.input_files import Files
from bentpipe.plan.link.scheduler import SCHEDULER_PREFIX
from bentpipe.plan.randomness import random_inputs
from bentpipe.plan.resolve import Resolved, resolve
from bentpipe.plan.spec.result_columns import column_owners
from bentpipe.plan.spec.run_id import canonical, run_ids
from bentpipe.plan.sweep_cells import Scenarios
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import cells, describe_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bentpipe.plan.document import ScenarioDocument
    from bentpipe.plan.network.constellation_routes import RouteSolver
    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.scenario.model import Scenario

__all__ = ["Cell", "Plan", "Run", "build_plan"]

MOST_RUNS = 1_000_000
MOST_CHANGES = 2_000_000
"""Hand-overs of all cells, which a plan holds together."""


@dataclass(frozen=True)
class Run:
    """One run of the plan."""

    id: str
    cell: Mapping[str, Any]
    """Keys of the sweep and their values here, as the scenario writes them."""
    seed: int
    spec: RunSpec
    """The resolved run."""

    def spec_json(self) -> str:
        """The resolved run as the engine takes it."""
        return canonical(self.spec)


@dataclass(frozen=True)
class Cell:
    """One combination of the sweep's values, resolved; its runs differ by seed only."""

    values: Mapping[str, Any]
    scenario: Scenario
    resolved: Resolved
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Every run of a scenario, in order: cells as the sweep has them, then seeds."""

    document: ScenarioDocument
    engine: str
    title: str
    cells: tuple[Cell, ...]
    runs: tuple[Run, ...] = field(repr=False)
    own: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of controllers that were given from outside, by name."""
    seeds: int = 1
    """How many were asked for; a cell without chance has one of them."""

    @property
    def link_seconds(self) -> float:
        """Virtual time of all runs together."""
        return sum(float(run.spec["duration_ns"]) for run in self.runs) / 1e9


def build_plan(
    document: ScenarioDocument,
    engine: str,
    *,
    seeds: Sequence[int] | None = None,
    catalogue: Sequence[Mapping[str, Any]] | None = None,
    orbits: RouteSolver | None = None,
    own: Mapping[str, str] | None = None,
    repeats: bool = False,
    priced: bool = True,
    each: Callable[[int, int], None] | None = None,
) -> Plan:
    """Every run of ``document``.

    Args:
        document: the scenario.
        engine: version of the engine that will run it; part of every run's id.
        seeds: instead of the scenario's.
        catalogue: the engine's controllers, to check names and options against; None checks neither.
        orbits: the engine's answers on constellations; None refuses scenarios with legs of an orbit.
        own: controllers given from outside, and schedulers (behind ``schedulers.SCHEDULER_PREFIX``): a fingerprint of each by
            name, part of the ids of runs that use it.
        repeats: every seed is run, also where chance has no part in the scenario: real time is its own chance.
        priced: what costs more than the scenario's limits is refused; False where nothing of it is simulated.
        each: told after each cell how many are planned, and of how many.

    Raises:
        ScenarioError: what is wrong, by key.
    """
    files = Files(document.folder, orbits)
    scenarios, entries, ours = Scenarios(document.data), by_name(catalogue), own or {}
    quiet = deterministic_controllers(catalogue) - set(ours)
    theirs = frozenset(
        name.removeprefix(SCHEDULER_PREFIX) for name in ours if name.startswith(SCHEDULER_PREFIX)
    )

    def planned_of(values: Mapping[str, Any]) -> tuple[Scenario, Resolved]:
        scenario = scenarios.of(values)
        check_controllers(scenario, entries, ours)
        resolved = resolve(scenario, files, theirs)
        if priced:
            estimate.check_limits(resolved, scenario.limits)
        return scenario, resolved

    planned: list[Cell] = []
    runs: list[Run] = []
    title, asked, changes = "", 1, 0
    with _undisturbed():
        combined = _cells(document)
        for values in combined:
            try:
                scenario, resolved = planned_of(values)
            except ScenarioError as error:
                said = f"in the sweep, with {describe_cell(values)}" if values else ""
                said = "" if _also_without(error, planned_of) else said
                raise add_sweep_hint(error, document).within(document.name, said) from None
            title = title or scenario.title
            chosen = tuple(seeds) if seeds is not None else scenario.seeds
            asked = max(asked, len(chosen))
            chosen = chosen if repeats or random_inputs(resolved.spec, quiet) else chosen[:1]
            planned.append(Cell(values, scenario, resolved, chosen))
            if len(runs) + len(chosen) > MOST_RUNS:
                raise ScenarioError([("sweep", f"gives more than {MOST_RUNS} runs")], document.name)
            changes += len(resolved.spec["graph"].get("changes", ()))
            if changes > MOST_CHANGES:
                text = f"gives more than {MOST_CHANGES:,} hand-overs in all; expected fewer cells, or fewer in each"
                raise ScenarioError([("sweep", text)], document.name)
            ids = run_ids(values, resolved.spec, engine, ours, chosen)
            runs.extend(
                Run(named, values, seed, {**resolved.spec, "seed": seed})
                for named, seed in zip(ids, chosen, strict=True)
            )
            if each is not None:
                each(len(planned), len(combined))
    named = title or Path(document.name).stem
    return Plan(document, engine, named, tuple(planned), tuple(runs), ours, asked)


def _also_without(wrong: ScenarioError, planned_of: Callable[[Mapping[str, Any]], object]) -> bool:
    """Whether the scenario has these problems without its sweep too."""
    try:
        planned_of({})
    except ScenarioError as error:
        return set(wrong.problems) <= set(error.problems)
    return False


def _cells(document: ScenarioDocument) -> list[dict[str, Any]]:
    try:
        return cells(document.data.get("sweep"), column_owners())
    except ScenarioError as error:
        raise error.within(document.name) from None


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without the collector of garbage: all that a plan makes stays, and looking through it again and again takes
    longer than making it. In the end it counts as old, so that it is not looked through at once."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.freeze()
            gc.unfreeze()
            gc.enable()
