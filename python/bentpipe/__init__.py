"""Simulation and emulation of transport protocols over satellite paths.

``run`` executes a scenario, ``iter_runs`` yields its runs as they finish, and ``open_results`` opens a store. Tables of
scenarios are in ``bentpipe.scenario``. Importing this package imports no other module.

The packages in the order of the pipeline:

- ``scenario``: parse and validate a scenario file
- ``plan``: turn a scenario into resolved runs
- ``runners``: execute runs by the engine, in virtual time; ``lab`` executes them in real time
- ``store``: write finished runs to disk and read them
- ``metrics``: compute, aggregate and compare metrics of stores
- ``figures``: define all figures of a store
- ``report``: write a store as a page, a notebook or a spreadsheet
- ``api``: functions of this package; ``cli``: commands

A package beside these answers one question or holds one check: ``break_even``, ``build_comparison``, ``capacity``,
``dtn``, ``engine_validation``, ``fit``, ``link_layer``, ``orbit``, ``conformance``, ``doctor``, ``testing`` and
``trace_check``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.api.check import CheckResult, check
    from bentpipe.api.results import Results
    from bentpipe.api.results import Results as open_results
    from bentpipe.api.run import RunIterator, RunsFailedError, iter_runs, run
    from bentpipe.api.user_code import UserCodeWarning
    from bentpipe.break_even import break_even_map
    from bentpipe.capacity import find_capacity
    from bentpipe.link_layer import compare_link_layer
    from bentpipe.plan.analysis.lint import LintWarning
    from bentpipe.runners.execute import CorruptRunWarning, RunResult
    from bentpipe.runners.runner import RunnerError
    from bentpipe.scenario.errors import ScenarioError
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.presets import presets
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import Store
    from bentpipe.store.sql import QueryError

    __version__: str
    """Version of the engine: the release, and a hash of the sources that affect results."""

__all__ = [
    "CheckResult", "CorruptRunWarning", "LintWarning", "QueryError", "Results", "RunIterator", "RunResult",
    "RunnerError", "RunsFailedError", "Scenario", "ScenarioError", "Store", "StoreError", "UserCodeWarning",
    "__version__", "break_even_map", "check", "compare_link_layer", "find_capacity", "iter_runs", "open_results",
    "presets", "run",
]  # fmt: skip

_EXPORTS = {
    "CheckResult": ("bentpipe.api.check", "CheckResult"),
    "CorruptRunWarning": ("bentpipe.runners.execute", "CorruptRunWarning"),
    "LintWarning": ("bentpipe.plan.analysis.lint", "LintWarning"),
    "QueryError": ("bentpipe.store.sql", "QueryError"),
    "Results": ("bentpipe.api.results", "Results"),
    "RunIterator": ("bentpipe.api.run", "RunIterator"),
    "RunResult": ("bentpipe.runners.execute", "RunResult"),
    "RunnerError": ("bentpipe.runners.runner", "RunnerError"),
    "RunsFailedError": ("bentpipe.api.run", "RunsFailedError"),
    "Scenario": ("bentpipe.scenario.model", "Scenario"),
    "ScenarioError": ("bentpipe.scenario.errors", "ScenarioError"),
    "Store": ("bentpipe.store.reader", "Store"),
    "StoreError": ("bentpipe.store.files", "StoreError"),
    "UserCodeWarning": ("bentpipe.api.user_code", "UserCodeWarning"),
    "break_even_map": ("bentpipe.break_even", "break_even_map"),
    "check": ("bentpipe.api.check", "check"),
    "compare_link_layer": ("bentpipe.link_layer", "compare_link_layer"),
    "find_capacity": ("bentpipe.capacity", "find_capacity"),
    "iter_runs": ("bentpipe.api.run", "iter_runs"),
    "open_results": ("bentpipe.api.results", "Results"),
    "presets": ("bentpipe.scenario.presets", "presets"),
    "run": ("bentpipe.api.run", "run"),
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name == "__version__":
        from bentpipe.runners import engine

        return engine.version()
    if name not in _EXPORTS:
        raise AttributeError(f"module 'bentpipe' has no attribute {name!r}")
    import importlib

    module, attribute = _EXPORTS[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
