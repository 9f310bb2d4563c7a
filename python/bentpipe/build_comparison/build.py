"""Build on the command line: one of the two sides of a comparison."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantity_text import nearest_file

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Build", "build_of"]

OVERRIDE_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "BENTPIPE_ENGINE", "BENTPIPE_RT")
"""Environment variables that would load parts of this installation into another one."""

CONTROLLER = re.compile(r"[^=/]+=.+\.py:.+")

EXPECTED = (
    "expected the folder of a virtual environment with bentpipe, its command, an engine's file (.so), "
    "a controller NAME=FILE.py:CLASS or a store"
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


def build_of(side: str, word: str | None) -> Build:
    """Return the build named ``word``, or this bentpipe for None.

    Args:
        side: ``before`` or ``after``.
        word: directory of a virtual environment, command, engine (.so), controller or store.

    Raises:
        ScenarioError: ``word`` does not name a build.
    """
    if word is None:
        return Build(side, "this bentpipe")
    path = Path(word)
    if (path / "plan.json").is_file():
        return Build(side, word, store=path)
    if CONTROLLER.fullmatch(word):
        return Build(side, word, options=("--controller", word))
    if path.is_dir():
        command = path / "bin/bentpipe"
        if not command.is_file():
            raise _error(side, f'"{word}" has no bin/bentpipe and no plan.json, {EXPECTED}')
        return _installed_build(side, word, command)
    if not path.is_file():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest_file(path.name, siblings)
        hint = f'; did you mean "{path.with_name(near)}"?' if near else ""
        raise _error(side, f'no file or folder "{word}", {EXPECTED}{hint}')
    if path.name.endswith(".so"):
        return Build(side, word, environment=os.environ | {"BENTPIPE_ENGINE": str(path.resolve())})
    if not os.access(path, os.X_OK):
        raise _error(side, f'"{word}" is not an executable, {EXPECTED}')
    return _installed_build(side, word, path)


def _installed_build(side: str, word: str, command: Path) -> Build:
    environment = {name: value for name, value in os.environ.items() if name not in OVERRIDE_VARIABLES}
    return Build(side, word, (str(command.absolute()),), environment)


def _error(side: str, message: str) -> ScenarioError:
    return ScenarioError([(side, message)], SOURCE_ARGUMENT)
