"""Parts of a study: each is a scenario with a store, run as far as the selection needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.sweep_columns import column_name

if TYPE_CHECKING:
    import polars as pl

    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import ExecutionSummary, Observer
    from bentpipe.runners.local import Idle
    from bentpipe.store.reader import Store

__all__ = ["CellFilter", "Measurements", "Part", "PlannedPart", "plan_part", "run_part"]

Cell = Mapping[str, Any]
CellFilter = Callable[[Cell], bool]
"""Test of a cell: whether the selection needs it."""


@dataclass(frozen=True)
class Part:
    """Scenario of a study and the name of its store."""

    name: str
    scenario: Path
    controllers: Mapping[str, type] = field(default_factory=dict)
    """User-supplied controllers that the scenario may name."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Dotted keys that override the scenario in this part."""

    def store_path(self, out: Path) -> Path:
        """Return the directory of the store below ``out``."""
        return out / self.name


@dataclass(frozen=True)
class PlannedPart:
    """Part with its plan and the ids of the selected runs."""

    part: Part
    plan: Plan
    ids: tuple[str, ...]


def plan_part(
    part: Part, wanted: CellFilter, seeds: int | None = None, settings: Mapping[str, object] | None = None
) -> PlannedPart:
    """Plan a part and select the runs of the cells that ``wanted`` accepts.

    Args:
        part: part to plan.
        wanted: filter of cells.
        seeds: number of seeds, in place of that of the scenario.
        settings: dotted keys that override the scenario and the settings of the part.

    Raises:
        ScenarioError: the scenario or a setting is invalid.
    """
    from bentpipe.api.user_code import fingerprint
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.flow.controllers import controller_names
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.scenario.model import expand_seeds
    from bentpipe.scenario.sweep import format_override

    overrides = {**part.settings, **(settings or {})}
    document = load_scenario(
        part.scenario, overrides.items(), [format_override(*override) for override in overrides.items()]
    )
    seed_list = expand_seeds(seeds)
    names = set(controller_names(document.data))
    fingerprints = {name: fingerprint(kind) for name, kind in part.controllers.items() if name in names}
    plan = build_plan(
        document,
        engine.version(),
        seeds=seed_list,
        catalogue=engine.catalogue(),
        orbits=engine.orbit,
        user_code=fingerprints,
    )
    return PlannedPart(part, plan, tuple(run.id for run in plan.runs if wanted(run.cell)))


def run_part(
    planned: PlannedPart,
    out: Path,
    *,
    jobs: int | None = None,
    watch: Observer | None = None,
    idle: Idle | None = None,
) -> ExecutionSummary:
    """Run the selected runs that the store of the part lacks.

    Args:
        planned: the part and its selected runs.
        out: directory of the stores.
        jobs: number of worker processes.
        watch: observer of progress and messages.
        idle: pool of idle workers of earlier parts, to use first.

    Raises:
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
        bentpipe.StoreError: the store belongs to another plan.
        bentpipe.runners.runner.RunnerError: a worker cannot start.
    """
    from bentpipe.api.user_code import import_path
    from bentpipe.runners.execute import ExecutionSummary, execute
    from bentpipe.runners.local import LocalRunner

    part, plan = planned.part, planned.plan
    if not planned.ids:
        return ExecutionSummary(part.store_path(out), 0)
    places = {name: import_path(kind) or "" for name, kind in part.controllers.items()}
    return execute(plan, LocalRunner(jobs, places, idle), part.store_path(out), only=planned.ids, watch=watch)


class Measurements:
    """Measurements in the stores of a study, as far as they have run."""

    def __init__(self, out: Path, parts: Sequence[Part]) -> None:
        """Locate the stores.

        Args:
            out: directory with one store for each part.
            parts: parts of the study.
        """
        self._stores = {part.name: _Store(part.store_path(out)) for part in parts}

    def store(self, part: str) -> Store | None:
        """Return the store of a part; ``None`` when it has no finished run."""
        return self._stores[part].store

    def rows(self, part: str, cell: Cell, flow: str | None = None) -> pl.DataFrame:
        """Return the metrics of the runs of one cell, by seed; empty when it has not run.

        The columns are those of :func:`bentpipe.metrics.compute.run_metrics`.

        Args:
            part: name of the part.
            cell: text of each swept key. A key that the sweep lacks restricts nothing.
            flow: name of one flow; all flows without.
        """
        import polars as pl

        frame = self._stores[part].metrics
        if frame is None:
            return pl.DataFrame()
        restrictions = {column_name(key): value for key, value in cell.items()} | (
            {"flow": flow} if flow else {}
        )
        for key, value in restrictions.items():
            if key in frame.columns:
                frame = frame.filter(pl.col(key) == value)
        return frame.sort("seed", maintain_order=True)

    def table(self, part: str, name: str) -> pl.DataFrame:
        """Return table ``name`` of a part, led by ``seed`` and swept keys; empty when it has not run."""
        return self._stores[part].table(name)

    def goodput(self, part: str, cell: Cell, flow: str | None = None) -> tuple[float, ...]:
        """Return the goodput of one flow in a cell, Mbit/s, one value for each seed."""
        frame = self.rows(part, cell, flow)
        return tuple(value / 1e6 for value in frame["goodput_bit_s"]) if frame.height else ()


class _Store:
    """Store and its metrics, read on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: dict[str, pl.DataFrame] = {}

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of all runs; read it once."""
        import polars as pl

        if self.store is None:
            return pl.DataFrame()
        if name not in self.tables:
            rows = self.store.rows(name)
            joined = self.store.index.join(rows, on="run", how="inner", maintain_order="left")
            self.tables[name] = self.store.shown(joined)
        return self.tables[name]

    @cached_property
    def store(self) -> Store | None:
        from bentpipe.store.files import EmptyStoreError
        from bentpipe.store.reader import open_store

        try:
            return open_store(self.path)
        except EmptyStoreError:
            return None

    @cached_property
    def metrics(self) -> pl.DataFrame | None:
        from bentpipe.metrics.compute import run_metrics

        return run_metrics(self.store) if self.store is not None else None
