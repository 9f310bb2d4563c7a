"""Differences between the scenarios of two stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.files import StoreError
from bentpipe.store.settings import differing_settings, format_differences, scenario_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["path_differences", "scenario_differences"]

MAX_KEYS = 5
"""Keys that a note lists; it counts the others."""

_MISSING = "not set"


MAX_PATH_KEYS = 3
"""Keys of a path that a title lists; it counts the others."""


def path_differences(before: Store, after: Store) -> str:
    """Return the keys of the path in which two stores differ, with both values; empty for equal paths."""
    paths = {
        key: values
        for key, values in differing_settings([before, after]).items()
        if key.split(".")[0] in ("path", "graph", "orbit")
    }
    return format_differences(paths, MAX_PATH_KEYS, " → ")


def scenario_differences(
    before: Store, after: Store, specs: Callable[[], Sequence[tuple[RunSpec | None, RunSpec | None]]]
) -> Iterator[str]:
    """Yield a sentence on the keys in which the scenarios of two stores differ; nothing if they are equal.

    For equal scenarios and one engine, it compares the resolved paths of every cell: these contain the traces and
    presets that a scenario refers to.

    Args:
        before: store before the change.
        after: store after the change.
        specs: returns the RunSpec of a common run of each cell, before and after; called only if needed.
    """
    try:
        first, second = (scenario_keys(store) for store in (before, after))
    except (StoreError, ScenarioError, ValueError) as error:
        yield f"The scenarios cannot be compared: {error}."
        return
    changed = [
        key
        for key in (*first, *(key for key in second if key not in first))
        if first.get(key) != second.get(key)
    ]
    if changed:
        listed = [
            f"{key} ({_value(first, key)} before, {_value(second, key)} after)" for key in changed[:MAX_KEYS]
        ]
        more = [f"{len(changed) - MAX_KEYS} more"] if len(changed) > MAX_KEYS else []
        yield f"The scenarios differ in {'; '.join([*listed, *more])}."
    elif before.engine == after.engine and not path_differences(before, after):
        pairs = [(first["graph"], second["graph"]) for first, second in specs() if first and second]
        if any(first != second for first, second in pairs):
            yield "The scenarios are equal, but the paths differ: a file that the scenario refers to has changed."


def _value(keys: Mapping[str, Any], key: str) -> str:
    value = keys.get(key, _MISSING)
    return value if isinstance(value, str) else repr(value)
