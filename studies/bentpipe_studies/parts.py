"""The parts of a study: each a scenario with a store of its own, run as far as it is wanted and missing."""

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

__all__ = ["Measured", "Part", "Planned", "Wanted", "plan_part", "run_part"]

Cell = Mapping[str, Any]
Wanted = Callable[[Cell], bool]
"""Whether a cell of a part's sweep is wanted."""


@dataclass(frozen=True)
class Part:
    """A scenario of the study and the name of its store."""

    name: str
    scenario: Path
    controllers: Mapping[str, type] = field(default_factory=dict)
    """Controllers that its scenario names and the engine does not have."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Dotted keys that are otherwise in this part than in its scenario."""

    def store(self, out: Path) -> Path:
        """Where its store is."""
        return out / self.name


@dataclass(frozen=True)
class Planned:
    """A part with its plan, and the runs of it that are wanted."""

    part: Part
    plan: Plan
    ids: tuple[str, ...]


def plan_part(
    part: Part, wanted: Wanted, seeds: int | None = None, settings: Mapping[str, object] | None = None
) -> Planned:
    """The wanted cells of ``part``. Raises ScenarioError."""
    from bentpipe.api.user_code import fingerprint
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.scenario.model import expand_seeds
    from bentpipe.scenario.sweep import format_override

    given = {**part.settings, **(settings or {})}
    document = load_scenario(part.scenario, given.items(), [format_override(*one) for one in given.items()])
    chosen = expand_seeds(seeds)
    own = {name: fingerprint(kind) for name, kind in part.controllers.items()}
    plan = build_plan(
        document, engine.version(), seeds=chosen, catalogue=engine.catalogue(), orbits=engine.orbit, own=own
    )
    return Planned(part, plan, tuple(run.id for run in plan.runs if wanted(run.cell)))


def run_part(
    planned: Planned,
    out: Path,
    *,
    jobs: int | None = None,
    watch: Observer | None = None,
    idle: Idle | None = None,
) -> ExecutionSummary:
    """Runs what the part's store does not have yet of it, on workers of parts before it where some are ``idle``.

    Raises:
        bentpipe.runners.execute.InterruptedExecution, bentpipe.StoreError, bentpipe.runners.runner.RunnerError.
    """
    from bentpipe.api.user_code import import_place
    from bentpipe.runners.execute import ExecutionSummary, execute
    from bentpipe.runners.local import LocalRunner

    part, plan = planned.part, planned.plan
    if not planned.ids:
        return ExecutionSummary(part.store(out), 0)
    places = {name: import_place(kind) or "" for name, kind in part.controllers.items()}
    return execute(plan, LocalRunner(jobs, places, idle), part.store(out), only=planned.ids, watch=watch)


class Measured:
    """What the stores of a study hold, as far as they have run."""

    def __init__(self, out: Path, parts: Sequence[Part]) -> None:
        """``out`` holds one store a part."""
        self._stores = {part.name: _Store(part.store(out)) for part in parts}

    def reading(self, part: str) -> Store | None:
        """The store of a part; None when nothing of it has run."""
        return self._stores[part].reading

    def rows(self, part: str, cell: Cell, flow: str | None = None) -> pl.DataFrame:
        """:func:`bentpipe.metrics.compute.run_metrics` of the runs of one cell, by seed; no rows when it has not run.

        ``cell`` maps keys of the sweep to their text. A key that the sweep does not have is no restriction.
        """
        import polars as pl

        frame = self._stores[part].metrics
        if frame is None:
            return pl.DataFrame()
        wanted = {column_name(key): value for key, value in cell.items()} | ({"flow": flow} if flow else {})
        for key, value in wanted.items():
            if key in frame.columns:
                frame = frame.filter(pl.col(key) == value)
        return frame.sort("seed", maintain_order=True)

    def table(self, part: str, name: str) -> pl.DataFrame:
        """Table ``name`` of a part with ``seed`` and the sweep's keys in front; no rows when it has not run."""
        return self._stores[part].table(name)

    def goodput(self, part: str, cell: Cell, flow: str | None = None) -> tuple[float, ...]:
        """Goodput of one flow in a cell, Mb/s, one value a seed."""
        frame = self.rows(part, cell, flow)
        return tuple(value / 1e6 for value in frame["goodput_bit_s"]) if frame.height else ()


class _Store:
    """A store and its metrics, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: dict[str, pl.DataFrame] = {}

    def table(self, name: str) -> pl.DataFrame:
        """A table of all its runs, read once."""
        import polars as pl

        if self.reading is None:
            return pl.DataFrame()
        if name not in self.tables:
            rows = self.reading.rows(name)
            joined = self.reading.index.join(rows, on="run", how="inner", maintain_order="left")
            self.tables[name] = self.reading.shown(joined)
        return self.tables[name]

    @cached_property
    def reading(self) -> Store | None:
        from bentpipe.store.files import EmptyStoreError
        from bentpipe.store.reader import open_store

        try:
            return open_store(self.path)
        except EmptyStoreError:
            return None

    @cached_property
    def metrics(self) -> pl.DataFrame | None:
        from bentpipe.metrics.compute import run_metrics

        return run_metrics(self.reading) if self.reading is not None else None
