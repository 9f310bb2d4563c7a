"""The plan of a scenario as Python has it: a file, tables, or classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import open_document
from bentpipe.plan.plan import make
from bentpipe.scenario.base import written
from bentpipe.scenario.sweep import written_override

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.api.engine_choice import Engine
    from bentpipe.plan.document import Document
    from bentpipe.plan.plan import Plan
    from bentpipe.scenario.model import Scenario

__all__ = ["plan_of", "planned"]


def plan_of(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    settings: Mapping[str, object] | None = None,
    *,
    seeds: int | None = None,
    engine: Engine = "sim",
    own: Mapping[str, str] | None = None,
) -> Plan:
    """Every run of ``scenario``, as :func:`bentpipe.run` takes it; ``own`` are fingerprints of its controllers.

    Raises:
        ScenarioError: what is wrong, by key, or what real time cannot have.
    """
    source = scenario if isinstance(scenario, (str, Path)) else written(scenario)
    given: dict[str, object] = {key: written(value) for key, value in (settings or {}).items()}
    document = open_document(source, given.items(), [written_override(*one) for one in given.items()])
    return planned(document, seeds=seeds, engine=engine, own=own)


def planned(
    document: Document,
    *,
    seeds: int | None = None,
    engine: Engine = "sim",
    own: Mapping[str, str] | None = None,
    each: Callable[[int, int], None] | None = None,
) -> Plan:
    """Every run of ``document`` with ``seeds`` of them a cell, for virtual or real time.

    ``each`` is told of every cell, as :func:`bentpipe.plan.plan.make` has it. Raises ScenarioError as :func:`plan_of`.
    """
    from bentpipe.runners import engine as engines
    from bentpipe.scenario.model import numbered

    chosen = numbered(seeds)
    version, catalogue, orbits = engines.version(), engines.catalogue(), engines.orbit
    if engine == "sim":
        return make(document, version, seeds=chosen, catalogue=catalogue, orbits=orbits, own=own, each=each)
    from bentpipe.lab.emulation import runner as emu

    version = emu.engine_version(version)
    plan = make(
        document, version, seeds=chosen, catalogue=catalogue, orbits=orbits, own=own, repeats=True, each=each
    )  # fmt: skip
    emu.check(plan, catalogue)
    return plan
