"""The two stores of a scenario: what is missing in either is run."""

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
    """A scenario planned for both clocks, and where its stores are."""

    simulated: Plan
    real: Plan
    stores: tuple[Path, Path]
    chromium: Path | None = None
    """The browser, where the scenario loads a page."""


def stores_of(out: Path) -> tuple[Path, Path]:
    """The simulated store and the real one, as far as they are there."""
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
    """Plans ``file`` for both clocks; its stores are ``out`` and ``out`` with ``-emu`` (pages: ``-browser``) behind it.

    Raises:
        ScenarioError: what is wrong, or what real time cannot have.
    """
    from bentpipe.lab.emulation import runner as emu
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.scenario.model import expand_seeds

    document = load_scenario(file, overrides, shown)
    chosen = expand_seeds(seeds)
    catalogue = engine.catalogue()
    simulated = build_plan(document, engine.version(), seeds=chosen, catalogue=catalogue, orbits=engine.orbit)
    if any(
        flow["load"]["kind"] == "page" for cell in simulated.cells for flow in cell.resolved.spec["flows"]
    ):
        return _pages(file, out, shown, simulated, chosen)
    version = emu.engine_version(engine.version())
    real = build_plan(document, version, seeds=chosen, catalogue=catalogue, orbits=engine.orbit, repeats=True)
    emu.check(real, catalogue)
    return Both(simulated, real, (out, out.with_name(f"{out.name}-{emu.ENGINE}")))


def _pages(
    file: Path, out: Path, shown: Sequence[str], simulated: Plan, chosen: tuple[int, ...] | None
) -> Both:
    """A page: in real time a browser loads it, a unit a seed."""
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
    units = len(chosen if chosen is not None else simulated.cells[0].scenario.seeds)
    real = plan_sessions(
        str(file), Options(units=units, settings=tuple(shown), same_tcp=True), name, catalogue
    )
    # versions of HTTP that the scenario does not name are those that browse compares
    simulated = build_plan(
        real.document, engine.version(), seeds=chosen, catalogue=catalogue, orbits=engine.orbit
    )
    return Both(simulated, real, (out, out.with_name(f"{out.name}-browser")), program)


def run_both(
    both: Both, jobs: int | None = None, watch: Observer | None = None
) -> tuple[ExecutionSummary, ExecutionSummary]:
    """Runs what the stores do not have yet, in virtual time and then in real time (``jobs`` labs at a time).

    Raises:
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
        bentpipe.StoreError: a store there is not this scenario's.
    """
    from bentpipe.runners.execute import BROWSER, REAL_TIME, execute
    from bentpipe.runners.local import LocalRunner

    where = BROWSER if both.chromium else REAL_TIME
    simulated = execute(both.simulated, LocalRunner(), both.stores[0], watch=watch)
    return simulated, execute(both.real, _real(both, jobs), both.stores[1], watch=watch, where=where)


def _real(both: Both, jobs: int | None) -> Runner:
    from bentpipe.lab.executable import executable
    from bentpipe.runners import engine

    if both.chromium is not None:
        from bentpipe.lab.browser.runner import BrowserRunner

        return BrowserRunner(
            both.stores[1], both.real.engine, both.chromium, executable(), labs=min(jobs or 1, MOST_LABS)
        )
    from bentpipe.lab.emulation.runner import EmulationRunner

    return EmulationRunner(executable(), engine.version(), jobs)


MOST_LABS = 3
"""Browsers at a time."""
