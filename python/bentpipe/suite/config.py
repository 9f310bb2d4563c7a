"""Input of a suite: controllers, scenarios, seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.suite.entry import Entry, entries

__all__ = ["Controller", "SuiteConfig", "parse_config"]

CHECKS = "checks"
"""Name of the checks of a controller alone among the scenarios."""

QUICK_SEEDS = 2
"""Seeds of ``--quick``: one for each of two processors."""


@dataclass(frozen=True)
class Controller:
    """Controller under test."""

    label: str
    """Name in tables, and in the scenarios."""
    built_in: str = ""
    """Its canonical name in the catalogue; empty: a class of the user."""
    user_class: type | None = None
    location: str = ""
    """``FILE.py:CLASS`` of a class of the user."""


@dataclass(frozen=True)
class SuiteConfig:
    """Checked input of a suite."""

    controllers: tuple[Controller, ...]
    """Controllers under test, in the order of the command."""
    entries: tuple[Entry, ...]
    seeds: int | None = None
    """Number of seeds; None: that of each scenario."""
    has_checks: bool = True
    """Whether the checks of each controller run too."""
    against: str = ""
    """Label of the controller that all others are compared with; empty: no comparison."""


def parse_config(
    controllers: Sequence[str],
    *,
    only: Sequence[str] = (),
    quick: bool = False,
    seeds: int | None = None,
    against: str = "",
) -> SuiteConfig:
    """Return a checked config.

    Args:
        controllers: built-in names, ``NAME=FILE.py:CLASS`` or ``FILE.py:CLASS``.
        only: names of scenarios; empty: all.
        quick: the scenarios of ``--quick`` alone, with :data:`QUICK_SEEDS`.
        seeds: number of seeds.
        against: another controller, in the same form.

    Raises:
        ScenarioError: an unknown controller or scenario, or a file of a controller that does not load.
    """
    known = {entry.name: entry for entry in entries()}
    names = (CHECKS, *known)
    problems = [("only", unknown_name(name, names, "scenario")) for name in only if name not in names]
    if problems:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    texts = [*controllers, *([against] if against else [])]
    found = _controllers(texts)
    chosen = list(known.values())
    if only:
        chosen = [known[name] for name in dict.fromkeys(only) if name in known]
    if quick and not only:
        chosen = [entry for entry in chosen if entry.suite.quick]
    label = found[-1].label if against else ""
    count = seeds or (QUICK_SEEDS if quick else None)
    return SuiteConfig(tuple(found), tuple(chosen), count, not only or CHECKS in only, label)


def _controllers(texts: Sequence[str]) -> list[Controller]:
    """Return the controllers of the texts, in order, without repetition. Raises ScenarioError."""
    from bentpipe.api.user_code import load_controllers
    from bentpipe.plan.flow.controllers import LOCATION
    from bentpipe.runners import engine

    names: Mapping[str, str] = {
        name: entry["scenario_name"]
        for entry in engine.catalogue()
        for name in (entry["scenario_name"], *entry["aliases"])
    }
    found: dict[str, Controller] = {}
    for text in texts:
        label, separator, location = text.partition("=")
        if not separator and text in names:
            found[text] = Controller(text, names[text])
        elif LOCATION.fullmatch(location if separator else text):
            name = label if separator else text.rpartition(":")[2]
            ((_, user_class),) = load_controllers([f"{name}={location if separator else text}"]).items()
            found[name] = Controller(name, "", user_class, location if separator else text)
        else:
            wrong = location if separator else text
            problem = f"{unknown_name(wrong, names, 'controller')}; or NAME=FILE.py:CLASS"
            raise ScenarioError([("controller", problem)], SOURCE_ARGUMENT)
    if not found:
        raise ScenarioError(
            [("controller", "found none, expected at least one such as cubic")], SOURCE_ARGUMENT
        )
    return list(found.values())
