"""A program of this folder as a module: what it shares with the others of its kind, and what its tests call."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def script(name: str) -> ModuleType:
    """``scripts/NAME``, which has no suffix, imported without being run."""
    loader = SourceFileLoader(name.replace("-", "_"), str(Path(__file__).with_name(name)))
    spec = spec_from_file_location(loader.name, loader.path, loader=loader)
    if spec is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
