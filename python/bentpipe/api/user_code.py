"""Classes of one's own: out of files (``NAME=FILE.py:CLASS``), where workers import them, what tells two apart."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.runners import engine
from bentpipe.runners.user_modules import module_of
from bentpipe.runners.worker_process import format_error
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.quantity_text import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["controllers_of", "fingerprint", "import_place"]

_KEY = "--controller"
_EXAMPLE = "mine=cc.py:Mine"


def controllers_of(texts: Sequence[str]) -> dict[str, type]:
    """The classes of ``NAME=FILE.py:CLASS`` texts, by name.

    A file is imported as its workers import it, as a module of its name; its folder is put at the end of the module
    search path.

    Raises:
        ScenarioError: no such file or class, a file that cannot be imported, a name that the engine's have.
    """
    found: dict[str, type] = {}
    taken = {name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])}
    for text in texts:
        name, _, place = text.partition("=")
        file, _, kind = place.rpartition(":")
        if not name or not file.endswith(".py") or not kind:
            raise ScenarioError([(_KEY, f'found "{text}", expected NAME=FILE.py:CLASS such as "{_EXAMPLE}"')])
        if name in found:
            raise ScenarioError([(_KEY, f'found "{name}" twice')])
        if name in taken:
            raise ScenarioError([(_KEY, f'"{name}" is one of the engine\'s, expected another name')])
        found[name] = _class(Path(file), kind)
    return found


def _class(path: Path, kind: str) -> type:
    if not path.is_file():
        near = (
            nearest(path.name, [one.name for one in path.parent.glob("*.py")])
            if path.parent.is_dir()
            else None
        )
        hint = f'; did you mean "{path.with_name(near)}"?' if near else ""
        raise ScenarioError([(_KEY, f'no file "{path}"{hint}')])
    if not path.stem.isidentifier():
        text = f'"{path.name}" cannot be imported: its name is none of a module, expected one such as "cc.py"'
        raise ScenarioError([(_KEY, text)])
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = module_of(path.stem)
    except (Exception, SystemExit) as error:
        raise ScenarioError([(_KEY, f"{path} cannot be imported: {format_error(error)}")]) from error
    if Path(getattr(module, "__file__", None) or "").resolve() != path.resolve():
        raise ScenarioError([(_KEY, f'{path} cannot be imported: another module is called "{path.stem}"')])
    controllers = {
        name: one
        for name, one in vars(module).items()
        if isinstance(one, type) and callable(getattr(one, "on_event", None))
    }
    if kind not in controllers:
        text = unknown_name(kind, controllers, "class with a method on_event")
        raise ScenarioError([(_KEY, f"{path}: {text}")])
    return controllers[kind]


def import_place(kind: type) -> str | None:
    """``module:Class`` from which another process can import a class; None if none can."""
    module, name = kind.__module__, kind.__qualname__
    if module in ("__main__", "builtins") or "<locals>" in name or module not in sys.modules:
        return None
    return f"{module}:{name}" if getattr(sys.modules[module], "__file__", None) else None


def fingerprint(kind: type) -> str:
    """A hash of a class's source (or byte code), so that a changed controller makes new runs."""
    try:
        text = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):
        codes = [member.__code__ for _, member in sorted(inspect.getmembers(kind, inspect.isfunction))]
        text = repr([(code.co_code, code.co_consts, code.co_names) for code in codes])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
