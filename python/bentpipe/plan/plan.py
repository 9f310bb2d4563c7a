"""The plan of a scenario: its sweep and seeds as explicit runs, each with a stable id.

The id of a run is a hash of the resolved run, its cell of the sweep, the schema and the engine's version. Equal ids
mean equal bytes. This module executes nothing.
"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.plan.document import add_override_hints
from bentpipe.plan.flow.controllers import (
    by_name,
    check_controllers,
    check_unused,
    controller_names,
    deterministic_controllers,
    located_controllers,
    replace_controllers,
)
from bentpipe.plan.flow.groups import flow_groups
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

__all__ = ["Cell", "Plan", "Run", "RunLimits", "build_plan"]

MAX_RUNS = 1_000_000
MAX_CHANGES = 2_000_000
"""Largest number of handovers in all cells, as a plan keeps them in memory."""

MAX_LOAD_PARTS = 2_000_000
"""Largest number of streams and page objects of all flows, as a resolved run lists them for each flow."""

MAX_ROUTES = 500_000_000
"""Largest number of entries of the routing table, each of 8 bytes: one for each end at each node."""


class RunLimits(NamedTuple):
    """Limits at which the engine ends a run."""

    events: int
    memory_bytes: int
    """Growth of the process during the run."""


@dataclass(frozen=True)
class Run:
    """One run of the plan."""

    id: str
    cell: Mapping[str, Any]
    """Swept keys and their values in this run, as the scenario writes them."""
    seed: int
    spec: RunSpec = field(repr=False)
    """The resolved run."""
    limits: RunLimits | None = None
    """Limits of the run, which are no part of its id; None: no limits."""

    def spec_json(self) -> str:
        """Return the resolved run as JSON, the input of the engine."""
        return canonical(self.spec)


@dataclass(frozen=True)
class Cell:
    """One combination of swept values, resolved; its runs differ in their seed only."""

    values: Mapping[str, Any]
    scenario: Scenario
    resolved: Resolved
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Every run of a scenario, ordered by cell of the sweep, then by seed."""

    document: ScenarioDocument
    engine: str
    title: str
    cells: tuple[Cell, ...]
    runs: tuple[Run, ...] = field(repr=False)
    user_code: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of user-supplied controllers and schedulers, by name."""
    seeds: int = 1
    """Number of seeds that were requested; a deterministic cell has one run."""

    @property
    def link_seconds(self) -> float:
        """Virtual time of all runs, in seconds."""
        return sum(float(run.spec["duration_ns"]) for run in self.runs) / 1e9


def build_plan(
    document: ScenarioDocument,
    engine: str,
    *,
    seeds: Sequence[int] | None = None,
    catalogue: Sequence[Mapping[str, Any]] | None = None,
    orbits: RouteSolver | None = None,
    user_code: Mapping[str, str] | None = None,
    all_seeds: bool = False,
    is_simulated: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Plan every run of a document.

    Args:
        document: the scenario.
        engine: version of the engine that will run it; part of every run's id.
        seeds: seeds that replace those of the scenario.
        catalogue: the engine's controllers, to check names and options; None skips this check.
        orbits: the engine's routes over constellations; None refuses scenarios with an orbit.
        user_code: fingerprints of user-supplied controllers and schedulers by name (a scheduler's name begins with
            ``scheduler.SCHEDULER_PREFIX``). They are part of the ids of the runs that use them.
        all_seeds: plan every seed of deterministic cells too, as runs in real time differ from each other.
        is_simulated: refuse paths on which no simulated time passes, and runs too large to build. False for plans
            that no engine simulates.
        on_progress: called after each cell with the number of planned cells and of all cells.

    Raises:
        ScenarioError: every problem, by key; or no flow uses a controller that the scenario does not define.
    """
    files = Files(document.folder, orbits)
    entries, fingerprints = by_name(catalogue), user_code or {}
    given = _given_controllers(document, fingerprints)
    used: dict[str, None] = {}

    def prepare(data: dict[str, Any]) -> None:
        used.update(dict.fromkeys(controller_names(data)))
        replace_controllers(data, document.controllers)

    scenarios = Scenarios(document, prepare if given else None)
    deterministic = deterministic_controllers(catalogue) - set(fingerprints)
    schedulers = frozenset(
        name.removeprefix(SCHEDULER_PREFIX) for name in fingerprints if name.startswith(SCHEDULER_PREFIX)
    )

    def resolve_cell(values: Mapping[str, Any]) -> tuple[Scenario, Resolved]:
        scenario = scenarios.of(values)
        check_controllers(scenario, entries, fingerprints)
        resolved = resolve(scenario, files, schedulers)
        if is_simulated:
            _check_delays(resolved)
            _check_size(resolved)
        return scenario, resolved

    planned: list[Cell] = []
    runs: list[Run] = []
    title, seed_count, changes = "", 1, 0
    with _without_garbage_collection():
        combinations = _cells(document)
        for values in combinations:
            try:
                scenario, resolved = resolve_cell(values)
            except ScenarioError as error:
                place = f"in the sweep, with {describe_cell(values)}" if values else ""
                place = "" if _is_independent_of_sweep(error, resolve_cell) else place
                raise add_override_hints(error, document).with_source(document.name, place) from None
            title = title or scenario.title
            cell_seeds = tuple(seeds) if seeds is not None else scenario.seeds
            seed_count = max(seed_count, len(cell_seeds))
            if not all_seeds and not random_inputs(resolved.spec, deterministic):
                cell_seeds = cell_seeds[:1]
            planned.append(Cell(values, scenario, resolved, cell_seeds))
            if len(runs) + len(cell_seeds) > MAX_RUNS:
                raise ScenarioError([("sweep", f"has more than {MAX_RUNS} runs")], document.name)
            changes += len(resolved.spec["graph"].get("changes", ()))
            if changes > MAX_CHANGES:
                text = (
                    f"has more than {MAX_CHANGES:,} handovers in all; expected fewer cells, or fewer in each"
                )
                raise ScenarioError([("sweep", text)], document.name)
            ids = run_ids(values, resolved.spec, engine, fingerprints, cell_seeds)
            limits = RunLimits(scenario.limits.events, scenario.limits.memory.bytes)
            runs.extend(
                Run(id_, values, seed, {**resolved.spec, "seed": seed}, limits)
                for id_, seed in zip(ids, cell_seeds, strict=True)
            )
            if on_progress is not None:
                on_progress(len(planned), len(combinations))
    check_unused(given, used, [str(flow.name) for flow in planned[0].scenario.flow])
    title = title or Path(document.name).stem
    return Plan(document, engine, title, tuple(planned), tuple(runs), fingerprints, seed_count)


