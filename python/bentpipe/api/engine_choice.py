"""Who makes the runs: processes here, a cluster, or labs in real time. The command line asks here too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bentpipe.scenario.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.runners.runner import Runner

__all__ = ["ENGINES", "Engine", "check_engine", "runner_of"]

Engine = Literal["sim", "emu"]
ENGINES: tuple[Engine, ...] = ("sim", "emu")


def check_engine(engine: str) -> None:
    """Raises ValueError for what is none."""
    if engine not in ENGINES:
        raise ValueError(f"engine: {unknown_name(engine, ENGINES, 'engine')}")


def runner_of(
    engine: str, jobs: int | None = None, on: str | None = None, places: Mapping[str, str] | None = None
) -> Runner:
    """The runner of ``engine``; ``places`` are the import paths of controllers of one's own.

    Raises:
        bentpipe.ScenarioError: ``bentpipe-rt`` is not built.
        bentpipe.runners.runner.RunnerError: the cluster ``on`` is not there.
    """
    if engine == "emu":
        from bentpipe.lab.emulation.runner import EmulationRunner
        from bentpipe.lab.executable import executable
        from bentpipe.runners.engine import version

        return EmulationRunner(executable(), version(), jobs)
    if on is None:
        from bentpipe.runners.local import LocalRunner

        return LocalRunner(jobs, places)
    from bentpipe.runners.dask import DaskRunner
    from bentpipe.runners.engine import version

    cluster = DaskRunner(on, version(), places)
    cluster.check()
    return cluster
