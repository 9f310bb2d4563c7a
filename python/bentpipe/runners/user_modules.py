"""User-supplied modules, compiled from source at each import.

Python reuses compiled code of a file with the same size and the same second of change. A script that rewrites a
controller with one changed value would then run the old one under the id of the new one.
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


class _SourceLoader(SourceFileLoader):
    """Loader that compiles the source of a module."""

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self.source_to_code(self.get_data(self.path), self.path)


def module_of(name: str) -> ModuleType:
    """Import a module as :func:`importlib.import_module`.

    Raises:
        ImportError: no such module.
        Exception: errors of the module itself.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if type(spec.loader) is SourceFileLoader:
        spec.loader = _SourceLoader(spec.loader.name, spec.loader.path)
    module = _load(spec)
    package, _, attribute = name.rpartition(".")
    if package:  # as an import statement does
        setattr(sys.modules[package], attribute, module)
    return module


def module_at(path: Path) -> ModuleType:
    """Load the module of a file under its name, in place of a loaded one; errors of the module are raised."""
    spec = ModuleSpec(path.stem, _SourceLoader(path.stem, str(path)), origin=str(path))
    spec.has_location = True
    return _load(spec)


def _load(spec: ModuleSpec) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        if spec.loader is not None:  # a namespace package has none
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module
