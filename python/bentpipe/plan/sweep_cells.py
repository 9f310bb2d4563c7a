"""Scenarios of the cells of a sweep; tables that no cell sets are validated once and shared by all cells."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.scenario.base import Table
from bentpipe.scenario.link.direction import Direction
from bentpipe.scenario.model import Scenario, validate
from bentpipe.scenario.presets import PRESET, expand_preset
from bentpipe.scenario.sweep import set_key, settings, swept_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.plan.document import ScenarioDocument

__all__ = ["Scenarios"]

MEMBERS = {"path": ("segment", "proxy", "handover"), "graph": ("link", "node", "handover")}
"""Lists with named members, whose names are parts of swept keys; ``flow`` is another."""


class Scenarios:
    """Scenarios of the cells of one document."""

    def __init__(
        self, document: ScenarioDocument, prepare: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Index the swept keys of a document.

        Args:
            document: the document.
            prepare: changes the data of a cell in place before its validation.
        """
        data = document.data
        # A copy by pickle takes a fifth of the time of deepcopy.
        self._pickled = pickle.dumps({key: value for key, value in data.items() if key != "sweep"})
        self._folder, self._prepare = document.folder, prepare
        self._sweeps_preset = PRESET in swept_keys(data.get("sweep"))
        keys = [key.split(".") for key in swept_keys(data.get("sweep"))]
        self._roots = {parts[0] for parts in keys}
        self._member_keys: dict[tuple[str, str], set[str]] = defaultdict(set)
        for parts in keys:
            if len(parts) > 2:
                self._member_keys[parts[0], parts[1]] |= _member_keys(parts[2:], parts[0])
        self._first: Scenario | None = None

    def of(self, values: Mapping[str, Any]) -> Scenario:
        """Return the scenario of a cell, given its swept values. Raises ScenarioError."""
        data: dict[str, Any] = pickle.loads(self._pickled)  # noqa: S301 - pickled by this object
        cell = settings(values)
        if self._sweeps_preset:
            path = data.setdefault("path", {})
            if PRESET in cell and isinstance(path, dict):
                path["preset"] = cell.pop(PRESET)
            expand_preset(data, self._folder)
        for key, value in cell.items():
            set_key(data, key, copy.deepcopy(value))
        if self._prepare is not None:
            self._prepare(data)
        if self._first is not None:
            try:
                return Scenario.model_validate(self._reuse(data, self._first))
            except ValidationError:
                pass  # the full validation below reports the problem
        scenario = validate(data)
        self._first = self._first or scenario
        return scenario

    def _reuse(self, data: Mapping[str, Any], first: Scenario) -> dict[str, Any]:
        """Replace tables that no cell sets by those of the first cell, which pydantic accepts without validation."""
        merged = dict(data)
        for name, raw in data.items():
            valid = getattr(first, name)
            if name == "path" and self._sweeps_preset:
                continue  # the cells have other segments
            if name not in self._roots:
                merged[name] = valid if isinstance(valid, (Table, dict)) else raw
            elif name == "flow":
                merged[name] = self._members(name, raw, valid)
            elif name in MEMBERS:
                lists = {
                    key: self._members(name, raw[key], getattr(valid, key))
                    for key in MEMBERS[name]
                    if key in raw
                }
                merged[name] = {**raw, **lists}
        return merged

    def _members(self, root: str, raw: Sequence[Any], valid: Sequence[Any]) -> list[Any]:
        """Return the members of a list; keys that a cell sets keep their raw value."""
        return [self._member(root, member, table) for member, table in zip(raw, valid, strict=True)]

    def _member(self, root: str, raw: Any, valid: Table) -> Any:
        swept = self._member_keys.get((root, str(getattr(valid, "name", ""))))
        if swept is None:
            return valid
        if not isinstance(raw, dict):
            return raw
        tables = {key: getattr(valid, key, None) for key in raw.keys() - swept}
        return raw | {key: table for key, table in tables.items() if isinstance(table, Table)}


def _member_keys(parts: Sequence[str], root: str) -> set[str]:
    """Return the keys of a member that a swept key sets; a link's key of a direction sets both directions."""
    if root != "flow" and parts[0] in Direction.model_fields and parts[0] != "delay":
        return {"up", "down"}
    return {parts[0]}
