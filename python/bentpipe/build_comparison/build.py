"""A build: one of the two sides that are compared, as the command line names it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantity_text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Build", "build_of"]

OURS = ("PYTHONPATH", "PYTHONHOME", "BENTPIPE_ENGINE", "BENTPIPE_RT")
"""What would make another installation run with parts of this one."""

CONTROLLER = re.compile(r"[^=/]+=.+\.py:.+")

EXPECTED = (
    "expected the folder of a virtual environment with bentpipe, its command, an engine's file (.so), "
    "a controller NAME=FILE.py:CLASS or a store"
)


@dataclass(frozen=True)
class Build:
    """How the runs of a side are made, or where they are already."""

    side: str
    """``before`` or ``after``."""
    word: str
    """What it was called."""
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "bentpipe.cli")
    """What starts its bentpipe."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    options: tuple[str, ...] = ()
    """Further words of ``run`` and ``check``."""
    store: Path | None = None
    """Where its runs are already."""


def build_of(side: str, word: str | None) -> Build:
    """The build that ``word`` names; None: this bentpipe as it is.

    Raises:
        ScenarioError: it names none.
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
            raise _wrong(side, f'"{word}" has no bin/bentpipe and no plan.json, {EXPECTED}')
        return _installed(side, word, command)
    if not path.is_file():
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, beside)
        hint = f'; did you mean "{path.with_name(near)}"?' if near else ""
        raise _wrong(side, f'no file or folder "{word}", {EXPECTED}{hint}')
    if path.name.endswith(".so"):
        return Build(side, word, environment=os.environ | {"BENTPIPE_ENGINE": str(path.resolve())})
    if not os.access(path, os.X_OK):
        raise _wrong(side, f'"{word}" is no program, {EXPECTED}')
    return _installed(side, word, path)


def _installed(side: str, word: str, command: Path) -> Build:
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    return Build(side, word, (str(command.absolute()),), kept)


def _wrong(side: str, message: str) -> ScenarioError:
    return ScenarioError([(side, message)], SOURCE_ARGUMENT)
