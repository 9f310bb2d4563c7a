"""Several stores side by side, read as one store: what differs in their settings becomes a part of each cell."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from bentpipe.store.files import StoreError
from bentpipe.store.index import RunDirectory, StoreIndex
from bentpipe.store.reader import Store
from bentpipe.store.settings import differing_settings, format_differences, lookup, scenario_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["JoinedStore", "join_stores"]

MAX_KEYS = 2
"""Largest number of differing settings that become columns; with more of them the directory names a store."""

MAX_TITLE_KEYS = 3
"""Largest number of differing settings in the title."""


def join_stores(paths: Sequence[Path]) -> Store:
    """Return one store, or several side by side.

    Raises:
        StoreError: no store, or a run is in two of them.
    """
    stores = [Store(path) for path in paths]
    return stores[0] if len(stores) == 1 else JoinedStore(stores)


class JoinedStore(Store):
    """Stores side by side, for reading. The directories stay as they are."""

    def __init__(self, stores: Sequence[Store]) -> None:
        """Join stores.

        Args:
            stores: the stores.

        Raises:
            StoreError: a run is in two stores.
        """
        first = stores[0]
        self.__dict__.update(first.__dict__)
        self._parts = tuple(stores)
        self._snapshot = self._index = self._ends = None
        differences = differing_settings(stores)
        self.engine = " and ".join(dict.fromkeys(store.engine for store in stores))
        self.settings = tuple(dict.fromkeys(text for store in stores for text in store.settings))
        self.title = _title(stores, differences)
        self.planned = tuple(_rows(stores, differences))

    @property
    def parts(self) -> tuple[Store, ...]:
        """The stores."""
        return self._parts

    @property
    def scenario(self) -> str:
        """Texts of the scenarios, each below the name of its store, or once if they are equal."""
        texts = [store.scenario for store in self._parts]
        if len(set(texts)) == 1:
            return texts[0]
        return "\n".join(f"# {store.path}\n{text}" for store, text in zip(self._parts, texts, strict=True))

    def has_scenario(self, scenario: str) -> bool:
        """Return whether every store has this scenario."""
        return all(store.has_scenario(scenario) for store in self._parts)

    def _find_index(self) -> StoreIndex:
        if self._snapshot is not None:
            return self._snapshot
        folders: dict[str, RunDirectory] = {}
        faults: dict[str, str] = {}
        for store in self._parts:
            index, place = store._find_index(), store.path.resolve()  # noqa: SLF001 - of the same class
            absolute = {
                folder.name: dataclasses.replace(folder, name=str(place / folder.name))
                for folder in index.folders.values()
            }
            folders |= {run: absolute[folder.name] for run, folder in index.folders.items()}
            faults |= index.faults
        return StoreIndex(self.path, folders, faults)


def _title(stores: Sequence[Store], differences: Mapping[str, Sequence[object]]) -> str:
    """Return the titles of the stores, and what differs in their settings."""
    title = " | ".join(dict.fromkeys(store.title for store in stores))
    if differences:
        return f"{title}: {format_differences(differences, MAX_TITLE_KEYS, ' | ')}"
    engines = list(dict.fromkeys(store.engine for store in stores))
    if len(engines) > 1:
        return f"{title}: engine {' | '.join(engines)}"
    return f"{title}: {' | '.join(str(store.path) for store in stores)}"


def _rows(stores: Sequence[Store], differences: Mapping[str, Sequence[object]]) -> list[dict[str, Any]]:
    """Return the planned runs of all stores, with the differing settings in their cells."""
    swept = list(dict.fromkeys(key for store in stores for key in store.keys))
    labels: list[dict[str, Any]] = [
        {key: values[place] for key, values in differences.items() if key not in swept}
        for place in range(len(stores))
    ]
    fixed = [_fixed(store, swept) for store in stores]
    if len(labels[0]) <= MAX_KEYS:
        rows = _label_rows(stores, labels, fixed)
        if len({json.dumps([row["cell"], row["seed"]], sort_keys=True) for row in rows}) == len(rows):
            return rows
    name = "store" if "store" not in swept else "store directory"
    return _label_rows(stores, [{name: str(store.path)} for store in stores], fixed)


def _label_rows(
    stores: Sequence[Store], labels: Sequence[Mapping[str, Any]], fixed: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    owners: dict[str, Store] = {}
    rows = []
    for store, label, other in zip(stores, labels, fixed, strict=True):
        for row in store.planned:
            owner = owners.setdefault(row["id"], store)
            if owner is not store:
                text = f"run {row['id']} is in {owner.path} and in {store.path}"
                raise StoreError(f"{text}; expected stores with different settings, engines or cells")
            rows.append({**row, "cell": {**label, **other, **row["cell"]}})
    return rows


def _fixed(store: Store, swept: Sequence[str]) -> dict[str, Any]:
    """Return the values of keys that other stores sweep, as far as the scenario of this store sets them."""
    others = [key for key in swept if key not in store.keys and "." in key]
    if not others:
        return {}
    try:
        settings = scenario_keys(store)
    except (StoreError, ValueError):
        return {}
    found = {key: lookup(settings, key) for key in others}
    return {key: value for key, value in found.items() if value is not None}
