"""bentpipe: a laboratory for transport protocols over satellite paths.

``bentpipe.run(scenario)`` runs a scenario file and returns a :class:`Results`; ``bentpipe.open(directory)`` opens a
store. Everything else is in the rooms, from ``scenario`` to ``report`` (ARCHITECTURE.md says in which order).
Importing this package loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.api import Results, RunsFailed, run
    from bentpipe.api import Results as open  # noqa: A004 - bentpipe.open(...) reads like what it does
    from bentpipe.scenario.problems import ScenarioError
    from bentpipe.store.directory import Store, StoreError

    __version__: str
    """The engine's: the release, and a hash of the sources that decide on results."""

__all__ = ["Results", "RunsFailed", "ScenarioError", "Store", "StoreError", "__version__", "open", "run"]

_HOME = {
    "Results": ("bentpipe.api", "Results"),
    "RunsFailed": ("bentpipe.api", "RunsFailed"),
    "ScenarioError": ("bentpipe.scenario.problems", "ScenarioError"),
    "Store": ("bentpipe.store.directory", "Store"),
    "StoreError": ("bentpipe.store.directory", "StoreError"),
    "open": ("bentpipe.api", "Results"),
    "run": ("bentpipe.api", "run"),
}


def __getattr__(name: str) -> Any:
    """Loads a public name when it is asked for."""
    if name == "__version__":
        from bentpipe.runners import engine

        return engine.version()
    if name not in _HOME:
        raise AttributeError(f"module 'bentpipe' has no attribute {name!r}")
    import importlib

    module, attribute = _HOME[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    """What a user calls."""
    return list(__all__)