def _given_controllers(document: ScenarioDocument, fingerprints: Mapping[str, str]) -> list[str]:
    """Return the names of controllers that the scenario does not define itself."""
    located = located_controllers(document.data)
    own = [name for name in fingerprints if not name.startswith(SCHEDULER_PREFIX)]
    return [name for name in dict.fromkeys([*document.controllers, *own]) if name not in located]


def _check_delays(resolved: Resolved) -> None:
    """Raise ScenarioError for a path without rate and delay, on which no simulated time passes."""
    checked: set[tuple[int, int]] = set()
    for flow in resolved.spec["flows"]:
        name = flow["name"]
        up, down = resolved.up[name], resolved.down[name]
        if (id(up), id(down)) in checked:
            continue
        checked.add((id(up), id(down)))
        if not any(hop.rate is not None or hop.delay_ns for hop in (*up, *down)):
            text = "no link of its path has a rate or a delay; expected either on a segment"
            raise ScenarioError([(f"flow.{name}", text)])


def _check_size(resolved: Resolved) -> None:
    """Raise ScenarioError for a run that is too large to build."""
    spec = resolved.spec
    parts = 0
    for flow in spec["flows"]:
        load = flow["load"]
        if load["kind"] == "perf":
            parts += len(load["streams"])
        elif load["kind"] == "page":
            parts += len(load["page"]["objects"])
        if parts > MAX_LOAD_PARTS:
            text = f"gives more than {MAX_LOAD_PARTS:,} streams and page objects in all flows; expected fewer"
            raise ScenarioError([(f"flow.{flow_groups(spec).get(flow['name'], flow['name'])}.load", text)])
    nodes = spec["graph"]["nodes"]
    routes = len(nodes) * sum(node["kind"] != "router" for node in nodes)
    if routes > MAX_ROUTES:
        text = f"gives a routing table of {routes:,} entries, expected at most {MAX_ROUTES:,}"
        raise ScenarioError([("graph", f"{text}; {len(nodes):,} nodes are too many")])


def _is_independent_of_sweep(
    problem: ScenarioError, resolve_cell: Callable[[Mapping[str, Any]], object]
) -> bool:
    """Return whether the scenario has the same problems without its sweep."""
    try:
        resolve_cell({})
    except ScenarioError as error:
        return set(problem.problems) <= set(error.problems)
    return False


def _cells(document: ScenarioDocument) -> list[dict[str, Any]]:
    try:
        return cells(document.data.get("sweep"), column_owners())
    except ScenarioError as error:
        raise error.with_source(document.name) from None


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, as a plan frees no objects and repeated collections take longer than planning.

    At the end all objects move to the oldest generation, so that the next collection does not visit them at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.unfreeze()
            gc.enable()
