"""Plan of a scenario given as file, table or :class:`bentpipe.Scenario`."""

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
    fingerprints: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan of a scenario.

    Args:
        scenario: as for :func:`bentpipe.run`.
        settings: dotted keys to set.
        seeds: the number of seeds; None for those of the scenario.
        engine: ``"sim"`` or ``"emu"``.
        fingerprints: fingerprints of user-supplied controllers and schedulers, by name.

    Raises:
        ScenarioError: an invalid scenario, or one that the emulation does not support.
    """
    source = scenario if isinstance(scenario, (str, Path)) else to_toml_value(scenario)
    overrides: dict[str, object] = {key: to_toml_value(value) for key, value in (settings or {}).items()}
    document = load_scenario(
        source, overrides.items(), [format_override(*item) for item in overrides.items()]
    )
    return plan_document(document, seeds=seeds, engine=engine, fingerprints=fingerprints)


def plan_document(
    document: ScenarioDocument,
    *,
    seeds: int | None = None,
    engine: Engine = "sim",
    fingerprints: Mapping[str, str] | None = None,
    on_cell: Callable[[int, int], None] | None = None,
) -> Plan:
    """Return the plan of a document for simulation or emulation.

    Args:
        document: the scenario with its settings.
        seeds: the number of seeds of each cell; None for those of the scenario.
        engine: ``"sim"`` or ``"emu"``.
        fingerprints: fingerprints of user-supplied controllers and schedulers, by name.
        on_cell: called for every cell, as in ``build_plan``.

    Raises:
        ScenarioError: as :func:`plan_scenario`.
    """
    from bentpipe.runners import engine as engines
    from bentpipe.scenario.model import expand_seeds

    seed_list = expand_seeds(seeds)
    version, catalogue, orbits = engines.version(), engines.catalogue(), engines.orbit
    if engine == "sim":
        return build_plan(
            document,
            version,
            seeds=seed_list,
            catalogue=catalogue,
            orbits=orbits,
            user_code=fingerprints,
            on_progress=on_cell,
        )
    from bentpipe.lab.emulation import runner as emu

    version = emu.engine_version(version)
    plan = build_plan(
        document, version, seeds=seed_list, catalogue=catalogue, orbits=orbits, user_code=fingerprints, all_seeds=True,
        on_progress=on_cell,
    )  # fmt: skip
    emu.check(plan, catalogue)
    return plan
