"""User-supplied modules, compiled from source at each import.

Python reuses compiled code of a file with the same size and the same second of change. A script that rewrites a
controller with one changed value would then run the old one under the id of the new one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, ModuleType

__all__ = ["file_of", "module_in_file", "module_of"]


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


def module_in_file(path: Path) -> ModuleType:
    """Import a Python file, and again after a change of its source.

    The module has a name of its own, so that files of the same name in several folders are several modules. Its folder
    is appended to the module search path. Errors of the module itself are raised.

    Args:
        path: absolute path of the file.

    Raises:
        ImportError: a module that the file imports does not exist or comes from another folder.
    """
    source = path.read_bytes()
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    loaded = sys.modules.get(name)
    if loaded is not None and _sources[path] == source:
        return loaded
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()  # the file and its neighbours may be newer than the lists of their folders
    _check_neighbours(path, source)
    spec = ModuleSpec(name, _FileLoader(name, str(path)), origin=str(path))
    spec.has_location = True
    module = _load(spec)
    _sources[path] = source
    return module


_sources: dict[Path, bytes] = {}
"""Sources of the modules that :func:`module_in_file` imported."""


def file_of(module: str) -> str | None:
    """Return the file of a module that :func:`module_in_file` imported; None for others."""
    loader = getattr(sys.modules.get(module), "__loader__", None)
    return loader.path if isinstance(loader, _FileLoader) else None


class _FileLoader(_SourceLoader):
    """Loader of :func:`module_in_file`."""


def _check_neighbours(path: Path, source: bytes) -> None:
    """Raise ImportError if ``path`` imports a neighbour but would get a file of another imported file's folder."""
    folders = {str(file.parent) for file in _sources} - {str(path.parent)}
    for neighbour in path.parent.glob("*.py"):
        if not re.search(rf"(?m)^\s*(?:import|from)\s+{re.escape(neighbour.stem)}\b".encode(), source):
            continue
        spec = importlib.util.find_spec(neighbour.stem)
        if spec is not None and spec.origin is not None and str(Path(spec.origin).parent) in folders:
            raise ImportError(f'its module "{neighbour.stem}" is already {spec.origin}')


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
