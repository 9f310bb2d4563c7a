"""Modules of a user's, compiled from their text each time.

Python takes what it has compiled before for a file that has the same size and was changed in the same second. Who
writes a controller anew from a script, a value in it changed, would have a run of the old one under the id of the new.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType, ModuleType

__all__ = ["module_at", "module_of"]


class _FromText(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self.source_to_code(self.get_data(self.path), self.path)


def module_of(name: str) -> ModuleType:
    """As :func:`importlib.import_module`. Raises ImportError, and whatever the module raises."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if type(spec.loader) is SourceFileLoader:
        spec.loader = _FromText(spec.loader.name, spec.loader.path)
    module = _carried_out(spec)
    package, _, own = name.rpartition(".")
    if package:  # as an import does
        setattr(sys.modules[package], own, module)
    return module


def module_at(path: Path) -> ModuleType:
    """The module of a file, under its name and in the place of whatever was there. Raises whatever it raises."""
    spec = ModuleSpec(path.stem, _FromText(path.stem, str(path)), origin=str(path))
    spec.has_location = True
    return _carried_out(spec)


def _carried_out(spec: ModuleSpec) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        if spec.loader is not None:  # a folder has none
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module
