"""Plan of a scenario given as file, table or :class:`bentpipe.Scenario`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import load_scenario
from bentpipe.plan.flow.controllers import located_controllers
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.base import to_toml_value
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
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
    if not isinstance(source, (str, Path, Mapping)):
        text = f"found {source!r}, expected a TOML file, a table, or a bentpipe.Scenario"
        raise ScenarioError([("scenario", text)], SOURCE_ARGUMENT)
    overrides = _check_settings(settings)
    document = load_scenario(
        source, overrides.items(), [format_override(*item) for item in overrides.items()], origin="settings"
    )
    return plan_document(document, seeds=seeds, engine=engine, fingerprints=fingerprints)


def _check_settings(settings: object) -> dict[str, object]:
    """Return settings as plain values. Raises ScenarioError if they are not a mapping of keys."""
    example = 'expected keys and values such as {"path.satellite.delay": "15 ms"}'
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise ScenarioError([("settings", f"found {settings!r}, {example}")], SOURCE_ARGUMENT)
    for key in settings:
        if not isinstance(key, str) or not key:
            raise ScenarioError([("settings", f"found the key {key!r}, {example}")], SOURCE_ARGUMENT)
    return {key: to_toml_value(value) for key, value in settings.items()}


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
        fingerprints: fingerprints of user-supplied controllers and schedulers, by name; those that the scenario names
            as ``FILE.py:CLASS`` are added.
        on_cell: called for every cell, as in ``build_plan``.

    Raises:
        ScenarioError: as :func:`plan_scenario`.
    """
    from bentpipe.api.user_code import fingerprint, scenario_controllers
    from bentpipe.runners import engine as engines
    from bentpipe.scenario.model import expand_seeds

    seed_list = expand_seeds(seeds)
    version, catalogue, orbits = engines.version(), engines.catalogue(), engines.orbit
    if engine == "emu" and (located := located_controllers(document.data)):
        text = "found {}, expected a built-in controller; emulation supports no user-supplied ones"
        raise ScenarioError([(key, text.format(f'"{name}"')) for name, key in located.items()], document.name)
    own = {name: fingerprint(class_) for name, class_ in scenario_controllers(document).items()}
    fingerprints = {**(fingerprints or {}), **own}
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
