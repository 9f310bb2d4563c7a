"""Runner of an engine: local processes, a cluster, or emulation in real time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bentpipe.scenario.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.runners.runner import Runner

__all__ = ["ENGINES", "Engine", "check_engine", "create_runner"]

Engine = Literal["sim", "emu"]
ENGINES: tuple[Engine, ...] = ("sim", "emu")
"""Simulation in virtual time, emulation in real time."""


def check_engine(engine: str) -> None:
    """Check the name of an engine. Raises ValueError."""
    if engine not in ENGINES:
        raise ValueError(f"engine: {unknown_name(engine, ENGINES, 'engine')}")


def create_runner(
    engine: str,
    jobs: int | None = None,
    cluster: str | None = None,
    import_paths: Mapping[str, str] | None = None,
) -> Runner:
    """Return the runner of an engine.

    Args:
        engine: ``"sim"`` or ``"emu"``.
        jobs: the number of worker processes, or of concurrent labs.
        cluster: the address of a cluster.
        import_paths: ``module:Class`` of user-supplied controllers, by name.

    Raises:
        bentpipe.ScenarioError: ``bentpipe-rt`` is not built.
        bentpipe.runners.runner.RunnerError: the cluster cannot be reached.
    """
    if engine == "emu":
        from bentpipe.lab.emulation.runner import EmulationRunner
        from bentpipe.lab.executable import executable
        from bentpipe.runners.engine import version

        return EmulationRunner(executable(), version(), jobs)
    if cluster is None:
        from bentpipe.runners.local import LocalRunner

        return LocalRunner(jobs, import_paths)
    from bentpipe.runners.dask import DaskRunner
    from bentpipe.runners.engine import version

    runner = DaskRunner(cluster, version(), import_paths)
    runner.check()
    return runner
