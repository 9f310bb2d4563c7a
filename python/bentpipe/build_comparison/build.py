"""Build on the command line: one of the two sides of a comparison."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.plan.flow.controllers import LOCATION, by_name
from bentpipe.runners import engine
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantity_text import nearest, nearest_file

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Build", "build_of", "name_controllers"]

OVERRIDE_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "BENTPIPE_ENGINE", "BENTPIPE_RT")
"""Environment variables that would load parts of this installation into another one."""

EXPECTED = (
    "expected the folder of a virtual environment with bentpipe, its command, an engine's file (.so), "
    "a controller [NAME=]FILE.py:CLASS or a built-in one, or a store"
)


@dataclass(frozen=True)
class Build:
    """Command that makes the runs of a side, or a store with finished runs."""

    side: str
    """``before`` or ``after``."""
    word: str
    """Name on the command line."""
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "bentpipe.cli")
    """Command line prefix of its bentpipe."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    options: tuple[str, ...] = ()
    """Additional arguments of ``run`` and ``check``."""
    store: Path | None = None
    """Store with finished runs."""
    controller: tuple[str, str] | None = None
    """Name in the scenario, or an empty text, and its controller: a built-in one or ``FILE.py:CLASS``."""
    folder: str = ""
    """Folder of its new store, in that of the comparison."""
    is_default: bool = False
    """Whether the command line does not name the build."""


def build_of(side: str, word: str | None) -> Build:
    """Return the build named ``word``, or this bentpipe for None.

    Args:
        side: ``before`` or ``after``.
        word: directory of a virtual environment, command, engine (.so), store, or controller: a built-in one or
            ``FILE.py:CLASS``, perhaps after ``NAME=``.

    Raises:
        ScenarioError: ``word`` does not name a build.
    """
    if word is None:
        return Build(side, "this bentpipe", is_default=True)
    path = Path(word)
    if (path / "plan.json").is_file():
        return Build(side, word, store=path)
    name, _, controller = word.rpartition("=")
    built_in = by_name(engine.catalogue())
    if LOCATION.fullmatch(controller) or (controller in built_in and (name or not path.exists())):
        return Build(side, word, controller=(name, controller))
    if path.is_dir():
        command = path / "bin/bentpipe"
        if not command.is_file():
            raise _error(side, f'"{word}" has no bin/bentpipe and no plan.json, {EXPECTED}')
        return _installed_build(side, word, command)
    if not path.is_file():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest_file(path.name, siblings)
        similar = nearest(controller, built_in)
        prefix = f"{name}=" if name else ""
        near = str(path.with_name(near)) if near else f"{prefix}{similar}" if similar else None
        hint = f'; did you mean "{near}"?' if near else ""
        raise _error(side, f'no file or folder "{word}", {EXPECTED}{hint}')
    if path.name.endswith(".so"):
        return Build(side, word, environment=os.environ | {"BENTPIPE_ENGINE": str(path.resolve())})
    if not os.access(path, os.X_OK):
        raise _error(side, f'"{word}" is not an executable, {EXPECTED}')
    return _installed_build(side, word, path)


def name_controllers(before: Build, after: Build, flows: Mapping[str, bool]) -> tuple[Build, Build]:
    """Return both builds with the options of their controllers.

    A controller without a name stands for the name that the other build gives. If neither gives one, each is the
    controller of every flow in the runs of its build.

    Args:
        before: first build.
        after: second build.
        flows: names of the scenario's flows with a controller, each with whether the sweep has values for it.

    Raises:
        ScenarioError: one build has a controller for every flow, the other makes a run for each swept controller.
    """
    builds = (before, after)
    names = [build.controller[0] for build in builds if build.controller is not None and build.controller[0]]
    for build, other in zip(builds, reversed(builds), strict=True):
        swept = next((flow for flow, is_swept in flows.items() if is_swept), None)
        if swept is not None and not names and build.controller and not (other.controller or other.store):
            found = "missing" if other.is_default else f"found {other.word}"
            text = (
                f"{found}, expected a second controller such as cubic: "
                f"the scenario sweeps flow.{swept}.congestion, and --{build.side} {build.word} replaces all its values"
            )
            raise _error(other.side, text)

    def add_options(build: Build) -> Build:
        if build.controller is None:
            return replace(build, folder=build.side)
        name, controller = build.controller
        folder = build.side
        if name or names:
            words = ["--controller", f"{name or names[0]}={controller}"]
        else:
            name, words = _controller_options(controller)
            words += [word for flow in flows for word in ("--set", f"flow.{flow}.congestion={name}")]
            # A store has one set of settings: stores of other controllers stay as they are.
            folder = f"{build.side}-{name}"
        return replace(build, options=(*build.options, *words), folder=folder)

    return add_options(before), add_options(after)


def _controller_options(controller: str) -> tuple[str, list[str]]:
    """Return the name of a controller in the runs of its build, and the option that defines it."""
    built_in = by_name(engine.catalogue())
    if controller in built_in:
        return controller, []
    found = LOCATION.fullmatch(controller)
    name = (found and found["class"]) or Path(found["file"] if found else controller).stem
    name = f"user-{name}" if name in built_in else name
    return name, ["--controller", f"{name}={controller}"]


def _installed_build(side: str, word: str, command: Path) -> Build:
    environment = {name: value for name, value in os.environ.items() if name not in OVERRIDE_VARIABLES}
    return Build(side, word, (str(command.absolute()),), environment)


def _error(side: str, message: str) -> ScenarioError:
    return ScenarioError([(side, message)], SOURCE_ARGUMENT)
