"""Import scripts without a suffix, for other scripts and for tests."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def load_script(name: str) -> ModuleType:
    """Import ``scripts/NAME`` as a module without running its ``main``."""
    loader = SourceFileLoader(name.replace("-", "_"), str(Path(__file__).with_name(name)))
    spec = spec_from_file_location(loader.name, loader.path, loader=loader)
    if spec is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
