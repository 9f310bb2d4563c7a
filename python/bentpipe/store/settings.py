"""Settings of stores: keys of their scenarios with their overrides, and the keys in which several stores differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bentpipe.plan.document import load_scenario
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.input_file import parse_toml
from bentpipe.scenario.presets import PRESET
from bentpipe.scenario.sweep import SWEEP, axes_of, parse_override, set_key
from bentpipe.store.files import StoreError

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = [
    "constant_keys",
    "describe_collision",
    "differing_settings",
    "effective_scenario",
    "format_differences",
    "lookup",
    "scenario_keys",
]

IGNORED = ("title", "seeds", "sweep")
"""Keys outside a comparison; cells and seeds pair the runs instead."""

_SIDES = ("up", "down")


def effective_scenario(store: Store) -> str:
    """Return the scenario of a store as TOML with the overrides of the command line, and with its comments.

    An override of a key that the text lacks, such as one of a preset, is a comment at the end.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if not store.settings:
        return store.scenario
    rest = []
    try:
        document = tomlkit.parse(store.scenario)
        for text in store.settings:
            key, value = parse_override(text)
            axis = key.removeprefix(SWEEP)
            sweep = document.get("sweep", {})
            if axis != key or axis in sweep:
                values = value if isinstance(value, list) else [value]
                if not sweep:
                    document["sweep"] = tomlkit.table()
                document["sweep"][axis] = values
                continue
            try:
                set_key(document, key, value)
            except ScenarioError:
                rest.append(text)
        shown = tomlkit.dumps(document)
    except (TOMLKitError, ScenarioError, ValueError, TypeError):
        return "\n".join([store.scenario.rstrip(), *(f"# --set {text}" for text in store.settings), ""])
    return "\n".join([shown.rstrip(), *(f"# --set {text}" for text in rest), ""])


def scenario_keys(store: Store) -> dict[str, object]:
    """Return every key of a store's scenario, in the form of ``--set``, with its value after the store's overrides.

    Raises:
        StoreError: the scenario is damaged.
        ValueError: it is not a scenario.
    """
    return _keys_of_text(store.scenario, store.settings)


def describe_collision(store: Store, text: str, overrides: Sequence[str]) -> str:
    """Return the first keys in which a store and another scenario differ, each with both values.

    Args:
        store: the store.
        text: the other scenario, TOML.
        overrides: its ``KEY=VALUE`` texts.
    """
    try:
        old, new = store.scenario, text
        before = _keys_of_text(old, store.settings) | _sweep_keys(old)
        after = _keys_of_text(new, overrides) | _sweep_keys(new)
    except (StoreError, ScenarioError, ValueError):
        return ""
    first, second = (_preset_of_text(scenario) for scenario in (old, new))
    if first != second:
        before, after = (
            {PRESET: preset} | {key: value for key, value in keys.items() if not key.startswith("path.")}
            for keys, preset in ((before, first), (after, second))
        )
    changed = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    texts = [
        f"{key} is {_text(before.get(key))} there and {_text(after.get(key))} now"
        for key in changed[:MAX_KEYS]
    ]
    more = [f"{len(changed) - MAX_KEYS} more keys differ"] if len(changed) > MAX_KEYS else []
    return "; ".join([*texts, *more])


MAX_KEYS = 3
"""Differing keys that a message names; it counts the others."""


def _sweep_keys(text: str) -> dict[str, object]:
    """Return the values of each axis of a sweep; of a tied axis, the keys of each labelled value."""
    found: dict[str, object] = {}
    for axis, values in axes_of(parse_toml(text).get("sweep")).items():
        if not all(isinstance(value, Mapping) for value in values):
            found[f"sweep.{axis}"] = values
            continue
        for number, value in enumerate(values, 1):
            keys = dict(_flatten(value, ""))
            label = keys.pop("label", number)
            found |= {f'sweep.{axis} "{label}" {key}': setting for key, setting in keys.items()}
    return found


def _preset_of_text(text: str) -> object:
    path = parse_toml(text).get("path")
    return path.get("preset") if isinstance(path, Mapping) else None


