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
    from collections.abc import Mapping, Sequence

__all__ = ["Build", "build_of", "name_controllers"]

OVERRIDE_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "BENTPIPE_ENGINE", "BENTPIPE_RT")
"""Environment variables that would load parts of this installation into another one."""

COMPARED = "compared"
"""Name of the controller of every flow if no build gives it a name."""

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
        return Build(side, "this bentpipe")
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


def name_controllers(before: Build, after: Build, flows: Sequence[str]) -> tuple[Build, Build]:
    """Return both builds with the options of their controllers.

    A controller without a name stands for the name that the other build gives. If neither gives one, both are the
    controller of every flow.

    Args:
        before: first build.
        after: second build.
        flows: names of the scenario's flows with a controller.
    """
    builds = (before, after)
    names = [build.controller[0] for build in builds if build.controller is not None and build.controller[0]]
    everywhere = (
        ()
        if names
        else tuple(word for flow in flows for word in ("--set", f"flow.{flow}.congestion={COMPARED}"))
    )

    def add_options(build: Build) -> Build:
        if build.controller is None:
            return build
        name, controller = build.controller
        name = name or (names[0] if names else COMPARED)
        return replace(build, options=(*build.options, *everywhere, "--controller", f"{name}={controller}"))

    return add_options(before), add_options(after)


def _installed_build(side: str, word: str, command: Path) -> Build:
    environment = {name: value for name, value in os.environ.items() if name not in OVERRIDE_VARIABLES}
    return Build(side, word, (str(command.absolute()),), environment)


def _error(side: str, message: str) -> ScenarioError:
    return ScenarioError([(side, message)], SOURCE_ARGUMENT)
