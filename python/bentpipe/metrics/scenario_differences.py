"""Differences between the scenarios of two stores, so that a comparison names different paths."""

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

NAMED = 5
"""Keys that a note names; it counts the others."""

_OTHER = ("title", "seeds", "sweep")
"""Keys that say nothing about a run: cells and seeds pair runs."""

_MISSING = "not set"


def scenario_differences(
    before: Store, after: Store, specs: Callable[[], Sequence[tuple[RunSpec | None, RunSpec | None]]]
) -> Iterator[str]:
    """Yield a sentence on the keys in which the scenarios of two stores differ; nothing where they are equal.

    Where the scenarios are equal, and one engine made both stores, the resolved paths of every cell are compared:
    these contain the traces and presets that a scenario refers to.

    Args:
        before: a store.
        after: another one.
        specs: returns what a common run of each cell resolved to, before and after; called only if it is needed.
    """
    try:
        first, second = (_keys(store) for store in (before, after))
    except (StoreError, ScenarioError, ValueError) as error:
        yield f"The scenarios cannot be compared: {error}."
        return
    changed = [
        key
        for key in (*first, *(one for one in second if one not in first))
        if first.get(key) != second.get(key)
    ]
    if changed:
        named = [
            f"{key} ({_value(first, key)} before, {_value(second, key)} after)" for key in changed[:NAMED]
        ]
        more = [f"{len(changed) - NAMED} more"] if len(changed) > NAMED else []
        yield f"The scenarios differ in {'; '.join([*named, *more])}."
    elif before.engine == after.engine:
        pairs = [(first["graph"], second["graph"]) for first, second in specs() if first and second]
        if any(first != second for first, second in pairs):
            yield "The scenarios are equal, but the paths differ: a file that the scenario refers to has changed."


def _keys(store: Store) -> dict[str, object]:
    """Every key of a store's scenario with its value, as ``--set`` writes them, the store's own settings included."""
    text, overrides = store.scenario, store.overrides
    try:
        data = load_scenario(parse_toml(text), [parse_override(one) for one in overrides]).data
    except ScenarioError:  # a preset in a file beside the scenario, which the store does not contain
        data = parse_toml(text) | {"--set": list(overrides)}
    return {key: value for key, value in _flat(data, "") if key.split(".")[0] not in _OTHER}


def _flat(value: object, key: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for word, inner in value.items():
            yield from _flat(inner, f"{key}.{word}" if key else str(word))
    elif (
        isinstance(value, list) and value and all(isinstance(one, Mapping) and "name" in one for one in value)
    ):
        for one in value:
            inner = {word: part for word, part in one.items() if word != "name"}
            yield f"{key}.{one['name']}", "is there"
            yield from _flat(inner, f"{key.removesuffix('.segment')}.{one['name']}")
    else:
        yield key, value


def _value(keys: Mapping[str, Any], key: str) -> str:
    value = keys.get(key, _MISSING)
    return value if isinstance(value, str) else repr(value)
