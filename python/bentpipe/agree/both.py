"""The two stores of a scenario: what is missing in either is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.plan import Plan
    from bentpipe.session import Report

__all__ = ["Both", "planned", "run_both"]


@dataclass(frozen=True)
class Both:
    """A scenario planned for both clocks, and where its stores are."""

    simulated: Plan
    real: Plan
    stores: tuple[Path, Path]


def planned(
    file: Path,
    out: Path,
    overrides: Iterable[tuple[str, object]] = (),
    shown: Sequence[str] = (),
    seeds: int | None = None,
) -> Both:
    """Plans ``file`` for both clocks; its stores are ``out`` and ``out`` with ``-emu`` behind it.

    Raises:
        ScenarioError: what is wrong, or what real time cannot have.
    """
    from bentpipe.plan import make, open_document
    from bentpipe.runners import emu, engine

    document = open_document(file, overrides, shown)
    chosen = tuple(range(1, seeds + 1)) if seeds is not None else None
    catalogue = engine.catalogue()
    simulated = make(document, engine.version(), seeds=chosen, catalogue=catalogue)
    real = make(
        document, emu.engine_version(engine.version()), seeds=chosen, catalogue=catalogue, repeats=True
    )
    emu.check(real, catalogue)
    return Both(simulated, real, (out, out.with_name(f"{out.name}-{emu.ENGINE}")))


def run_both(both: Both, jobs: int | None = None, *, quiet: bool = False) -> tuple[Report, Report]:
    """Runs what the stores do not have yet, in virtual time and then in real time (``jobs`` labs at a time).

    Raises:
        bentpipe.store.StoreError: a store there is not this scenario's.
    """
    from bentpipe.runners import engine
    from bentpipe.runners.emu import EmuRunner
    from bentpipe.runners.local import LocalRunner
    from bentpipe.session import conduct
    from bentpipe.shell import executable
    from bentpipe.store import Writer
    from bentpipe.terminal import progress

    real = EmuRunner(executable(), engine.version(), jobs)
    reports = []
    for plan, runner, path in (
        (both.simulated, LocalRunner(), both.stores[0]),
        (both.real, real, both.stores[1]),
    ):
        where = "real time" if runner is real else "local"
        with Writer(path, plan) as writer:
            missing = writer.missing(plan.runs)
            with progress(plan, missing, quiet=quiet) as each:
                reports.append(conduct(plan, runner, writer, each=each, where=where))
    return reports[0], reports[1]