def _keys_of_text(text: str, overrides: Sequence[str]) -> dict[str, object]:
    """Return every key of a scenario but those outside a comparison. Raises ValueError if it is none."""
    try:
        data = load_scenario(parse_toml(text), [parse_override(override) for override in overrides]).data
    except ScenarioError:  # the store does not contain a preset in a file beside the scenario
        data = parse_toml(text) | {"--set": list(overrides)}
    keys = {key: value for key, value in _flatten(data, "") if key.split(".")[0] not in IGNORED}
    return _split_sides(keys)


def _split_sides(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a link's ``both`` as those of its directions, where these are not set."""
    found: dict[str, object] = {}
    for key, value in keys.items():
        parts = key.split(".")
        if parts[0] in ("path", "graph") and parts[2:3] == ["both"]:
            for side in _SIDES:
                found.setdefault(".".join([*parts[:2], side, *parts[3:]]), value)
        else:
            found[key] = value
    return found


def differing_settings(stores: Sequence[Store]) -> dict[str, tuple[object, ...]]:
    """Return the keys in which the scenarios of stores differ, each with one value for each store; None: not set.

    Different presets count as one key. A key of both directions of a link counts once. A swept key with one value is a
    setting. A scenario that cannot be read has no keys.
    """
    settings = [_readable_keys(store) | constant_keys(store) for store in stores]
    presets = [_preset(store) for store in stores]
    if len(set(presets)) > 1:
        settings = [
            {key: value for key, value in keys.items() if not key.startswith("path.")}
            | {PRESET: preset}
            | {
                key: value
                for key, value in _overrides(store).items()
                if key.startswith("path.") and key != PRESET
            }
            for store, keys, preset in zip(stores, settings, presets, strict=True)
        ]
    names = dict.fromkeys(key for keys in settings for key in keys)
    differing = {key: tuple(keys.get(key) for keys in settings) for key in names}
    differing = {
        key: values for key, values in differing.items() if any(value != values[0] for value in values)
    }
    merged: dict[str, tuple[object, ...]] = {}
    for key, values in differing.items():
        parts = key.split(".")
        if parts[0] in ("path", "graph") and parts[2:3] and parts[2] in _SIDES:
            other = [*parts[:2], _SIDES[parts[2] == "up"], *parts[3:]]
            if differing.get(".".join(other)) == values:
                merged[".".join([*parts[:2], *parts[3:]])] = values
                continue
        merged[key] = values
    return merged


def constant_keys(store: Store) -> dict[str, object]:
    """Return the swept keys that have one value in all planned runs of a store."""
    first = store.planned[0]["cell"] if store.planned else {}
    return {
        key: value
        for key, value in first.items()
        if "." in key and all(row["cell"].get(key) == value for row in store.planned)
    }


def lookup(settings: Mapping[str, object], key: str) -> object:
    """Return the value of a swept key in the settings of a store without this sweep; None if it is not set."""
    parts = key.split(".")
    forms = [key, *(".".join([*parts[:2], side, *parts[2:]]) for side in _SIDES)]
    return next((settings[form] for form in forms if form in settings), None)


def format_differences(differences: Mapping[str, Sequence[object]], limit: int, separator: str) -> str:
    """Return differing keys with their values as text; with more than ``limit``, count the others."""
    listed = [
        f"{key} {separator.join(_text(value) for value in values)}"
        for key, values in list(differences.items())[:limit]
    ]
    more = [f"{len(differences) - limit} more"] if len(differences) > limit else []
    return "; ".join([*listed, *more])


def _text(value: object) -> str:
    return "not set" if value is None else value if isinstance(value, str) else repr(value)


def _readable_keys(store: Store) -> dict[str, object]:
    try:
        return scenario_keys(store)
    except (StoreError, ValueError):
        return {}


def _overrides(store: Store) -> dict[str, object]:
    return dict(parse_override(text) for text in store.settings)


def _preset(store: Store) -> object:
    """Return the preset of a store's path; None without one."""
    try:
        path = parse_toml(store.scenario).get("path")
    except (StoreError, ValueError):
        return None
    preset = path.get("preset") if isinstance(path, dict) else None
    return constant_keys(store).get(PRESET, _overrides(store).get(PRESET, preset))


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
