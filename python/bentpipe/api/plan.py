"""The plan of a scenario as Python has it: a file, tables, or classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.base import to_toml_value
from bentpipe.scenario.sweep import format_override

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.api.engine_choice import Engine
    from bentpipe.plan.document import ScenarioDocument
    from bentpipe.plan.plan import Plan
    from bentpipe.scenario.model import Scenario

__all__ = ["plan_document", "plan_scenario"]


def plan_scenario(
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
    source = scenario if isinstance(scenario, (str, Path)) else to_toml_value(scenario)
    given: dict[str, object] = {key: to_toml_value(value) for key, value in (settings or {}).items()}
    document = load_scenario(source, given.items(), [format_override(*one) for one in given.items()])
    return plan_document(document, seeds=seeds, engine=engine, own=own)


def plan_document(
    document: ScenarioDocument,
    *,
    seeds: int | None = None,
    engine: Engine = "sim",
    own: Mapping[str, str] | None = None,
    each: Callable[[int, int], None] | None = None,
) -> Plan:
    """Every run of ``document`` with ``seeds`` of them a cell, for virtual or real time.

    ``each`` is told of every cell, as ``build_plan`` has it. Raises ScenarioError as :func:`plan_of`.
    """
    from bentpipe.runners import engine as engines
    from bentpipe.scenario.model import expand_seeds

    chosen = expand_seeds(seeds)
    version, catalogue, orbits = engines.version(), engines.catalogue(), engines.orbit
    if engine == "sim":
        return build_plan(
            document,
            version,
            seeds=chosen,
            catalogue=catalogue,
            orbits=orbits,
            user_code=own,
            on_progress=each,
        )
    from bentpipe.lab.emulation import runner as emu

    version = emu.engine_version(version)
    plan = build_plan(
        document, version, seeds=chosen, catalogue=catalogue, orbits=orbits, user_code=own, all_seeds=True,
        on_progress=each,
    )  # fmt: skip
    emu.check(plan, catalogue)
    return plan
