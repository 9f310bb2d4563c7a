"""Simulated and emulated store of a scenario: plan both, and compute their missing runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import ExecutionSummary, Observer
    from bentpipe.runners.runner import Runner

__all__ = ["Both", "plan_engines", "run_both", "stores_of"]


@dataclass(frozen=True)
class Both:
    """Plans of a scenario for both engines, and the paths of their stores."""

    simulated: Plan
    real: Plan
    stores: tuple[Path, Path]
    chromium: Path | None = None
    """Path of the browser, if the scenario loads a page."""


def stores_of(out: Path) -> tuple[Path, Path]:
    """Return the paths of the simulated and the real store, whether they exist or not."""
    from bentpipe.lab.emulation import runner as emu

    browser = out.with_name(f"{out.name}-browser")
    return out, browser if browser.is_dir() else out.with_name(f"{out.name}-{emu.ENGINE}")


def plan_engines(
    file: Path,
    out: Path,
    overrides: Iterable[tuple[str, object]] = (),
    shown: Sequence[str] = (),
    seeds: int | None = None,
) -> Both:
    """Plan ``file`` for both engines.

    Args:
        file: scenario file.
        out: path of the simulated store. The other store has the suffix ``-emu``, or ``-browser`` for pages.
        overrides: dotted keys and values.
        shown: the same as texts, for the store.
        seeds: number of seeds (default: those of the scenario).

    Raises:
        ScenarioError: the scenario is wrong, or emulation does not support it.
    """
    from bentpipe.lab.emulation import runner as emu
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.scenario.model import expand_seeds

    document = load_scenario(file, overrides, shown)
    seed_list = expand_seeds(seeds)
    catalogue = engine.catalogue()
    simulated = build_plan(
        document, engine.version(), seeds=seed_list, catalogue=catalogue, orbits=engine.orbit
    )
    if any(
        flow["load"]["kind"] == "page" for cell in simulated.cells for flow in cell.resolved.spec["flows"]
    ):
        return _plan_pages(file, out, shown, simulated, seed_list)
    version = emu.engine_version(engine.version())
    real = build_plan(
        document, version, seeds=seed_list, catalogue=catalogue, orbits=engine.orbit, all_seeds=True
    )
    emu.check(real, catalogue)
    return Both(simulated, real, (out, out.with_name(f"{out.name}-{emu.ENGINE}")))


def _plan_pages(
    file: Path, out: Path, shown: Sequence[str], simulated: Plan, seed_list: tuple[int, ...] | None
) -> Both:
    """Plan a page, which a browser loads in real time with one session for each seed."""
    from bentpipe.lab.browser import chromium
    from bentpipe.lab.browser.sessions import Options, engine_name, plan_sessions
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.scenario.errors import ScenarioError

    catalogue = engine.catalogue()
    try:
        program = chromium.find()
        name = engine_name(engine.version(), chromium.version(program))
    except chromium.ChromiumError as error:
        raise ScenarioError([("", str(error))], str(file)) from None
    sessions = len(seed_list if seed_list is not None else simulated.cells[0].scenario.seeds)
    real = plan_sessions(
        str(file), Options(units=sessions, settings=tuple(shown), same_tcp=True), name, catalogue
    )
    # If the scenario names no version of HTTP, both engines use the versions that browse compares.
    simulated = build_plan(
        real.document, engine.version(), seeds=seed_list, catalogue=catalogue, orbits=engine.orbit
    )
    return Both(simulated, real, (out, out.with_name(f"{out.name}-browser")), program)


def run_both(
    both: Both, jobs: int | None = None, watch: Observer | None = None
) -> tuple[ExecutionSummary, ExecutionSummary]:
    """Compute the missing runs of both stores, first in simulation and then in emulation.

    Args:
        both: plans and stores.
        jobs: number of labs at a time.
        watch: callbacks for progress and messages.

    Raises:
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
        bentpipe.StoreError: an existing store belongs to another scenario.
    """
    from bentpipe.runners.execute import BROWSER, REAL_TIME, execute
    from bentpipe.runners.local import LocalRunner

    where = BROWSER if both.chromium else REAL_TIME
    simulated = execute(both.simulated, LocalRunner(), both.stores[0], watch=watch)
    return simulated, execute(
        both.real, _real_time_runner(both, jobs), both.stores[1], watch=watch, where=where
    )


def _real_time_runner(both: Both, jobs: int | None) -> Runner:
    from bentpipe.lab.executable import executable
    from bentpipe.runners import engine

    if both.chromium is not None:
        from bentpipe.lab.browser.runner import BrowserRunner

        return BrowserRunner(
            both.stores[1], both.real.engine, both.chromium, executable(), labs=min(jobs or 1, MAX_LABS)
        )
    from bentpipe.lab.emulation.runner import EmulationRunner

    return EmulationRunner(executable(), engine.version(), jobs)


MAX_LABS = 3
"""Maximum number of browsers at a time."""
