"""Simulation and emulation of transport protocols over satellite paths.

``run`` executes a scenario, ``start`` yields its runs as they finish, and ``open`` opens a store. Tables of scenarios
are in ``bentpipe.scenario``. Importing this package imports no other module. ARCHITECTURE.md has the packages in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.api.check import CheckResult, check
    from bentpipe.api.results import Results
    from bentpipe.api.results import Results as open  # noqa: A004 - bentpipe.open(...) reads like what it does
    from bentpipe.api.run import RunIterator, RunsFailedError, iter_runs, run
    from bentpipe.break_even import break_even_map as map  # noqa: A004 - the command's name
    from bentpipe.runners.execute import RunResult
    from bentpipe.scenario.errors import ScenarioError
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.presets import presets
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import Store

    __version__: str
    """The engine's: the release, and a hash of the sources that decide on results."""

__all__ = [
    "CheckResult",
    "Results",
    "RunIterator",
    "RunResult",
    "RunsFailedError",
    "Scenario",
    "ScenarioError",
    "Store",
    "StoreError",
    "__version__",
    "check",
    "iter_runs",
    "map",
    "open",
    "presets",
    "run",
]  # fmt: skip

_HOME = {
    "Checked": ("bentpipe.api.check", "Checked"),
    "Finished": ("bentpipe.runners.execute", "Finished"),
    "Results": ("bentpipe.api.results", "Results"),
    "Runs": ("bentpipe.api.run", "Runs"),
    "RunsFailed": ("bentpipe.api.run", "RunsFailed"),
    "Scenario": ("bentpipe.scenario.model", "Scenario"),
    "ScenarioError": ("bentpipe.scenario.errors", "ScenarioError"),
    "Store": ("bentpipe.store.reader", "Store"),
    "StoreError": ("bentpipe.store.files", "StoreError"),
    "check": ("bentpipe.api.check", "check"),
    "map": ("bentpipe.break_even", "measure"),
    "open": ("bentpipe.api.results", "Results"),
    "presets": ("bentpipe.scenario.presets", "presets"),
    "run": ("bentpipe.api.run", "run"),
    "start": ("bentpipe.api.run", "start"),
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
