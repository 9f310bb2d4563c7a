"""Execution of a suite: one store for each scenario and controller."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.api.user_code import fingerprint, import_path
from bentpipe.plan.cost import estimate_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.runners.execute import ExecutionSummary, execute
from bentpipe.runners.local import Idle, LocalRunner, cores
from bentpipe.scenario.model import expand_seeds
from bentpipe.suite.config import Controller

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import Observer
    from bentpipe.suite.config import SuiteConfig
    from bentpipe.suite.entry import Entry

__all__ = ["SuitePart", "estimate_seconds", "plan_parts", "run_parts", "scenario_of"]


@dataclass(frozen=True)
class SuitePart:
    """One scenario with one controller, and its plan."""

    entry: Entry
    controller: Controller
    plan: Plan
    is_reference: bool = False
    """Whether the controller is none of the command: a criterion of another one is relative to it."""

    def store_path(self, out: Path) -> Path:
        """Return the directory of the store below ``out``; an edited class has another one."""
        user_class = self.controller.user_class
        version = "" if user_class is None else f"-{fingerprint(user_class)[:8]}"
        return out / self.entry.name / f"{self.controller.label}{version}"


@dataclass
class SuiteExecution:
    """Counts of all parts."""

    reused: int = 0
    done: int = 0
    seconds: float = 0.0
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    """First error by scenario and controller."""


def scenario_of(entry: Entry, controller: Controller) -> dict[str, Any]:
    """Return the scenario of an entry with the controller as that of each flow without one."""
    scenario = copy.deepcopy(dict(entry.scenario))
    for flow in scenario["flow"]:
        flow.setdefault("congestion", controller.label)
    return scenario


def plan_parts(config: SuiteConfig) -> list[SuitePart]:
    """Return the parts of a suite, in the order of its scenarios; each controller of a criterion has one too.

    Raises:
        ScenarioError: a scenario is invalid with a controller.
    """
    parts = []
    labels = {one.label for one in config.controllers}
    for entry in config.entries:
        references = [Controller(name, name) for name in entry.references if name not in labels]
        for controller in (*config.controllers, *references):
            plan = _plan(entry, controller, config.seeds)
            parts.append(SuitePart(entry, controller, plan, controller.label not in labels))
    return parts


def _plan(entry: Entry, controller: Controller, seeds: int | None) -> Plan:
    document = load_scenario(scenario_of(entry, controller))
    user_code = (
        {} if controller.user_class is None else {controller.label: fingerprint(controller.user_class)}
    )
    return build_plan(
        document,
        engine.version(),
        seeds=expand_seeds(seeds),
        catalogue=engine.catalogue(),
        orbits=engine.orbit,
        user_code=user_code,
    )


def estimate_seconds(parts: Sequence[SuitePart], jobs: int | None) -> float:
    """Return the estimated time of all parts in s."""
    return sum(estimate_plan(part.plan, jobs or cores()).seconds for part in parts)


def run_parts(
    parts: Sequence[SuitePart], out: Path, *, jobs: int | None = None, watch: Observer | None = None
) -> SuiteExecution:
    """Run what the stores of the parts lack. A run that fails does not stop the others.

    Args:
        parts: parts in order.
        out: directory of the stores.
        jobs: number of worker processes.
        watch: observer of progress and messages.

    Raises:
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
        bentpipe.StoreError: a store belongs to another scenario or engine.
    """
    result = SuiteExecution()
    with Idle() as idle:
        for part in parts:
            places = {}
            if part.controller.user_class is not None:
                places[part.controller.label] = import_path(part.controller.user_class) or ""
            runner = LocalRunner(jobs, places, idle)
            summary: ExecutionSummary = execute(
                part.plan, runner, part.store_path(out), watch=watch, command="suite"
            )
            result.reused += summary.reused
            result.done += summary.done
            result.seconds += summary.seconds
            if summary.failed:
                key = (part.entry.name, part.controller.label)
                result.failures[key] = summary.failed[0].error
    return result
