"""Differences between the scenarios of two stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import load_scenario
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.input_file import parse_toml
from bentpipe.scenario.sweep import parse_override
from bentpipe.store.files import StoreError

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import RunSpec
    from bentpipe.store.reader import Store

__all__ = ["scenario_differences"]

MAX_KEYS = 5
"""Keys that a note lists; it counts the others."""

_IGNORED = ("title", "seeds", "sweep")
"""Keys outside the comparison; cells and seeds pair the runs instead."""

_MISSING = "not set"


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
        first, second = (_keys(store) for store in (before, after))
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
    elif before.engine == after.engine:
        pairs = [(first["graph"], second["graph"]) for first, second in specs() if first and second]
        if any(first != second for first, second in pairs):
            yield "The scenarios are equal, but the paths differ: a file that the scenario refers to has changed."


def _keys(store: Store) -> dict[str, object]:
    """Return every key of a store's scenario, in the form of ``--set``, with its value after the store's overrides."""
    text, overrides = store.scenario, store.settings
    try:
        data = load_scenario(parse_toml(text), [parse_override(override) for override in overrides]).data
    except ScenarioError:  # the store does not contain a preset in a file beside the scenario
        data = parse_toml(text) | {"--set": list(overrides)}
    return {key: value for key, value in _flatten(data, "") if key.split(".")[0] not in _IGNORED}


def _flatten(value: object, key: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield from _flatten(child, f"{key}.{name}" if key else str(name))
    elif (
        isinstance(value, list)
        and value
        and all(isinstance(item, Mapping) and "name" in item for item in value)
    ):
        for item in value:
            children = {name: child for name, child in item.items() if name != "name"}
            yield f"{key}.{item['name']}", "present"
            yield from _flatten(children, f"{key.removesuffix('.segment')}.{item['name']}")
    else:
        yield key, value


def _value(keys: Mapping[str, Any], key: str) -> str:
    value = keys.get(key, _MISSING)
    return value if isinstance(value, str) else repr(value)
