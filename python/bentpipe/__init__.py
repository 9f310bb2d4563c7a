"""bentpipe: a laboratory for transport protocols over satellite paths.

``bentpipe.run(scenario)`` runs a scenario and returns a :class:`Results`, ``bentpipe.start(scenario)`` gives its runs
as they finish; ``bentpipe.open(directory)`` opens a store. ``check``, ``presets``, ``map`` and ``study`` are the
commands of these names. The tables of which scenarios are composed are in ``bentpipe.scenario``. Everything else is in
the rooms, from ``scenario`` to ``report`` (ARCHITECTURE.md says in which order). Importing this package loads nothing
heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.api.checking import Checked, check
    from bentpipe.api.results import Results
    from bentpipe.api.results import Results as open  # noqa: A004 - bentpipe.open(...) reads like what it does
    from bentpipe.api.running import Runs, RunsFailed, run, start
    from bentpipe.crossover import measure as map  # noqa: A004 - the command's name
    from bentpipe.runners.conduct import Finished
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.presets import presets
    from bentpipe.scenario.problems import ScenarioError
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import Store
    from bentpipe.studies import run as study

    __version__: str
    """The engine's: the release, and a hash of the sources that decide on results."""

__all__ = [
    "Checked", "Finished", "Results", "Runs", "RunsFailed", "Scenario", "ScenarioError", "Store", "StoreError",
    "__version__", "check", "map", "open", "presets", "run", "start", "study",
]  # fmt: skip

_HOME = {
    "Checked": ("bentpipe.api.checking", "Checked"),
    "Finished": ("bentpipe.runners.conduct", "Finished"),
    "Results": ("bentpipe.api.results", "Results"),
    "Runs": ("bentpipe.api.running", "Runs"),
    "RunsFailed": ("bentpipe.api.running", "RunsFailed"),
    "Scenario": ("bentpipe.scenario.model", "Scenario"),
    "ScenarioError": ("bentpipe.scenario.problems", "ScenarioError"),
    "Store": ("bentpipe.store.reader", "Store"),
    "StoreError": ("bentpipe.store.files", "StoreError"),
    "check": ("bentpipe.api.checking", "check"),
    "map": ("bentpipe.crossover", "measure"),
    "open": ("bentpipe.api.results", "Results"),
    "presets": ("bentpipe.scenario.presets", "presets"),
    "run": ("bentpipe.api.running", "run"),
    "start": ("bentpipe.api.running", "start"),
    "study": ("bentpipe.studies", "run"),
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
