"""Conformance checks of controllers and schedulers: ``bentpipe check-controller`` and ``check-scheduler``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.runners.user_modules import module_at
from bentpipe.runners.worker_process import format_error
from bentpipe.scenario.errors import ScenarioError, UserCodeError, unknown_name
from bentpipe.scenario.link.scheduler import SCHEDULERS
from bentpipe.scenario.sweep import parse_override

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["load_class", "of_scheduler", "verdicts"]


def verdicts(controller: str, options: Sequence[str]) -> list[dict[str, Any]]:
    """Run the conformance checks of a congestion controller.

    Args:
        controller: a name of the catalogue, or a Python file that defines one class with ``on_event``.
        options: ``KEY=VALUE`` for the controller.

    Returns:
        One row for each check: ``name, passed, exemption, detail, rfc_section``. If a controller fails a check by
        design, ``exemption`` is the reason.

    Raises:
        ScenarioError: the controller or file does not exist, or the file has not exactly one class.
        UserCodeError: the class raises an exception or returns an invalid window.
    """
    from bentpipe.runners import engine

    parameters = dict(parse_override(text, "--option", "beta=0.8") for text in options)
    if controller.endswith(".py"):
        user_class = load_class(Path(controller), "on_event")
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
    keys = ("name", "passed", "exemption", "detail", "rfc_section")
    return [{key: row.get(key) for key in keys} for row in rows]


def of_scheduler(scheduler: str, options: Sequence[str]) -> list[dict[str, Any]]:
    """Run the conformance checks of a scheduler.

    A class may have ``exempt``: a dict of the checks that it fails by design, and the reasons.

    Args:
        scheduler: name of a scheduler of the engine, or a Python file that defines one class with ``choose``.
        options: ``KEY=VALUE`` for the class.

    Returns:
        One row for each check: ``name, passed, exemption, detail, asks``.

    Raises:
        ScenarioError: the scheduler or file does not exist, the file has not exactly one class, or a scheduler of the
            engine has options.
        UserCodeError: the class raises an exception, chooses no valid user, or ``exempt`` names an unknown check.
    """
    from bentpipe.runners import engine

    parameters = dict(parse_override(text, "--option", "k=0.8") for text in options)
    if not scheduler.endswith(".py"):
        if parameters:
            raise ScenarioError([("", "requires a class in a file")], "--option")
        rows = engine.check_scheduler(scheduler, {})
        if rows is None:
            known = [name for name in SCHEDULERS if name != "drop-tail"]
            raise ScenarioError([("", unknown_name(scheduler, known, "scheduler"))], "check-scheduler")
        return list(rows)
    user_class = load_class(Path(scheduler), "choose")
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


def load_class(path: Path, method: str) -> type:
    """Return the only class with ``method`` in a Python file.

    Raises:
        ScenarioError: the file cannot be loaded, or has not exactly one such class.
    """
    if not path.is_file():
        raise ScenarioError([("", "no such file")], str(path))
    if path.suffix != ".py":
        raise ScenarioError([("", "is not a Python file")], str(path))
    try:
        module = module_at(path)
    except (Exception, SystemExit) as error:
        raise ScenarioError([("", f"cannot be loaded: {format_error(error)}")], str(path)) from error
    classes = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__ and callable(getattr(member, method, None))
    ]
    if len(classes) != 1:
        found = ", ".join(user_class.__name__ for user_class in classes) or "none"
        raise ScenarioError([("", f"found {found}, expected one class with a method {method}")], str(path))
    only: type = classes[0]
    return only
