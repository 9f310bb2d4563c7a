"""Conformance checks of controllers and schedulers: ``bentpipe check-controller`` and ``check-scheduler``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.api.user_code import CONTROLLER, SCHEDULER, Kind, load_class
from bentpipe.plan.flow.controllers import LOCATION
from bentpipe.runners.worker_process import format_error
from bentpipe.scenario.errors import ScenarioError, UserCodeError, unknown_name
from bentpipe.scenario.link.scheduler import SCHEDULERS
from bentpipe.scenario.sweep import parse_override

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["of_scheduler", "verdicts"]


def verdicts(controller: str, options: Sequence[str]) -> list[dict[str, Any]]:
    """Run the conformance checks of a congestion controller.

    Args:
        controller: a name of the catalogue, or ``FILE.py:CLASS``; a file with one controller needs no class.
        options: ``KEY=VALUE`` for the controller.

    Returns:
        One row for each check: ``name, passed, exemption, detail, source, parts``. If a controller fails a check by
        design, ``exemption`` is the reason. A check at several RTTs has a part for each: ``label, passed, detail``.

    Raises:
        ScenarioError: the controller or file does not exist, or the file has several classes.
        UserCodeError: the class raises an exception or returns an invalid window.
    """
    from bentpipe.runners import engine

    parameters = dict(parse_override(text, "--option", "beta=0.8") for text in options)
    if LOCATION.fullmatch(controller):
        user_class = _load(controller, CONTROLLER)
        try:
            rows = engine.check_controller(user_class, parameters)
        except Exception as error:
            raise UserCodeError(f"{controller}: {format_error(error)}") from error
    else:
        names = [name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])]
        if controller not in names:
            raise ScenarioError([("", unknown_name(controller, names, "controller"))], "check-controller")
        try:
            rows = engine.check_controller(controller, parameters)
        except ValueError as error:
            raise ScenarioError([("", str(error))], "--option") from None
    keys = ("name", "passed", "exemption", "detail", "source", "parts")
    return [{key: row.get(key) for key in keys} for row in rows]


def of_scheduler(scheduler: str, options: Sequence[str]) -> list[dict[str, Any]]:
    """Run the conformance checks of a scheduler.

    A class may have ``exempt``: a dict of the checks that it fails by design, and the reasons.

    Args:
        scheduler: name of a scheduler of the engine, or ``FILE.py:CLASS``; a file with one scheduler needs no class.
        options: ``KEY=VALUE`` for the class.

    Returns:
        One row for each check: ``name, passed, exemption, detail, asks``.

    Raises:
        ScenarioError: the scheduler or file does not exist, the file has several classes, or a scheduler of the
            engine has options.
        UserCodeError: the class raises an exception, chooses no valid user, or ``exempt`` names an unknown check.
    """
    from bentpipe.runners import engine

    parameters = dict(parse_override(text, "--option", "k=0.8") for text in options)
    if not LOCATION.fullmatch(scheduler):
        if parameters:
            raise ScenarioError([("", "requires a class in a file")], "--option")
        rows = engine.check_scheduler(scheduler, {})
        if rows is None:
            known = [name for name in SCHEDULERS if name != "drop-tail"]
            raise ScenarioError([("", unknown_name(scheduler, known, "scheduler"))], "check-scheduler")
        return list(rows)
    user_class = _load(scheduler, SCHEDULER)
    try:
        rows = engine.check_scheduler(user_class, parameters)
    except Exception as error:
        raise UserCodeError(f"{scheduler}: {format_error(error)}") from error
    exempt = getattr(user_class, "exempt", {})
    names = [row["name"] for row in rows]
    if not isinstance(exempt, dict) or not all(isinstance(reason, str) for reason in exempt.values()):
        raise UserCodeError(f"{scheduler}: exempt is {exempt!r}, expected a dict of checks and reasons")
    for name in exempt:
        if name not in names:
            raise UserCodeError(f"{scheduler}: exempt: {unknown_name(str(name), names, 'check')}")
    return [row if row["passed"] else {**row, "exemption": exempt.get(row["name"])} for row in rows]


def _load(location: str, kind: Kind) -> type:
    try:
        return load_class(location, kind)
    except ValueError as error:
        raise ScenarioError([("", str(error))], f"check-{kind.name}") from error
